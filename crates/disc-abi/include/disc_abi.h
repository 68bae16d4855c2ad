// The contract of src/context.rs and src/tensor.rs in C, for tests: entries that no compiler made, and a runtime for code of another
// processor. Those files say what the parts mean.
#ifndef DISC_ABI_H
#define DISC_ABI_H

#include <stdint.h>

enum { DISC_ABI_VERSION = 6, DISC_ALIGN = 64, DISC_KERNEL_VALUES = 8 };

typedef struct {
    void *data;
    const int64_t *sizes, *strides;
    uint32_t rank;
    uint8_t dtype, device;
    uint16_t flags;
} Tensor;

typedef struct Context Context;
typedef int32_t Kernel(const uint64_t *args, int64_t begin, int64_t end, uint8_t *scratch);
typedef int32_t Entry(Context *context, const Tensor *inputs, Tensor *outputs);

typedef struct {
    uint64_t dtype;
    int64_t sizes[3], strides[4], panel;
    const uint8_t *left, *right;
    uint8_t *result;
    Kernel *kernel;
    const uint64_t *args;
    int64_t units, cost, scratch;
    Kernel *rest;
    uint64_t *rest_args;
    int64_t rest_slot, rest_units, rest_cost, rest_scratch;
} Gemm;

typedef struct {
    uint32_t version, size;
    uint8_t *(*alloc)(Context *, int64_t);
    uint64_t (*mark)(Context *);
    void (*release)(Context *, uint64_t);
    uint8_t *(*alloc_output)(Context *, uint32_t, uint32_t, uint32_t, const int64_t *);
    int32_t (*launch)(Context *, Kernel *, const uint64_t *, int64_t, int64_t, int64_t);
    int32_t (*fail)(Context *, uint32_t, const int64_t *, uint32_t);
    int32_t (*copy)(Context *, uint8_t *, const uint8_t *, int64_t);
    int32_t (*gemm)(Context *, const Gemm *);
    int64_t (*layout_arena)(Context *, uint32_t, const int64_t *, const int64_t *, uint32_t, int64_t *);
    void *launch_grid;
    int32_t (*fetch)(Context *, uint64_t *, const int64_t *, uint32_t);
    void *others[4];
} Runtime;

struct Context {
    const Runtime *runtime;
    const uint8_t *const *weights;
    const void *kernels;
    int64_t nontemporal_bytes;
    const void *reserved[2];
    void *user;
};

_Static_assert(sizeof(Context) == 56 && sizeof(Runtime) == 8 + 15 * 8 && sizeof(Tensor) == 32 && sizeof(Gemm) == 23 * 8,
               "the layouts of this version");

// Bytes of an element, by the code of its type.
static const uint64_t BYTES_OF[] = {0, 2, 2, 4, 8, 1, 1, 1, 2, 2, 4, 4, 8, 8};

#endif
