/* Requests whose tensors lie in shared memory of their client, through a whole gateway. */
#include "rig.h"

#include "gateway/regions/regions.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OUT_AT = 32, OBJECT_BYTES = 64 };

static rig_t rig;
static regions_t *regions;
static char key[64], path[80];
static int object = -1;

static void setup(void)
{
    err_t err;
    rig_start(&rig, 0, 16);
    cr_assert_eq(regions_create(rig.gateway.metrics, &regions, &err), STATUS_OK);
    rig.gateway.regions = regions;
    snprintf(key, sizeof key, "/fermata-test-%d-%lld", (int)getpid(), (long long)clock_now_ns());
    snprintf(path, sizeof path, "/dev/shm%s", key);
    object = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cr_assert(object >= 0 && ftruncate(object, OBJECT_BYTES) == 0);
    cr_assert_eq(regions_register(regions, "", &(oip_region_t){"r", key, 0, OBJECT_BYTES}, &err), STATUS_OK);
}

static void teardown(void)
{
    rig_stop(&rig);
    regions_destroy(regions);
    close(object);
    unlink(path);
}

TestSuite(session_memory, .init = setup, .fini = teardown, .timeout = 120);

#define PLACE(region, offset, size)                                                            \
    "\"parameters\":{\"shared_memory_region\":\"" region "\",\"shared_memory_offset\":" offset \
    ",\"shared_memory_byte_size\":" size "}"
#define INPUT(shape, place) "{\"name\":\"x\",\"shape\":" shape ",\"datatype\":\"INT32\"," place "}"
#define OUTPUT(place) "\"outputs\":[{\"name\":\"y\"," place "}]"
#define REQUEST(input, output) "{\"inputs\":[" input "]," output "}"
#define ONE_ROW REQUEST(INPUT("[1,2]", PLACE("r", "0", "8")), OUTPUT(PLACE("r", "32", "32")))

static const rig_answer_t *answer_of(int call)
{
    rig_until(&rig, rig.answers[call].status != 0);
    return &rig.answers[call];
}

static const rig_task_t *task(int index)
{
    rig_until(&rig, rig.task_count > index);
    return &rig.tasks[index];
}

static void assert_answer(int call, int status, const char *says)
{
    const rig_answer_t *answer = answer_of(call);
    cr_assert_eq(answer->status, status, "%d %s", answer->status, answer->body);
    cr_assert(strstr(answer->body, says), "'%s' is not in %s", says, answer->body);
}

Test(session_memory, rows_come_from_it_and_go_there)
{
    const int32_t sent[] = {1, 2, 3, 4, 5, 6};
    int32_t got[6];
    cr_assert_eq(pwrite(object, sent, sizeof sent, 0), sizeof sent);
    int call = rig_infer_json(&rig, "one",
                              REQUEST(INPUT("[3,2]", PLACE("r", "0", "24")), OUTPUT(PLACE("r", "32", "32"))));
    for (int i = 2; i >= 0; i--) {
        int32_t row[2];
        cr_assert_eq(rig_fetch(&rig, task(i), row), STATUS_OK);
        cr_assert(row[0] == 2 * i + 1 && row[1] == 2 * i + 2);
        row[0] *= 10;
        row[1] *= 10;
        cr_assert(rig_push(&rig, task(i), STATUS_OK, NULL, row, sizeof row));
    }
    assert_answer(call, 200, "\"outputs\":[{\"name\":\"y\",\"datatype\":\"INT32\",\"shape\":[3,2]}]");
    cr_assert_eq(pread(object, got, sizeof got, OUT_AT), sizeof got);
    cr_assert(got[0] == 10 && got[3] == 40 && got[5] == 60);
}

/* The client may do to them what it likes meanwhile. */
Test(session_memory, inputs_are_those_of_the_time_of_asking)
{
    const int32_t sent[] = {7, 8}, other[] = {1, 1};
    int32_t row[2];
    cr_assert_eq(pwrite(object, sent, sizeof sent, 0), sizeof sent);
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    (void)task(0);
    cr_assert_eq(pwrite(object, other, sizeof other, 0), sizeof other);
    cr_assert_eq(rig_fetch(&rig, task(0), row), STATUS_OK);
    cr_assert(row[0] == 7 && row[1] == 8);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, row, sizeof row));
    assert_answer(call, 200, "\"shape\":[1,2]}]");
}

Test(session_memory, a_region_may_go_while_a_request_needs_it)
{
    const int32_t made[] = {5, 6};
    int32_t got[2];
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    (void)task(0);
    regions_unregister(regions, "", "r");
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, made, sizeof made));
    assert_answer(call, 200, "\"shape\":[1,2]}]");
    cr_assert_eq(pread(object, got, sizeof got, OUT_AT), sizeof got);
    cr_assert(got[0] == 5 && got[1] == 6);
    assert_answer(rig_infer_json(&rig, "one", ONE_ROW), 400, "Unable to find shared memory region: 'r'");
}

Test(session_memory, an_object_that_becomes_shorter)
{
    const int32_t made[] = {5, 6};
    int call = rig_infer_json(&rig, "one", ONE_ROW);
    (void)task(0);
    cr_assert_eq(ftruncate(object, OUT_AT + 4), 0);
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, made, sizeof made));
    assert_answer(call, 400, "output 'y': the object of shared memory region 'r' has become shorter");
    cr_assert_eq(ftruncate(object, 4), 0);
    assert_answer(rig_infer_json(&rig, "one", ONE_ROW), 400,
                  "input 'x': the object of shared memory region 'r' has become shorter");
}

Test(session_memory, an_output_that_is_longer_than_its_place)
{
    const int32_t made[] = {5, 6};
    int call = rig_infer_json(&rig, "one",
                              REQUEST(INPUT("[1,2]", PLACE("r", "0", "8")), OUTPUT(PLACE("r", "32", "7"))));
    cr_assert(rig_push(&rig, task(0), STATUS_OK, NULL, made, sizeof made));
    assert_answer(call, 400, "output 'y': the output has 8 bytes, more than the 7");
}

Test(session_memory, what_is_wrong_is_told_before_anything_runs)
{
    static const struct {
        const char *request, *says;
        int status;
    } cases[] = {
        {REQUEST(INPUT("[1,2]", PLACE("q", "0", "8")), "\"outputs\":[]"),
         "input 'x': Unable to find shared memory region: 'q'", 400},
        {REQUEST(INPUT("[1,2]", PLACE("r", "0", "8")), OUTPUT(PLACE("q", "0", "8"))),
         "output 'y': Unable to find shared memory region: 'q'", 400},
        {REQUEST(INPUT("[1,2]", PLACE("r", "60", "8")), "\"outputs\":[]"),
         "input 'x': 8 bytes from 60 on go beyond the 64", 400},
        {REQUEST(INPUT("[1,2]", PLACE("r", "18446744073709551615", "8")), "\"outputs\":[]"), "go beyond",
         400},
        {REQUEST(INPUT("[1,2]", PLACE("r", "0", "4")), "\"outputs\":[]"),
         "input 'x' has 4 bytes, shape [1,2] of INT32 needs 8", 400},
        {REQUEST(INPUT("[1,2]", PLACE("r", "0", "0")), "\"outputs\":[]"), "of at least 1", 400},
        {REQUEST(INPUT("[1,2]", PLACE("r", "0", "8") ",\"data\":[1,2]"), "\"outputs\":[]"),
         "both data and a region", 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_answer(rig_infer_json(&rig, "one", cases[i].request), cases[i].status, cases[i].says);
    cr_assert_eq(rig.task_count, 0);
}

/* One request must not make the gateway copy for long. */
Test(session_memory, inputs_are_no_longer_than_a_body_may_be)
{
    rig.gateway.body_bytes_max = 7;
    assert_answer(rig_infer_json(&rig, "one", ONE_ROW), 413, "larger than the limit of 7 bytes");
    rig.gateway.body_bytes_max = 1 << 20;
}

Test(session_memory, is_refused_where_it_is_not_wanted)
{
    rig.gateway.regions = NULL;
    assert_answer(rig_infer_json(&rig, "one", ONE_ROW), 501, "--client-shared-memory");
    cr_assert_eq(rig.task_count, 0);
}
