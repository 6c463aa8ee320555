#include "sim/net.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const net_t net_rdma = {
    .quantiles = {{0, 24000}, {0.5, 25000}, {0.99, 29000}, {0.9999, 33000}, {1, 33000}}, .count = 5};
static const net_t net_tcp = {
    .quantiles =
        {{0, 1500000}, {0.5, 3034000}, {0.9, 6000000}, {0.99, 15000000}, {0.9999, 36408000}, {1, 36408000}},
    .count = 6};

static status_t parse_row(const char *path, unsigned line_number, const char *line, net_t *net, err_t *err)
{
    double at, delay_us;
    int used = 0;
    const net_quantile_t *last = net->count ? &net->quantiles[net->count - 1] : NULL;
    if (sscanf(line, "%lf,%lf%n", &at, &delay_us, &used) != 2 || line[used] != '\0')
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: not quantile,delay_us", path, line_number);
    if (!(at >= 0 && at <= 1) || !(delay_us >= 0 && delay_us <= 1e9))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: value out of range", path, line_number);
    int64_t value_ns = llround(delay_us * 1e3);
    if (last && (at <= last->at || value_ns < last->value_ns))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: rows must rise", path, line_number);
    if (net->count == NET_QUANTILES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: more than %d rows", path, line_number,
                       NET_QUANTILES_MAX);
    net->quantiles[net->count++] = (net_quantile_t){.at = at, .value_ns = value_ns};
    return STATUS_OK;
}

static status_t read_rows(const char *path, FILE *file, net_t *net, err_t *err)
{
    char line[256];
    unsigned line_number = 0;
    while (fgets(line, sizeof(line), file)) {
        line_number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (line_number == 1) {
            if (strcmp(line, "quantile,delay_us") != 0)
                return err_set(err, STATUS_INVALID_ARGUMENT, "%s:1: missing column: quantile,delay_us", path);
            continue;
        }
        if (line[0] == '\0' || line[0] == '#')
            continue;
        status_t status = parse_row(path, line_number, line, net, err);
        if (status != STATUS_OK)
            return status;
    }
    if (net->count == 0 || net->quantiles[0].at > 0 || net->quantiles[net->count - 1].at < 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: rows must go from quantile 0 to 1", path,
                       line_number);
    return STATUS_OK;
}

static bool parse_fixed(const char *text, net_t *net)
{
    double ctrl_us, data_us = 0;
    int used = 0;
    if (sscanf(text, "fixed:%lf%n", &ctrl_us, &used) != 1)
        return false;
    if (text[used] == ',') {
        int more = 0;
        if (sscanf(text + used, ",%lf%n", &data_us, &more) != 1)
            return false;
        used += more;
    }
    if (text[used] != '\0' || !(ctrl_us >= 0 && ctrl_us <= 1e9) || !(data_us >= 0 && data_us <= 1e9))
        return false;
    *net = (net_t){.count = 1, .data_ns = llround(data_us * 1e3)};
    net->quantiles[0] = (net_quantile_t){.at = 0, .value_ns = llround(ctrl_us * 1e3)};
    return true;
}

status_t net_parse(const char *text, net_t *net, err_t *err)
{
    net_t parsed = {0};
    if (strcmp(text, "zero") == 0 || parse_fixed(text, &parsed)) {
        *net = parsed;
        return STATUS_OK;
    }
    if (strcmp(text, "rdma") == 0 || strcmp(text, "tcp") == 0) {
        *net = text[0] == 'r' ? net_rdma : net_tcp;
        return STATUS_OK;
    }
    FILE *file = fopen(text, "re");
    if (!file)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "net '%.80s' is none of zero, rdma, tcp, fixed:US, nor a file: %s", text,
                       strerror(errno));
    status_t status = read_rows(text, file, &parsed, err);
    fclose(file);
    if (status == STATUS_OK)
        *net = parsed;
    return status;
}

int64_t net_quantile_ns(const net_t *net, double part)
{
    if (net->count == 0)
        return 0;
    for (uint32_t i = 1; i < net->count; i++) {
        const net_quantile_t *low = &net->quantiles[i - 1], *high = &net->quantiles[i];
        if (part <= high->at)
            return low->value_ns + llround((double)(high->value_ns - low->value_ns) * (part - low->at) /
                                           (high->at - low->at));
    }
    return net->quantiles[net->count - 1].value_ns;
}

int64_t net_delay_ns(const net_t *net, prng_t *prng)
{
    return net->count ? net_quantile_ns(net, prng_uniform(prng)) : 0;
}

int64_t net_bound_ns(const net_t *net)
{
    return net_quantile_ns(net, 0.9999);
}
