/* Counts what is alive of a server; the last one out ends the stop. */
#include "rpc/server_internal.h"

void rpc_server_deliver(rpc_actor_t *actor)
{
    rpc_server_t *server = container_of(actor, rpc_server_t, actor);
    pthread_mutex_lock(&server->lock);
    actor->scheduled = false;
    bool tell = server->stopped && !server->told;
    server->told |= tell;
    pthread_mutex_unlock(&server->lock);
    if (tell && server->on_stopped)
        server->on_stopped(server->on_stopped_arg); /* may destroy the server */
}

void rpc_server_release(rpc_server_t *server)
{
    pthread_mutex_lock(&server->lock);
    bool post = false;
    if (--server->objects == 0 && server->stopping) {
        server->stopped = true;
        post = rpc_actor_mark(&server->actor);
    }
    pthread_mutex_unlock(&server->lock);
    if (post)
        rpc_actor_post(server->runtime, &server->actor);
}
