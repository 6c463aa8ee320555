/* A model on trial on each of the engines behind "auto": the plug-in of onnxruntime is here. */
#include "trial_rig.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(trial_choice, .fini = shell_program_remove);

Test(trial_choice, the_first_engine_that_passed_is_told_while_others_are_tried)
{
    heard_t heard;
    rig_t rig;

    rig_start(&rig, LOADER, 60 * NS_PER_S, "auto");
    cr_assert_eq(rig_try_early(&rig, &heard), STATUS_OK, "%s", rig.err.text);
    cr_expect_eq(heard.times, 1);
    cr_expect_str_eq(heard.engine, "onnxruntime");
    cr_expect_gt(heard.bytes, 0);
    rig_end(&rig);
}

/* It knows of the others what it was told when it was loaded. */
Test(trial_choice, a_model_that_was_loaded_meanwhile_does_not_go_on_an_engine_that_crashed_then)
{
    const trial_answer_t answers[] = {{.magic = TRIAL_MAGIC, .kind = TRIAL_FILES, .hash = "h"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_PASSED, .engine = "onnxruntime"},
                                      {.magic = TRIAL_MAGIC, .kind = TRIAL_ENGINE, .engine = "onednn"}};
    rig_t rig;

    rig_start(&rig, a_player_once(answers, 3), 60 * NS_PER_S, "auto");
    cr_assert_eq(model_place(rig.model, &rig.options, &rig.err), STATUS_OK, "%s", rig.err.text);
    cr_expect_str_eq(rig.model->without, "onednn");
    const engine_choice_t *choice = rig.devices.ops->choice;
    engine_model_t *on = rig.model->on_device[0];
    cr_expect_str_eq(choice->name(on, choice->used(on)), "onnxruntime");
    for (uint32_t i = 0; i < choice->count(on); i++)
        if (strcmp(choice->name(on, i), "onednn") == 0)
            cr_expect_eq(choice->use(on, i, &rig.err), STATUS_UNSUPPORTED);
    cr_expect(rig_says(&rig, "did not stand loading"), "%s", rig.err.text);
    rig_end(&rig);
}
