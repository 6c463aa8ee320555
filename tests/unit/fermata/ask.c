#include "fermata/client/ask.h"

#include <criterion/criterion.h>
#include <string.h>

Test(ask, models_of_a_state)
{
    json_t *state =
        json_loads("{\"models\": [{\"name\": \"a\", \"version\": 3, \"ready\": true, \"reason\": \"\"},"
                   " {\"name\": \"b\", \"version\": 1, \"ready\": false, \"reason\": \"w: loading\"},"
                   " {\"name\": \"c\", \"version\": 1, \"ready\": false, \"reason\": \"bad node\"}]}",
                   0, NULL);
    static const model_readiness_t expected[] = {MODEL_IS_READY, MODEL_IS_LOADING, MODEL_HAS_FAILED};
    model_state_t models[3];
    cr_assert_eq(ask_listed(state, models, 3), 3);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(models[i].readiness, expected[i], "model %d", i);
    cr_expect_str_eq(models[0].version, "3");
    cr_expect_str_eq(models[2].reason, "bad node");
    cr_expect_eq(ask_listed(state, models, 2), 2);
    cr_expect_eq(ask_listed(NULL, models, 3), 0);
    json_decref(state);
}

Test(ask, models_of_a_repository_index)
{
    json_t *index = json_loads(
        "[{\"name\": \"a\", \"version\": \"1\", \"state\": \"READY\", \"reason\": \"\"},"
        " {\"name\": \"b\", \"version\": \"2\", \"state\": \"LOADING\"},"
        " {\"name\": \"c\", \"state\": \"UNAVAILABLE\", \"reason\": \"bad node\"},"
        " {\"name\": \"d\", \"state\": \"UNAVAILABLE\", \"reason\": \"loading\"},"
        " {\"name\": \"e\", \"state\": \"UNAVAILABLE\"}, 7,"
        " {\"name\": \"f\", \"state\": \"UNAVAILABLE\", \"reason\": \"w: unloaded\"},"
        " {\"name\": \"g\", \"state\": \"UNAVAILABLE\", \"reason\": \"w: unloaded; x: failed: bad\"},"
        " {\"name\": \"h\", \"state\": \"UNLOADING\", \"reason\": \"w: unloading\"}]",
        0, NULL);
    static const model_readiness_t expected[] = {MODEL_IS_READY,    MODEL_IS_LOADING, MODEL_HAS_FAILED,
                                                 MODEL_IS_LOADING,  MODEL_IS_LOADING, MODEL_IS_LOADING,
                                                 MODEL_IS_UNLOADED, MODEL_HAS_FAILED, MODEL_IS_UNLOADED};
    model_state_t models[9];
    cr_assert_eq(ask_models(index, models, 9), 9);
    for (int i = 0; i < 9; i++)
        cr_expect_eq(models[i].readiness, expected[i], "model %d", i);
    cr_expect_str_eq(models[1].version, "2");
    cr_expect_str_eq(models[2].reason, "bad node");
    cr_expect_eq(ask_models(index, models, 2), 2);
    cr_expect_eq(ask_models(NULL, models, 6), 0);
    json_decref(index);
}
