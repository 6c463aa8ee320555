/* The half of `fermata plan` that asks a running scheduler. */
#ifndef FERMATA_PLAN_LIVE_H
#define FERMATA_PLAN_LIVE_H

/* The words of `fermata plan` behind its name, one of which is `show` or `apply`. Returns the exit code. */
int plan_live(int argc, char **argv);

#endif
