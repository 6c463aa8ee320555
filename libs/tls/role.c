#include "tls/role.h"

#include <string.h>

static const char *const roles[] = {"gateway", "scheduler", "worker", "client", "admin"};
enum { ROLES = sizeof roles / sizeof *roles };

bool tls_role_is_known(const char *role)
{
    for (int i = 0; i < ROLES; i++)
        if (strcmp(role, roles[i]) == 0)
            return true;
    return false;
}

const char *tls_role_of_uri(const char *uri, size_t len_bytes)
{
    const size_t prefix = sizeof TLS_ROLE_URI - 1;
    if (len_bytes < prefix || memcmp(uri, TLS_ROLE_URI, prefix) != 0)
        return NULL;
    for (int i = 0; i < ROLES; i++)
        if (strlen(roles[i]) == len_bytes - prefix && memcmp(uri + prefix, roles[i], len_bytes - prefix) == 0)
            return roles[i];
    return NULL;
}
