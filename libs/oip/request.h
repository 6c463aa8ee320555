/*
 * One inference, as both codecs see it: request and response without any transport.
 *
 * A request object is about 40 KB, belongs to a pool slot of its owner and is reused: nothing in it is
 * allocated. Names are NUL-terminated copies in `text`; tensor data either point into the body (borrowed: the
 * body must outlive the request) or into memory that the owner's allocator gave (the gateway's arena).
 */
#ifndef OIP_REQUEST_H
#define OIP_REQUEST_H

#include "base/strbuf.h"
#include "oip/model_spec.h"
#include "oip/region.h"

#include <sys/uio.h>

/* Memory for tensor data. Returns 64-byte aligned memory that lives as long as the request, or NULL when
 * there is none (the request is then answered UNAVAILABLE). Called only while parsing, in its thread. */
typedef struct {
    void *(*alloc)(void *self, size_t len_bytes);
    void *self;
} oip_allocator_t;

typedef struct {
    const char *name;
    oip_datatype_t datatype;
    oip_shape_t shape;
    const uint8_t *data; /* NULL until it is there; len_bytes may be 0 */
    size_t len_bytes;
    oip_memory_t memory; /* with a region: data is NULL until the owner of the request has read it */
    bool borrowed;       /* data points into the body, at any alignment */
    bool base64;         /* REST, parameter `content_type` of the input; as long as it is parsed */
    int32_t spec_index;  /* set by oip_validate_request */
    bool picture; /* BYTES with encoded pictures for the model's picture input; set by oip_validate_request */
} oip_input_t;

typedef struct {
    const char *name;
    bool binary;             /* REST: wants raw bytes behind the JSON */
    bool binary_set;         /* it said so itself, else the request's binary_data_output counts */
    uint32_t classification; /* k of top-k; 0 = the tensor itself */
    oip_memory_t memory;     /* where it is to be written, if not into the answer */
    int32_t spec_index;      /* set by oip_validate_request */
} oip_requested_t;

/* 16 KiB of names, ids and parameters: 128 names of 128 bytes. */
enum { OIP_TEXT_BYTES = 16384, OIP_NAME_BYTES = 256 };

typedef struct {
    const char *model, *version; /* gRPC: from the message; REST: from the path (the parser leaves them "") */
    const char *id;              /* echoed; "" when absent */
    int64_t timeout_us;          /* parameter `timeout`; 0 = none */
    uint64_t priority;           /* parameter `priority`; 0 = the model's default */
    bool sequence;               /* carried any sequence_id/start/end */
    bool wants_timing;           /* parameter `fermata_timing` */
    bool binary_output;          /* parameter `binary_data_output` */
    bool base64;                 /* parameter `content_type` is "base64": so are all BYTES of `data` */
    bool in_memory;              /* some of these lie, or are wanted, in a region */
    uint32_t input_count, requested_count;
    oip_input_t inputs[OIP_MAX_TENSORS];
    oip_requested_t requested[OIP_MAX_TENSORS]; /* none = all outputs */
    uint32_t rows;                              /* batch items; set by oip_validate_request */
    bool batched;                               /* inputs carry the leading batch dimension */
    int64_t axis_sizes[OIP_MAX_AXES];           /* of each axis of the model; set by oip_validate_request */
    size_t text_len;
    char text[OIP_TEXT_BYTES];
} oip_request_t;

void oip_request_init(oip_request_t *request);

/* REST: whether an output goes out raw; requested may be NULL, as where all outputs are. */
static inline bool oip_request_is_binary(const oip_request_t *request, const oip_requested_t *requested)
{
    return requested && requested->binary_set ? requested->binary : request->binary_output;
}

/* Keeps a copy of the text in the request; NULL when there is no room left. */
const char *oip_request_keep(oip_request_t *request, const char *text, size_t len);

/* The names of the request's parameters; both codecs give them through oip_request_set_parameter. */
typedef struct {
    enum { OIP_PARAM_BOOL, OIP_PARAM_INT64, OIP_PARAM_UINT64, OIP_PARAM_DOUBLE, OIP_PARAM_STRING } kind;
    union {
        bool b;
        int64_t i64;
        uint64_t u64;
        double f64;
        const char *str; /* NUL-terminated, valid during the call */
    };
} oip_value_t;

/* Unknown parameters are ignored; a known one of the wrong kind is INVALID_ARGUMENT. */
status_t oip_request_set_parameter(oip_request_t *request, const char *name, const oip_value_t *value,
                                   err_t *err);
/* The same for the parameters of a requested output (`binary_data`, `classification`). */
status_t oip_requested_set_parameter(oip_requested_t *requested, const char *name, const oip_value_t *value,
                                     err_t *err);

/* The same for the parameters of a tensor that say where it lies (`shared_memory_…`), a name that begins otherwise is ignored. */
status_t oip_memory_set_parameter(oip_request_t *request, oip_memory_t *memory, const char *name,
                                  const oip_value_t *value, err_t *err);
/* When all of them are known: whether they are whole. what: "input" or "output". */
status_t oip_memory_finish(const oip_memory_t *memory, const char *what, const char *tensor, err_t *err);

/*
 * Checks a parsed request against the model: every input there, once, known, of the right datatype, shape and
 * size; the same number of rows everywhere, at most max_batch; each axis of one size wherever it occurs,
 * within its bounds; every requested output known and named once, and one that can be classified where that
 * is asked. INVALID_ARGUMENT names the field. Fills rows, batched, axis_sizes, spec_index and picture. The elements of
 * BYTES inputs that are still to be read from a region are left to oip_validate_elements.
 */
status_t oip_validate_request(oip_request_t *request, const oip_model_spec_t *spec, err_t *err);
/* Of an input that is there; only BYTES have any that can be wrong. */
status_t oip_validate_elements(const oip_input_t *input, const oip_model_spec_t *spec, err_t *err);

/* One output of the answer. Its data are `pieces` in order (one per row, or one for all); no element may
 * straddle two pieces. The pieces are borrowed until the reply is sent. */
typedef struct {
    const char *name;
    oip_datatype_t datatype;
    oip_shape_t shape;
    const struct iovec *pieces;
    uint32_t piece_count;
    bool binary;                /* REST: raw behind the JSON */
    const oip_memory_t *memory; /* where its data have been written; NULL: they are in the answer */
} oip_output_t;

typedef struct {
    const char *model, *version, *id; /* id "" is left out */
    bool has_timing;                  /* adds the fermata_… parameters */
    uint32_t batch_size;              /* of the batch that the (last) row ran in */
    uint64_t queue_us, compute_us;
    uint32_t output_count;
    oip_output_t outputs[OIP_MAX_TENSORS];
} oip_response_t;

/* writev takes at most IOV_MAX = 1024 pieces; pieces that find no room, and small ones, are copied instead.
 */
enum { OIP_REPLY_IOVECS = 256, OIP_REPLY_COPY_BYTES = 4096 };

/* A reply ready for the transport: send iov[0..iov_count) in order. Reused; see strbuf_t. */
typedef struct {
    strbuf_t head; /* what we wrote; the iovecs point into it and into the outputs' pieces */
    struct iovec iov[OIP_REPLY_IOVECS];
    uint32_t iov_count;
    size_t run_end;    /* while it is written: how much of the head the iovecs cover */
    size_t len_bytes;  /* all of it */
    size_t json_bytes; /* REST: value of Inference-Header-Content-Length; 0 = all is JSON, no such header */
} oip_reply_t;

/* limit_bytes bounds what the reply itself holds (JSON text can be 6 times its tensor). */
void oip_reply_init(oip_reply_t *reply, size_t limit_bytes);
void oip_reply_dispose(oip_reply_t *reply);

#endif
