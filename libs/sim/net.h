/*
 * Delays between gateways, scheduler and workers. What a message really takes is drawn; what the scheduler counts on is
 * the bound, a high percentile of it, as the service measures it.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "base/prng.h"
#include "base/status.h"
#include "sched/sched.h"

enum { NET_QUANTILES_MAX = 64 };

typedef struct {
    double at;        /* 0..1 */
    int64_t value_ns; /* that fraction of the messages takes no longer */
} net_quantile_t;

typedef struct {
    /* of one message, straight lines between; count 0: no delay at all */
    net_quantile_t quantiles[NET_QUANTILES_MAX];
    uint32_t count;
    int64_t data_ns; /* fetching one input, once the grant is there */
} net_t;

/* "zero"; "rdma" (24-33 us) and "tcp" (3 ms median, 12 times that at 99.99 %), as Symphony's Appendix B measured them;
 * "fixed:CTRL_US[,DATA_US]"; or a CSV file with columns quantile,delay_us and rising rows. */
status_t net_parse(const char *text, net_t *net, err_t *err);

int64_t net_delay_ns(const net_t *net, prng_t *prng);
/* So large a part of them takes no longer, 0 to 1. */
int64_t net_quantile_ns(const net_t *net, double part);
int64_t net_bound_ns(const net_t *net); /* of 99.99 % */

#endif
