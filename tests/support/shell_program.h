/* A program for a test to start. */
#ifndef TEST_SHELL_PROGRAM_H
#define TEST_SHELL_PROGRAM_H

/* Of these shell words; its path, until it is removed. One at a time. */
const char *shell_program(const char *words);
void shell_program_remove(void);

#endif
