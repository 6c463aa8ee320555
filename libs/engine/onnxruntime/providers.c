#include "engine/onnxruntime/providers.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 32, TEXT_BYTES = 160 };

typedef OrtStatus *(*append_fn)(OrtSessionOptions *options, const char *device);

/* ---- One provider ---- */

static const char *const device_key[] = {"device_id"};

static OrtStatus *append_cuda(OrtSessionOptions *options, const char *device)
{
    OrtCUDAProviderOptionsV2 *how;
    OrtStatus *failed = ort->CreateCUDAProviderOptions(&how);
    if (failed)
        return failed;
    failed = ort->UpdateCUDAProviderOptions(how, device_key, &device, 1);
    if (!failed)
        failed = ort->SessionOptionsAppendExecutionProvider_CUDA_V2(options, how);
    ort->ReleaseCUDAProviderOptions(how);
    return failed;
}

static OrtStatus *append_tensorrt(OrtSessionOptions *options, const char *device)
{
    OrtTensorRTProviderOptionsV2 *how;
    OrtStatus *failed = ort->CreateTensorRTProviderOptions(&how);
    if (failed)
        return failed;
    failed = ort->UpdateTensorRTProviderOptions(how, device_key, &device, 1);
    if (!failed)
        failed = ort->SessionOptionsAppendExecutionProvider_TensorRT_V2(options, how);
    ort->ReleaseTensorRTProviderOptions(how);
    return failed;
}

static OrtStatus *append_openvino(OrtSessionOptions *options, const char *device)
{
    (void)device;
    return ort->SessionOptionsAppendExecutionProvider(options, "OpenVINO", NULL, NULL, 0);
}

static OrtStatus *append_xnnpack(OrtSessionOptions *options, const char *device)
{
    (void)device;
    return ort->SessionOptionsAppendExecutionProvider(options, "XNNPACK", NULL, NULL, 0);
}

static OrtStatus *append_nothing(OrtSessionOptions *options, const char *device)
{
    (void)options, (void)device;
    return NULL; /* every session has the CPU, behind all others */
}

static const struct {
    const char *name, *full;
    append_fn append;
} known[] = {
    {"cuda", "CUDAExecutionProvider", append_cuda},
    {"tensorrt", "TensorrtExecutionProvider", append_tensorrt},
    {"openvino", "OpenVINOExecutionProvider", append_openvino},
    {"xnnpack", "XnnpackExecutionProvider", append_xnnpack},
    {"cpu", "CPUExecutionProvider", append_nothing},
};
enum { KNOWN = sizeof known / sizeof known[0], CPU = KNOWN - 1 };

/* ---- Lists ---- */

/* The next name of the list, and where the one behind it begins. False: there is none. */
static bool next_name(const char **list, char name[NAME_BYTES])
{
    if (!*list || !**list)
        return false;
    size_t len = strcspn(*list, ",");
    snprintf(name, NAME_BYTES, "%.*s", (int)(len < NAME_BYTES ? len : NAME_BYTES - 1), *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

static size_t find(const char *name)
{
    size_t k = 0;
    while (k < KNOWN && strcmp(known[k].name, name) != 0)
        k++;
    return k;
}

static void add_word(char text[TEXT_BYTES], const char *word, size_t len)
{
    size_t used = strlen(text);
    snprintf(text + used, TEXT_BYTES - used, "%s%.*s", used ? ", " : "", (int)len, word);
}

static status_t unknown(const char *name, err_t *err)
{
    char all[TEXT_BYTES] = "";
    for (size_t k = 0; k < KNOWN; k++)
        add_word(all, known[k].name, strlen(known[k].name));
    return err_set(err, STATUS_INVALID_ARGUMENT, "providers: '%s' is none of %s", name, all);
}

/* Whether the library was built with it; `there` lists what it was built with. */
static status_t is_there(const char *full, bool *found, char there[TEXT_BYTES], err_t *err)
{
    char **names;
    int count;
    status_t status = library_check(ort->GetAvailableProviders(&names, &count), "providers", err);
    if (status != STATUS_OK)
        return status;
    *found = false;
    there[0] = '\0';
    for (int i = 0; i < count; i++) {
        const char *tail = strstr(names[i], "ExecutionProvider");
        *found |= strcmp(names[i], full) == 0;
        add_word(there, names[i], tail ? (size_t)(tail - names[i]) : strlen(names[i]));
    }
    for (char *c = there; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return library_check(ort->ReleaseAvailableProviders(names, count), "providers", err);
}

static status_t check_one(const char *name, const char *rest, unsigned *seen, err_t *err)
{
    char there[TEXT_BYTES];
    bool found;
    size_t k = find(name);
    if (k == KNOWN)
        return unknown(name, err);
    if (*seen & 1U << k)
        return err_set(err, STATUS_INVALID_ARGUMENT, "providers: '%s' comes twice", name);
    if (k == CPU && *rest)
        return err_set(err, STATUS_INVALID_ARGUMENT, "providers: 'cpu' takes everything: it comes last");
    *seen |= 1U << k;
    status_t status = is_there(known[k].full, &found, there, err);
    if (status != STATUS_OK || found)
        return status;
    return err_set(err, STATUS_UNAVAILABLE,
                   "providers: this library of onnxruntime was built without '%s'; it has %s", name, there);
}

status_t providers_check(const char *list, err_t *err)
{
    char name[NAME_BYTES];
    unsigned seen = 0;
    status_t status = STATUS_OK;
    while (status == STATUS_OK && next_name(&list, name))
        status = check_one(name, list, &seen, err);
    return status;
}

status_t providers_append(OrtSessionOptions *options, const char *list, uint32_t device, err_t *err)
{
    char name[NAME_BYTES], number[16];
    status_t status = providers_check(list, err);
    snprintf(number, sizeof number, "%u", device);
    while (status == STATUS_OK && next_name(&list, name))
        status = library_check(known[find(name)].append(options, number), name, err);
    return status;
}
