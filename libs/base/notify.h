/*
 * Tells the service manager that started this process how it is: systemd's notification protocol (sd_notify(3)), a datagram to the socket
 * that NOTIFY_SOCKET names. Where there is none nothing happens. Any thread.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include "base/status.h"

#include <stdint.h>

/* "READY=1", "STOPPING=1", …; several lines are fine. IO: it could not be sent, which is nobody's trouble but the manager's. */
status_t notify_send(const char *state, err_t *err);

/* What SIGHUP begins, with the time that the protocol wants; READY=1 ends it. */
status_t notify_reloading(err_t *err);

/* How long the manager waits for "WATCHDOG=1" before it takes this process for dead; 0: it does not. */
int64_t notify_watchdog_ns(void);

#endif
