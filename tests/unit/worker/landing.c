/* What UCX can, times what the engine has: where inputs land. */
#include "worker/state/landing.h"

#include <criterion/criterion.h>
#include <string.h>

Test(landing, is_the_devices_memory_only_where_all_have_it)
{
    static const struct {
        transfer_reach_t reach; /* rdma, hardware, device */
        bool has_device;
        const char *lands, *because;
    } rows[] = {
        {{false, false, false}, false, "host", "the engine reads memory of the host"},
        {{true, true, true}, false, "host", "the engine reads memory of the host"},
        {{false, false, false}, true, "pinned", "inputs do not come by RDMA"},
        {{true, false, false}, true, "pinned", "there is no hardware for RDMA"},
        {{true, false, true}, true, "pinned", "there is no hardware for RDMA"},
        {{true, true, false}, true, "pinned", "UCX takes no memory of CUDA"},
        {{true, true, true}, true, "device", "UCX takes memory of CUDA"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *why;
        landing_t landing = landing_choose(&rows[i].reach, rows[i].has_device, &why);
        cr_assert_str_eq(landing_name(landing), rows[i].lands, "row %zu", i);
        cr_assert_str_eq(why, rows[i].because, "row %zu", i);
    }
    cr_assert_str_eq(landing_name(77), "unknown");
}
