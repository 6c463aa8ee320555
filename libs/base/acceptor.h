/*
 * Taking connections from a listener, also when descriptors have run out. A descriptor is kept in reserve: given up, it lets one
 * connection that waits be taken and closed, so that its client hears at once, and the listener does not report it without end.
 * Told of (`out_of_descriptors`, with a rate) and counted. One thread for each acceptor.
 */
#ifndef BASE_ACCEPTOR_H
#define BASE_ACCEPTOR_H

#include <stdint.h>
#include <sys/socket.h>

typedef struct {
    int reserve;      /* -1: it could not be had again yet */
    const char *door; /* for the log; the caller's */
} acceptor_t;

enum {
    ACCEPTOR_EMPTY = -1, /* nobody waits any more */
    ACCEPTOR_LOST = -2,  /* one is gone, by itself or turned away: ask again */
    ACCEPTOR_STUCK =
        -3, /* nothing can be taken, and the listener goes on to report it: look again after a while */
};

void acceptor_init(acceptor_t *acceptor, const char *door);
void acceptor_dispose(acceptor_t *acceptor);

/* The descriptor of the next connection of a listener that does not block: neither does it, and it is closed on exec. Or one of the above. */
int acceptor_take(acceptor_t *acceptor, int listener, struct sockaddr_storage *from);

/* Connections of the process that were closed for want of a descriptor, since it began. Any thread. */
uint64_t acceptors_turned_away(void);

#endif
