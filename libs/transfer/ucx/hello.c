#include "transfer/ucx/hello.h"

#include "transfer/ucx/context.h"
#include "transfer/wire.h"

#include <string.h>

/* ---- blobs: numbers of 64 bits, and pieces with a length before them ---- */

typedef struct {
    carrier_blob_t *blob;
    bool full;
} writer_t;

static void put_bytes(writer_t *writer, const void *bytes, size_t len)
{
    carrier_blob_t *blob = writer->blob;

    if (len > sizeof(blob->bytes) - blob->len) {
        writer->full = true;
        return;
    }
    memcpy(blob->bytes + blob->len, bytes, len);
    blob->len += (uint32_t)len;
}

static void put_u64(writer_t *writer, uint64_t value)
{
    uint8_t bytes[8];

    wire_put64(bytes, value);
    put_bytes(writer, bytes, sizeof(bytes));
}

static void put_piece(writer_t *writer, const ucx_piece_t *piece)
{
    put_u64(writer, piece->len);
    put_bytes(writer, piece->bytes, piece->len);
}

typedef struct {
    const uint8_t *at;
    size_t left;
    bool short_of;
} reader_t;

static uint64_t get_u64(reader_t *reader)
{
    if (reader->left < 8) {
        reader->short_of = true;
        return 0;
    }
    uint64_t value = wire_get64(reader->at);
    reader->at += 8;
    reader->left -= 8;
    return value;
}

static ucx_piece_t get_piece(reader_t *reader)
{
    uint64_t len = get_u64(reader);

    if (reader->short_of || len == 0 || len > reader->left) {
        reader->short_of = true;
        return (ucx_piece_t){0};
    }
    const ucx_piece_t piece = {reader->at, len};
    reader->at += len;
    reader->left -= len;
    return piece;
}

/* ---- the greeting ---- */

static uint64_t version_word(void)
{
    return (uint64_t)UCX_MAGIC << 32 | ucx_version();
}

void ucx_hello_write(carrier_blob_t *hello)
{
    writer_t writer = {.blob = hello};

    hello->len = 0;
    put_u64(&writer, version_word());
}

status_t ucx_hello_check(const carrier_blob_t *hello, err_t *err)
{
    reader_t reader = {.at = hello->bytes, .left = hello->len};
    uint64_t word = get_u64(&reader);

    if (reader.short_of || reader.left != 0 || word >> 32 != UCX_MAGIC)
        return err_set(err, STATUS_INVALID_ARGUMENT, "not a greeting of RDMA");
    uint32_t theirs = (uint32_t)word, ours = ucx_version();
    if (theirs != ours)
        return err_set(err, STATUS_UNSUPPORTED, "UCX %u.%u here, %u.%u there", ours >> 16, ours & 0xffff,
                       theirs >> 16, theirs & 0xffff);
    return STATUS_OK;
}

/* ---- the answer ---- */

static void put_memory(writer_t *writer, const ucx_open_memory_t *memory)
{
    put_u64(writer, memory->base);
    put_u64(writer, memory->len_bytes);
    put_piece(writer, &memory->key);
}

static ucx_open_memory_t get_memory(reader_t *reader)
{
    uint64_t base = get_u64(reader), len_bytes = get_u64(reader);

    return (ucx_open_memory_t){base, len_bytes, get_piece(reader)};
}

status_t ucx_answer_write(carrier_blob_t *blob, const ucx_answer_t *answer, err_t *err)
{
    writer_t writer = {.blob = blob};

    blob->len = 0;
    put_u64(&writer, version_word());
    put_piece(&writer, &answer->address);
    put_memory(&writer, &answer->arena);
    put_memory(&writer, &answer->directory);
    put_u64(&writer, answer->window.base);
    put_piece(&writer, &answer->window.key);
    put_u64(&writer, answer->token);
    if (writer.full)
        return err_set(err, STATUS_TOO_LARGE, "UCX's addresses of this host take more than %d bytes",
                       CARRIER_BLOB_BYTES);
    return STATUS_OK;
}

bool ucx_answer_read(const carrier_blob_t *blob, ucx_answer_t *answer)
{
    reader_t reader = {.at = blob->bytes, .left = blob->len};
    uint64_t word = get_u64(&reader);

    answer->address = get_piece(&reader);
    answer->arena = get_memory(&reader);
    answer->directory = get_memory(&reader);
    answer->window.base = get_u64(&reader);
    answer->window.len_bytes = CARRIER_WINDOW_BYTES;
    answer->window.key = get_piece(&reader);
    answer->token = get_u64(&reader);
    return !reader.short_of && reader.left == 0 && word == version_word() &&
           answer->directory.len_bytes >= sizeof(directory_entry_t) && answer->arena.len_bytes > 0;
}
