/* What the two kinds of fakes share; for their own files. */
#ifndef TEST_FAKE_PRIVATE_H
#define TEST_FAKE_PRIVATE_H

#include "peers/fakes.h"

struct fake_ops {
    const char *method;
    rpc_stream_ops_t stream;
    void (*send)(fake_t *fake, const Control__Ping *ping, const Control__Pong *pong);
};

void fake_init(fake_t *fake, const struct fake_ops *ops, fakes_t *fakes, uint64_t instance_id);
void fake_connect(fake_t *fake);
/* The first and the last of a stream. */
void fake_opened(fake_t *fake, rpc_stream_t *stream);
void fake_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text);
/* What every frame may bring; pings are answered. */
void fake_heard(fake_t *fake, uint64_t epoch, const Control__Welcome *welcome, const Control__Ping *ping,
                const Control__Pong *pong);

#endif
