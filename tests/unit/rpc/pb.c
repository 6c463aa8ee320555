/* protobuf-c through rpc_bytes_t and the arena. */
#include "rpc/pb.h"
#include "base/prng.h"
#include "control.pb-c.h"
#include "open_inference.pb-c.h"

#include <criterion/criterion.h>
#include <string.h>

static rpc_bytes_t *some_tasks(size_t count)
{
    uint64_t ids[256];
    int64_t budgets_ns[256];
    for (size_t i = 0; i < count; i++) {
        ids[i] = i + 1;
        budgets_ns[i] = -(int64_t)i;
    }
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    tasks.n_id = tasks.n_budget_ns = count;
    tasks.id = ids;
    tasks.budget_ns = budgets_ns;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.epoch = 7;
    frame.tasks = &tasks;
    return rpc_pack(&frame.base);
}

Test(pb, round_trip_through_the_arena)
{
    pb_arena_t arena;
    pb_arena_init(&arena, 0);
    for (int round = 0; round < 3; round++) {
        rpc_bytes_t *bytes = some_tasks(200);
        Control__GatewayToScheduler *frame = (Control__GatewayToScheduler *)rpc_unpack(
            &control__gateway_to_scheduler__descriptor, bytes, &arena);
        rpc_bytes_free(bytes); /* the message does not point into it */
        cr_assert_not_null(frame);
        cr_expect_eq(frame->epoch, 7);
        cr_assert_not_null(frame->tasks);
        cr_assert_eq(frame->tasks->n_id, 200);
        cr_expect_eq(frame->tasks->id[199], 200);
        cr_expect_eq(frame->tasks->budget_ns[199], -199);
        pb_arena_reset(&arena);
    }
    pb_arena_dispose(&arena);
}

Test(pb, a_task_costs_little_on_the_wire)
{
    rpc_bytes_t *one = some_tasks(1), *many = some_tasks(101);
    cr_expect_leq(rpc_bytes_len(many) - rpc_bytes_len(one), 100 * 16 + 8, "fixed-width and packed");
    rpc_bytes_free(one);
    rpc_bytes_free(many);
}

Test(pb, the_arena_has_a_limit)
{
    pb_arena_t arena;
    pb_arena_init(&arena, PB_ARENA_BLOCK_BYTES);
    /* 60,000 empty submessages are 120,000 bytes on the wire and some 3 MB unpacked. */
    uint8_t *data;
    rpc_bytes_t *bytes = rpc_bytes_reserve(120000, &data);
    for (size_t i = 0; i < 120000; i += 2) {
        data[i] = 5 << 3 | 2; /* ModelInferRequest.inputs */
        data[i + 1] = 0;
    }
    cr_expect_null(rpc_unpack(&inference__model_infer_request__descriptor, bytes, &arena));
    pb_arena_reset(&arena);
    cr_expect_leq(arena.total_bytes, PB_ARENA_BLOCK_BYTES);
    rpc_bytes_free(bytes);

    bytes = some_tasks(10);
    cr_expect_not_null(rpc_unpack(&control__gateway_to_scheduler__descriptor, bytes, &arena),
                       "usable afterwards");
    rpc_bytes_free(bytes);
    pb_arena_dispose(&arena);
}

Test(pb, alignment_and_growth)
{
    pb_arena_t arena;
    pb_arena_init(&arena, 10 * PB_ARENA_BLOCK_BYTES);
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        char *p = pb_arena_alloc(&arena, size);
        cr_assert_not_null(p);
        cr_expect_eq((uintptr_t)p % 16, 0);
        memset(p, 1, size);
    }
    cr_expect_null(pb_arena_alloc(&arena, SIZE_MAX));
    cr_expect_null(pb_arena_alloc(&arena, SIZE_MAX - 5));
    pb_arena_dispose(&arena);
}

Test(pb, garbage_is_refused)
{
    pb_arena_t arena;
    pb_arena_init(&arena, 0);
    prng_t prng;
    prng_init(&prng, 11);
    rpc_bytes_t *valid = some_tasks(50);
    size_t len = rpc_bytes_len(valid);
    for (int round = 0; round < 2000; round++) {
        uint8_t *data;
        rpc_bytes_t *bytes = rpc_bytes_reserve(len, &data);
        memcpy(data, rpc_bytes_flat(valid), len);
        for (int flips = 0; flips < 3; flips++)
            data[prng_below(&prng, len)] = (uint8_t)prng_u64(&prng);
        (void)rpc_unpack(&control__gateway_to_scheduler__descriptor, bytes, &arena); /* either, but no harm */
        rpc_bytes_free(bytes);
        pb_arena_reset(&arena);
    }
    rpc_bytes_t *truncated = rpc_bytes_copy(rpc_bytes_flat(valid), len - 1);
    cr_expect_null(rpc_unpack(&control__gateway_to_scheduler__descriptor, truncated, &arena));
    rpc_bytes_free(truncated);
    rpc_bytes_free(valid);
    pb_arena_dispose(&arena);
}

Test(pb, bytes_of_several_pieces_are_read_and_joined_alike)
{
    enum { BYTES = 1000 }; /* short ones gRPC puts together by itself */
    uint8_t pieces[2 * BYTES], read[2 * BYTES];
    for (int i = 0; i < 2 * BYTES; i++)
        pieces[i] = (uint8_t)(i * 7);
    const rpc_part_t parts[] = {{.data = pieces, .len_bytes = BYTES},
                                {.data = pieces + BYTES, .len_bytes = BYTES}};
    rpc_bytes_t *bytes = rpc_bytes_from_parts(parts, 2);
    cr_expect_not(rpc_bytes_is_flat(bytes));
    rpc_bytes_read(bytes, read);
    cr_expect_eq(memcmp(read, pieces, sizeof read), 0);
    cr_expect_eq(memcmp(rpc_bytes_flat(bytes), pieces, sizeof pieces), 0);
    cr_expect(rpc_bytes_is_flat(bytes));
    rpc_bytes_free(bytes);
}
