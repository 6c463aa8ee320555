/* The options (config/config.h) of every program that has an owner or a pool; cfg_type has `int transfer` (a transfer_choice_t), `bool
 * transfer_spin` and `const char *cluster_secret`, for transfer_trust_open. */
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
        {.name = "cluster_secret",                                                                         \
         .type = CONFIG_PATH,                                                                              \
         .group = "Data plane",                                                                            \
         .help = "Without certificates between services: gateways and workers prove to each other that "   \
                 "they have this file (32 bytes or more, mode 0600). All of a cluster or none.",           \
         .metavar = "FILE",                                                                                \
         .offset = offsetof(cfg_type, cluster_secret)},                                                    \
    {                                                                                                      \
        .name = "transfer_spin", .type = CONFIG_BOOL, .group = "Data plane",                               \
        .help = "RDMA: poll without pause instead of sleeping; takes a core.", .def = "false",             \
        .offset = offsetof(cfg_type, transfer_spin)                                                        \
    }

#endif
