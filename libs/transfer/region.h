/*
 * The table of published regions: handle -> bytes, with pins for the writes under way.
 *
 * A handle is {hi = generation << 32 | slot index, lo = 64 random bits}. A look-up costs the same whether the
 * handle is right or wrong: one slot read and one comparison of 128 bits. An unpublished region with pins is
 * RETIRED: no handle finds it any more, its release comes with the last unpin.
 *
 * Threads: one owns the table; others may pin and let go. A slot is written only while nobody can pin it, so that who has pinned
 * it may read it:
 *
 *   hold   | published | pins (31 bits) |     published: pins are taken; no pin and not published: the slot is the table's alone
 */
#ifndef TRANSFER_REGION_H
#define TRANSFER_REGION_H

#include "loop/mailbox.h"
#include "transfer/directory.h"
#include "transfer/transfer.h"

typedef struct {
    _Atomic uint32_t hold;
    const uint8_t *data;
    size_t len_bytes;
    transfer_handle_t handle; /* of the present or last use */
    transfer_release_fn release;
    void *ctx;
    uint32_t next_free;
    /* retired, and its last pin went on another thread: on its way to the table's */
    mailbox_node_t node;
} region_t;

enum { REGION_RANDOM_WORDS = 64 };

typedef struct {
    region_t *slots;
    uint32_t capacity;
    uint32_t used; /* slots ever used; those above were never touched, so an idle table costs no memory */
    uint32_t free_head; /* of the slots given back; REGION_NONE at the end */
    uint32_t published;
    mailbox_t *retired;           /* what others let go of last; NULL: there are no others */
    directory_entry_t *directory; /* of `capacity` entries, NULL: nobody reads by himself; */
    const uint8_t *base;          /* regions in this memory are entered there */
    size_t len_bytes;
    uint64_t random[REGION_RANDOM_WORDS]; /* one getrandom call serves this many publishes */
    uint32_t random_left;
} region_table_t;

enum { REGION_NONE = UINT32_MAX };

status_t region_table_init(region_table_t *table, uint32_t capacity);

/* From now on regions inside [base, base + len_bytes) are entered in the directory. None is published yet. */
void region_table_lay_open(region_table_t *table, directory_entry_t *directory, const void *base,
                           size_t len_bytes);

/* From now on other threads may pin. */
status_t region_table_share(region_table_t *table, struct loop *loop, err_t *err);

/* Releases whatever is still published. All pins must be gone, and other threads. */
void region_table_dispose(region_table_t *table);

status_t region_publish(region_table_t *table, const void *data, size_t len_bytes,
                        transfer_release_fn release, void *ctx, transfer_handle_t *handle);
bool region_unpublish(region_table_t *table, transfer_handle_t handle);

/* Any thread. Finds [offset, offset + len_bytes) of a region and pins it. NOT_FOUND: no such handle; INVALID_ARGUMENT:
 * outside. */
status_t region_pin(region_table_t *table, transfer_handle_t handle, uint64_t offset, uint64_t len_bytes,
                    uint32_t *index, const uint8_t **data);
/* Any thread. */
void region_unpin(region_table_t *table, uint32_t index);

#endif
