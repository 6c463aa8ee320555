#include "fermata/up/child_words.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The command line that `fermata up FLAG…` gives a service, as one text. */
static const char *command_line(role_t role, uint32_t index, const addresses_t *before, char **flags)
{
    static char text[2048];
    char *argv[32] = {(char *)(uintptr_t) "fermata up"};
    int argc = 1;
    for (; flags[argc - 1] != NULL; argc++)
        argv[argc] = flags[argc - 1];
    up_options_t o;
    config_t *config;
    config_wish_t wish;
    words_t words;
    err_t err = {0};
    cr_assert_eq(config_load(&up_schema, argc, argv, NULL, &o, &config, &wish, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(up_options_finish(&o, config, &err), STATUS_OK, "%s", err.text);
    words_init(&words);
    up_words(&words, &o, "/bin", role, index, "127.0.0.1:9000", before);
    cr_assert_not(words.failed);
    text[0] = '\0';
    for (size_t i = 0; i < words.len; i++)
        strcat(strcat(text, i > 0 ? " " : ""), words.items[i]);
    words_dispose(&words);
    config_destroy(config);
    return text;
}

#define FLAGS(...) ((char *[]){__VA_ARGS__, NULL})
static const addresses_t nothing;

/* What a worker is told of threads on a host of so many CPUs; 0: nothing. */
static int64_t threads_of(uint32_t cpus, char **flags)
{
    char *argv[32] = {(char *)(uintptr_t) "fermata up"};
    int argc = 1;
    for (; flags[argc - 1] != NULL; argc++)
        argv[argc] = flags[argc - 1];
    up_options_t o;
    config_t *config;
    config_wish_t wish;
    err_t err = {0};
    cr_assert_eq(config_load(&up_schema, argc, argv, NULL, &o, &config, &wish, &err), STATUS_OK, "%s",
                 err.text);
    up_options_share(&o, cpus);
    config_destroy(config);
    return o.threads;
}

Test(words, workers_share_the_cpus)
{
    cr_expect_eq(threads_of(8, FLAGS("--models=.")), 8);
    cr_expect_eq(threads_of(8, FLAGS("--models=.", "--threads=0")), 8, "0 asks for it");
    cr_expect_eq(threads_of(8, FLAGS("--models=.", "--workers=3")), 2);
    cr_expect_eq(threads_of(8, FLAGS("--models=.", "--workers=2", "--gpus=2")), 2);
    cr_expect_eq(threads_of(2, FLAGS("--models=.", "--workers=3")), 1);
    cr_expect_eq(threads_of(8, FLAGS("--models=.", "--threads=3")), 3);
    cr_expect_eq(threads_of(8, FLAGS("--models=.", "--mode=staged")), 0, "its stages run side by side");
    cr_expect_eq(threads_of(8, FLAGS("--models=.", "--worker-flags=--threads=5")), 0, "they are told");
}

Test(words, scheduler)
{
    cr_expect_str_eq(
        command_line(ROLE_SCHEDULER, 0, &nothing, FLAGS("--models=.", "--policy", "eager")),
        "/bin/fermata-scheduler --grpc-address 127.0.0.1:9000 --http-address 127.0.0.1:9001 --policy eager "
        "--log-level info --log-format text");
}

Test(words, gateways)
{
    char *flags[] = {"--models=.",
                     "--host=0.0.0.0",
                     "--log-format=json",
                     "--gateway-flags=--a=1",
                     "--gateway-flags=--b",
                     "--insecure",
                     NULL};
    cr_expect_str_eq(
        command_line(ROLE_GATEWAY, 0, &nothing, flags),
        "/bin/fermata-gateway --scheduler 127.0.0.1:9000 --name gateway-0 --http-address "
        "0.0.0.0:8000 --grpc-address "
        "0.0.0.0:8001 --metrics-address 0.0.0.0:8002 --data-address 127.0.0.1:8003 --insecure --log-level "
        "info --log-format "
        "json --a=1 --b");
    cr_expect_str_eq(command_line(ROLE_GATEWAY, 1, &nothing, FLAGS("--models=.")),
                     "/bin/fermata-gateway --scheduler 127.0.0.1:9000 --name gateway-1 --http-address "
                     "127.0.0.1:0 --grpc-address "
                     "127.0.0.1:0 --metrics-address 127.0.0.1:0 --data-address 127.0.0.1:0 --log-level info "
                     "--log-format text");
}

Test(words, a_second_life_has_the_addresses_of_the_first)
{
    addresses_t before = {"h:1", "h:2", "h:3", "h:4"};
    cr_expect_not_null(
        strstr(command_line(ROLE_GATEWAY, 0, &before, FLAGS("--models=.")),
               "--http-address h:1 --grpc-address h:2 --metrics-address h:3 --data-address h:4 "));
}

Test(words, workers)
{
    cr_expect_str_eq(command_line(ROLE_WORKER, 0, &nothing,
                                  FLAGS("--models=.", "--engine=emulated", "--gpus=8", "--threads=2",
                                        "--profile=p.csv", "--overlap-plan=o.txt", "--worker-config=w.yaml")),
                     "/bin/fermata-worker --scheduler 127.0.0.1:9000 --name worker-0 --models . --engine "
                     "emulated --overlap-plan o.txt --devices 8 "
                     "--threads 2 --profile p.csv --metrics-address 127.0.0.1:9101 --log-level info "
                     "--log-format text --config "
                     "w.yaml");
}

Test(words, any_port_leaves_ports_that_were_chosen)
{
    cr_expect_not_null(
        strstr(command_line(ROLE_GATEWAY, 0, &nothing, FLAGS("--models=.", "--any-port", "--grpc=5")),
               "--http-address 127.0.0.1:0 --grpc-address 127.0.0.1:5 "));
}

Test(words, too_many_are_noticed)
{
    words_t words;
    words_init(&words);
    for (int i = 0; i <= WORDS_MAX; i++)
        words_add(&words, "%d", i);
    cr_expect(words.failed);
    cr_expect_null(words.items[WORDS_MAX]);
    words_dispose(&words);
}
