#include "http/url.h"

#include "http/address.h"

#include <criterion/criterion.h>
#include <string.h>

Test(url, decodes_escapes)
{
    char out[16];
    cr_assert(url_decode("a%20b+%2F", 9, out, sizeof out) == STATUS_OK);
    cr_assert(strcmp(out, "a b+/") == 0);
    cr_assert(url_decode("", 0, out, sizeof out) == STATUS_OK && out[0] == '\0');
}

Test(url, refuses_broken_escapes_and_lack_of_room)
{
    char out[4];
    const char *const bad[] = {"%", "%2", "%zz", "a%0", "%00", "%-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(url_decode(bad[i], strlen(bad[i]), out, sizeof out) == STATUS_INVALID_ARGUMENT, "%s",
                  bad[i]);
    cr_assert(url_decode("abcd", 4, out, sizeof out) == STATUS_TOO_LARGE);
    cr_assert(url_decode("abc", 3, out, sizeof out) == STATUS_OK);
    cr_assert(url_decode("", 0, out, 0) == STATUS_TOO_LARGE);
}

Test(url, finds_query_values)
{
    char out[16];
    cr_assert(url_query_get("aa=0&a=1+2&b=%41&c", "a", out, sizeof out) == STATUS_OK &&
              strcmp(out, "1 2") == 0);
    cr_assert(url_query_get("aa=0&a=1&b=%41&c", "b", out, sizeof out) == STATUS_OK && strcmp(out, "A") == 0);
    cr_assert(url_query_get("a=1&c", "c", out, sizeof out) == STATUS_OK && out[0] == '\0');
    cr_assert(url_query_get("aa=1", "a", out, sizeof out) == STATUS_NOT_FOUND);
    cr_assert(url_query_get("", "a", out, sizeof out) == STATUS_NOT_FOUND);
}

Test(address, reads_and_prints)
{
    struct sockaddr_storage address;
    char text[64];
    cr_assert(address_parse("http://127.0.0.1:80/", &address, NULL) == STATUS_OK);
    address_print(&address, text, sizeof text);
    cr_assert(strcmp(text, "127.0.0.1:80") == 0);
    cr_assert(address_parse("[::1]:9", &address, NULL) == STATUS_OK);
    address_print(&address, text, sizeof text);
    cr_assert(strcmp(text, "[::1]:9") == 0);
    const char *const bad[] = {"", "127.0.0.1", "127.0.0.1:", ":x", "::1:80", "host:123456789", "[::1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(address_parse(bad[i], &address, NULL) == STATUS_INVALID_ARGUMENT, "%s", bad[i]);
}
