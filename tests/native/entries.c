// Hand-written entries that keep the contract of disc-abi (crates/disc-abi/src/context.rs): what the compiler does not emit, or not alone.
#include <string.h>

#include "disc_abi.h"

const uint32_t disc_abi_version = DISC_ABI_VERSION;

// One input, copied to one output of its type and sizes. A contiguous input of size 13 fails at site 1.
int32_t copy(Context *context, const Tensor *in, Tensor *out) {
    int64_t bytes = (int64_t)BYTES_OF[in->dtype];
    for (uint32_t i = 0; i < in->rank; i++) {
        if (in->sizes[i] == 13) return context->runtime->fail(context, 1, in->sizes, in->rank);
        bytes *= in->sizes[i];
    }
    void *to = context->runtime->alloc_output(context, 0, in->dtype, in->rank, in->sizes);
    if (!to) return -1;
    memcpy(to, in->data, bytes);
    return 0;
}

// Adds 1 to every element of a float vector in place; the output is the input, or its second half (of an even size).
static int32_t written(const Tensor *in, Tensor *out, int half) {
    float *x = in->data;
    int64_t n = in->sizes[0];
    for (int64_t i = 0; i < n; i++) x[i] += 1;
    ((int64_t *)out->sizes)[0] = half ? n / 2 : n;
    out->data = half ? x + n / 2 : x;
    out->flags = 4 | 2;
    return 0;
}
int32_t increment(Context *context, const Tensor *in, Tensor *out) { return written(in, out, 0); }
int32_t second_half(Context *context, const Tensor *in, Tensor *out) { return written(in, out, 1); }

// The first element of the first weight.
int32_t first_weight(Context *context, const Tensor *in, Tensor *out) {
    float *to = (float *)context->runtime->alloc_output(context, 0, 3, 0, 0);
    if (!to) return -1;
    *to = *(const float *)context->weights[0];
    return 0;
}
