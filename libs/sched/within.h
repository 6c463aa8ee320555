/* A value, or the nearest to it from `least` to `most`. */
#ifndef SCHED_WITHIN_H
#define SCHED_WITHIN_H

static inline double within(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

#endif
