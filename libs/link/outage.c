#include "link/outage.h"

#include <stdio.h>
#include <string.h>

void outage_refuse(outage_t *outage, link_t *link, rpc_code_t code, const char *text)
{
    outage->refused = code;
    snprintf(outage->refusal, sizeof(outage->refusal), "%s", text);
    link_cancel(link);
}

static bool is_news(outage_t *outage, rpc_code_t code, const char *text)
{
    char shown[OUTAGE_TEXT_BYTES];

    if (code == RPC_UNAVAILABLE) {
        bool news = !outage->told_unreachable;
        outage->told_unreachable = true;
        return news;
    }
    snprintf(shown, sizeof(shown), "%s", text);
    if (code == outage->told_code && strcmp(shown, outage->told_text) == 0)
        return false;
    outage->told_code = code;
    memcpy(outage->told_text, shown, sizeof(shown));
    return true;
}

bool outage_explain(outage_t *outage, rpc_code_t *code, const char **text)
{
    if (*code == RPC_CANCELLED && outage->refused != RPC_OK) {
        *code = outage->refused;
        *text = outage->refusal;
    } else if (*code == RPC_UNIMPLEMENTED) {
        *text = "what answers is no scheduler, or one of another version";
    }
    return is_news(outage, *code, *text);
}

void outage_try(outage_t *outage)
{
    outage->refused = RPC_OK;
}

void outage_over(outage_t *outage)
{
    *outage = (outage_t){0};
}
