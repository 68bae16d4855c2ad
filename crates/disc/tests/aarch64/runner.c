// Runs libraries of generated code for another process, which emulates this program: the functions
// that disc-abi's `context.rs` describes, over memory of its own.
//
// Requests come on standard input, answers go to standard output. Both are words of 64 bits, and
// bytes behind a word that counts them. A launch runs its units in up to three parts, one after the
// other, each with scratch of its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "disc_abi.h"

enum { MOST_VALUES = 64, MOST_FRAMES = 4096 };
enum { OK = 0, FAILED = -1 };
enum { LOAD = 1, WEIGHTS = 2, CALL = 3 };
enum { SUCCEEDED = 0, AT_SITE = 1, BROKEN = 2 };

// The failure of the call that runs, the memory of its frames, and the memory that outlives it.
static int failure;
static uint64_t site, value_count, frames;
static int64_t values[MOST_VALUES];
static char broken[256];
static void *frame[MOST_FRAMES];
static int launching;

static void take(void *to, uint64_t bytes) {
    if (bytes > 0 && fread(to, 1, bytes, stdin) != bytes) exit(feof(stdin) ? 0 : 1);
}

static uint64_t word(void) {
    uint64_t value;
    take(&value, sizeof value);
    return value;
}

static void give(const void *from, uint64_t bytes) {
    if (bytes > 0 && fwrite(from, 1, bytes, stdout) != bytes) exit(1);
}

static void give_word(uint64_t value) { give(&value, sizeof value); }

static int break_down(const char *why) {
    if (failure == 0) {
        failure = BROKEN;
        snprintf(broken, sizeof broken, "%s", why);
    }
    return FAILED;
}

// Memory that holds what no code should read.
static uint8_t *fresh(uint64_t bytes) {
    if (bytes > (uint64_t)1 << 36) return NULL;
    uint64_t room = (bytes + DISC_ALIGN) / DISC_ALIGN * DISC_ALIGN;
    uint8_t *memory = aligned_alloc(DISC_ALIGN, room);
    if (memory) memset(memory, 0xa5, room);
    return memory;
}

static uint8_t *take_bytes(uint64_t *bytes) {
    *bytes = word();
    uint8_t *memory = fresh(*bytes);
    if (!memory) exit(1);
    take(memory, *bytes);
    return memory;
}

static uint8_t *alloc(Context *context, int64_t bytes) {
    (void)context;
    uint8_t *memory = bytes < 0 || frames == MOST_FRAMES ? NULL : fresh((uint64_t)bytes);
    if (!memory) {
        break_down("there is no temporary memory");
        return NULL;
    }
    return frame[frames++] = memory;
}

static uint64_t mark(Context *context) {
    (void)context;
    return frames;
}

static void release(Context *context, uint64_t mark) {
    (void)context;
    while (frames > mark) free(frame[--frames]);
}

static uint8_t *alloc_output(Context *context, uint32_t index, uint32_t dtype, uint32_t rank, const int64_t *sizes) {
    Tensor *output = (Tensor *)context->user + index;
    if (output->rank != rank || output->dtype != dtype) {
        break_down("an output is made of another type");
        return NULL;
    }
    uint64_t bytes = BYTES_OF[dtype];
    for (uint32_t axis = 0; axis < rank; ++axis) {
        ((int64_t *)output->sizes)[axis] = sizes[axis];
        if (sizes[axis] < 0 || __builtin_mul_overflow(bytes, (uint64_t)sizes[axis], &bytes)) bytes = UINT64_MAX;
    }
    output->data = fresh(bytes);
    output->flags = 4;
    if (!output->data) break_down("there is no memory for an output");
    return output->data;
}

static int32_t run(Kernel *kernel, const uint64_t *args, int64_t units, int64_t scratch_bytes, int is_nested) {
    int32_t status = OK;
    int64_t parts = is_nested || units < 3 ? 1 : 3;
    for (int64_t part = 0; part < parts && units > 0 && status == OK; ++part) {
        uint8_t *scratch = fresh((uint64_t)(scratch_bytes > DISC_ALIGN ? scratch_bytes : DISC_ALIGN));
        if (!scratch) return break_down("there is no scratch");
        status = kernel(args, units * part / parts, units * (part + 1) / parts, scratch);
        if (status > 0 && !is_nested && failure == 0) {
            failure = AT_SITE;
            site = (uint64_t)status;
            value_count = DISC_KERNEL_VALUES;
            memcpy(values, scratch, DISC_KERNEL_VALUES * sizeof *values);
        }
        free(scratch);
    }
    return status;
}

static int32_t launch(Context *context, Kernel *kernel, const uint64_t *args, int64_t units, int64_t cost, int64_t scratch) {
    (void)context, (void)cost;
    if (launching) return run(kernel, args, units, scratch, 1);
    launching = 1;
    int32_t status = run(kernel, args, units, scratch, 0);
    launching = 0;
    return status == OK ? OK : FAILED;
}

static int32_t fail(Context *context, uint32_t at, const int64_t *with, uint32_t count) {
    (void)context;
    if (failure == 0) {
        failure = AT_SITE;
        site = at;
        value_count = count < MOST_VALUES ? count : MOST_VALUES;
        memcpy(values, with, value_count * sizeof *values);
    }
    return FAILED;
}

static int32_t copy(Context *context, uint8_t *to, const uint8_t *from, int64_t bytes) {
    (void)context;
    if (bytes > 0) memcpy(to, from, (uint64_t)bytes);
    return OK;
}

static int32_t gemm(Context *context, const Gemm *gemm) {
    return launch(context, gemm->kernel, gemm->args, gemm->units, gemm->cost, gemm->scratch);
}

static int64_t layout_arena(Context *context, uint32_t parts, const int64_t *sizes, const int64_t *meets, uint32_t words,
                            int64_t *offsets) {
    (void)context, (void)words;
    int64_t total = 0;
    for (uint32_t part = 0; part < parts; ++part) {
        int64_t count = *meets++, offset = 0;
        for (int64_t other = 0; other < count; ++other) {
            int64_t begin = offsets[meets[other]], size = sizes[meets[other]];
            if (size > 0 && begin < offset + sizes[part] && offset < begin + size) {
                offset = begin + size;
                other = -1;
            }
        }
        meets += count;
        offsets[part] = offset;
        total = offset + sizes[part] > total ? offset + sizes[part] : total;
    }
    return total;
}

static int32_t fetch(Context *context, uint64_t *words, const int64_t *sizes, uint32_t count) {
    (void)context;
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t value = 0;
        memcpy(&value, (const void *)words[i], (uint64_t)sizes[i]);
        words[i] = value;
    }
    return OK;
}

static const Runtime RUNTIME = {
    DISC_ABI_VERSION, sizeof(Runtime), alloc, mark, release, alloc_output, launch, fail, copy, gemm, layout_arena, NULL, fetch, {0},
};

static void *library;
static uint8_t **weights;
static uint64_t weight_count;

static void load(void) {
    uint64_t bytes;
    uint8_t *code = take_bytes(&bytes);
    if (library) dlclose(library);
    for (uint64_t i = 0; i < weight_count; ++i) free(weights[i]);
    weight_count = 0;
    library = NULL;
    int file = memfd_create("code", 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (file >= 0 && write(file, code, bytes) == (ssize_t)bytes) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(code);
    close(file);
    const uint32_t *version = library ? dlsym(library, "disc_abi_version") : NULL;
    const char *why = !library ? dlerror() : version && *version == DISC_ABI_VERSION ? "" : "the code is for another version of the runtime";
    give_word(strlen(why));
    give(why, strlen(why));
}

// Plain weights with their values, then the sizes of the blobs that code prepares.
static void take_weights(void) {
    uint64_t plain = word(), blobs = word(), bytes;
    weights = realloc(weights, (plain + blobs + 1) * sizeof *weights);
    for (uint64_t i = 0; i < plain; ++i) weights[i] = take_bytes(&bytes);
    for (uint64_t i = 0; i < blobs; ++i) weights[plain + i] = fresh(word());
    weight_count = plain + blobs;
}

static Tensor take_tensor(void) {
    Tensor tensor = {.dtype = (uint8_t)word()};
    tensor.rank = (uint32_t)word();
    int64_t *sizes = calloc(tensor.rank + 1, sizeof *sizes);
    tensor.sizes = sizes;
    return tensor;
}

static uint64_t bytes_of(const Tensor *tensor) {
    uint64_t bytes = BYTES_OF[tensor->dtype];
    for (uint32_t axis = 0; axis < tensor->rank; ++axis) bytes *= (uint64_t)tensor->sizes[axis];
    return bytes;
}

static void answer(int32_t status, const Tensor *inputs, uint64_t input_count, const Tensor *outputs, uint64_t output_count) {
    if (status != OK && failure == 0) break_down("a status came without a failure");
    give_word((uint64_t)failure);
    if (failure == AT_SITE) {
        give_word(site);
        give_word(value_count);
        give(values, value_count * sizeof *values);
    } else if (failure == BROKEN) {
        give_word(strlen(broken));
        give(broken, strlen(broken));
    } else {
        // Inputs may have been written.
        for (uint64_t i = 0; i < input_count; ++i) give(inputs[i].data, bytes_of(&inputs[i]));
        for (uint64_t i = 0; i < output_count; ++i) {
            uint64_t source = input_count;
            for (uint64_t j = 0; j < input_count; ++j) source = outputs[i].flags & 2 && inputs[j].data == outputs[i].data ? j : source;
            give_word(source);
            give(outputs[i].sizes, outputs[i].rank * sizeof(int64_t));
            give(outputs[i].data, bytes_of(&outputs[i]));
        }
    }
}

static void call(void) {
    uint64_t length, input_count, output_count;
    char *symbol = (char *)take_bytes(&length);
    symbol[length] = 0;
    Context context = {.runtime = &RUNTIME, .weights = (const uint8_t *const *)weights, .nontemporal_bytes = (int64_t)word()};
    input_count = word();
    Tensor *inputs = calloc(input_count + 1, sizeof *inputs);
    for (uint64_t i = 0; i < input_count; ++i) {
        inputs[i] = take_tensor();
        take((void *)inputs[i].sizes, inputs[i].rank * sizeof(int64_t));
        inputs[i].data = fresh(bytes_of(&inputs[i]));
        take(inputs[i].data, bytes_of(&inputs[i]));
    }
    output_count = word();
    Tensor *outputs = calloc(output_count + 1, sizeof *outputs);
    for (uint64_t i = 0; i < output_count; ++i) outputs[i] = take_tensor();
    context.user = outputs;
    failure = launching = 0;
    Entry *entry = (Entry *)dlsym(library, symbol);
    // The calls of `getppid` are marks for `count.c`.
    getppid();
    int32_t status = entry ? entry(&context, inputs, outputs) : break_down("the code has no such entry");
    getppid();
    release(&context, 0);
    answer(status, inputs, input_count, outputs, output_count);
    for (uint64_t i = 0; i < output_count; ++i) {
        if (!(outputs[i].flags & 2)) free(outputs[i].data);
        free((void *)outputs[i].sizes);
    }
    for (uint64_t i = 0; i < input_count; ++i) free(inputs[i].data), free((void *)inputs[i].sizes);
    free(inputs), free(outputs), free(symbol);
}

int main(void) {
    for (;;) {
        switch (word()) {
        case LOAD: load(); break;
        case WEIGHTS: take_weights(); break;
        case CALL: call(); break;
        default: return 1;
        }
        fflush(stdout);
    }
}
