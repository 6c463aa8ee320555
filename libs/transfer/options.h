/* The options (config/config.h) of every program that has an owner or a pool; cfg_type has `int transfer` (a transfer_choice_t) and `bool
 * transfer_spin`. */
#ifndef TRANSFER_OPTIONS_H
#define TRANSFER_OPTIONS_H

#include "transfer/transfer.h"

#define TRANSFER_OPTIONS(cfg_type)                                                                         \
    {.name = "transfer",                                                                                   \
     .type = CONFIG_ENUM,                                                                                  \
     .group = "Data plane",                                                                                \
     .help = "How tensors move: by RDMA hardware or shared memory where there is such a way, else by TCP " \
             "(auto); "                                                                                    \
             "by TCP only; by RDMA over whatever UCX finds, where it was built in.",                       \
     .def = "auto",                                                                                        \
     .choices = transfer_choices,                                                                          \
     .offset = offsetof(cfg_type, transfer)},                                                              \
    {                                                                                                      \
        .name = "transfer_spin", .type = CONFIG_BOOL, .group = "Data plane",                               \
        .help = "RDMA: poll without pause instead of sleeping; takes a core.", .def = "false",             \
        .offset = offsetof(cfg_type, transfer_spin)                                                        \
    }

#endif
