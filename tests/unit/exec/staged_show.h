/*
 * The inside of mode staged, for tests to look at.
 */
#ifndef TESTS_EXEC_STAGED_SHOW_H
#define TESTS_EXEC_STAGED_SHOW_H

#include "exec/staged_core.h"

typedef enum { STAGED_AVAILABLE, STAGED_INVALID, STAGED_READING, STAGED_WRITING } staged_buffer_t;

staged_state_t staged_executor(const exec_t *exec, uint32_t stage, uint32_t slot);
staged_buffer_t staged_buffer(const exec_t *exec, uint32_t border, uint32_t pair);
/* "0 bs=4 [2 2 0]; …": the batch table. "0:2+2 …": the queue before a stage. Both return the length written. */
uint32_t staged_print_table(const exec_t *exec, char *text, uint32_t size);
uint32_t staged_print_queue(const exec_t *exec, uint32_t stage, char *text, uint32_t size);

#endif
