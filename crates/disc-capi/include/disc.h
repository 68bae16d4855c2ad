/* The C API of disc: opens packages and runs them.

   A function that can fail returns an error, which the caller frees, or NULL for success; one that
   fails makes no object. docs/guide/c.md has examples.
   Generated from crates/disc-capi by `cargo xtask codegen`. */

#ifndef DISC_H
#define DISC_H

#include <stddef.h>
#include <stdint.h>

/**
 * An element type. The numbers never change.
 */
typedef enum disc_dtype {
  /**
   * IEEE 754 half precision, 2 bytes.
   */
  DISC_DTYPE_F16 = 1,
  /**
   * The upper half of a float, 2 bytes.
   */
  DISC_DTYPE_BF16 = 2,
  /**
   * `float`.
   */
  DISC_DTYPE_F32 = 3,
  /**
   * `double`.
   */
  DISC_DTYPE_F64 = 4,
  /**
   * A truth value: one byte, 0 or 1.
   */
  DISC_DTYPE_I1 = 5,
  /**
   * `int8_t`.
   */
  DISC_DTYPE_I8 = 6,
  /**
   * `uint8_t`.
   */
  DISC_DTYPE_U8 = 7,
  /**
   * `int16_t`.
   */
  DISC_DTYPE_I16 = 8,
  /**
   * `uint16_t`.
   */
  DISC_DTYPE_U16 = 9,
  /**
   * `int32_t`.
   */
  DISC_DTYPE_I32 = 10,
  /**
   * `uint32_t`.
   */
  DISC_DTYPE_U32 = 11,
  /**
   * `int64_t`.
   */
  DISC_DTYPE_I64 = 12,
  /**
   * `uint64_t`.
   */
  DISC_DTYPE_U64 = 13,
} disc_dtype;

/**
 * A failure: a code and a message. Free it with `disc_error_free`.
 */
typedef struct disc_error disc_error;

/**
 * A compiled model in a file. Any number of threads may use it at once.
 */
typedef struct disc_package disc_package;

/**
 * The means to run the entries of a package, one call at a time. Sessions of one package run at
 * once, in different threads.
 */
typedef struct disc_session disc_session;

/**
 * A tensor in host memory. An input is borrowed for a call. An output with `data` of NULL is
 * allocated by the call, which fills in the other fields; free it with `disc_tensor_free`.
 */
typedef struct disc_tensor {
  /**
   * The first element, aligned to its size. A call writes to an input only if the model does.
   */
  void *data;
  /**
   * The size of each axis; may be NULL for rank 0.
   */
  const int64_t *sizes;
  /**
   * The step from one element to the next of each axis, counted in elements; zero and negative
   * ones are allowed. NULL for row-major order without gaps, which an output always has.
   */
  const int64_t *strides;
  /**
   * The number of axes.
   */
  size_t rank;
  /**
   * The element type.
   */
  enum disc_dtype dtype;
  /**
   * The memory of a tensor that disc allocated; NULL for memory of the caller.
   */
  void *owner;
} disc_tensor;

/**
 * Options for a session. All fields of 0 are the defaults.
 */
typedef struct disc_session_options {
  /**
   * The most threads that a call uses, that of the caller included; 0 for all processors that
   * the process may use.
   */
  size_t threads;
  /**
   * The device to run on: `"cpu"`, which is also that of NULL.
   */
  const char *device;
} disc_session_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the code of an error, such as `"E0901"`; docs/errors.md lists them. The text lives as
 * long as the error. NULL has the code `""`.
 */
const char *disc_error_code(const struct disc_error *error);

/**
 * Returns the message of an error, in UTF-8 and without its code. The text lives as long as the
 * error. NULL has the message `""`.
 */
const char *disc_error_message(const struct disc_error *error);

/**
 * Frees an error. NULL is allowed.
 */
void disc_error_free(struct disc_error *error);

/**
 * Opens the package in a file, whose path is UTF-8. Close it with `disc_package_close`.
 */
struct disc_error *disc_package_open(const char *path, struct disc_package **package);

/**
 * Closes a package. Its sessions keep what they need. NULL is allowed.
 */
void disc_package_close(struct disc_package *package);

/**
 * Frees the memory of a tensor that disc allocated, and sets all its fields to 0. Memory of the
 * caller stays. NULL is allowed.
 */
void disc_tensor_free(struct disc_tensor *tensor);

/**
 * Makes a session of a package. `options` of NULL are the defaults. Free it with
 * `disc_session_free`.
 */
struct disc_error *disc_session_new(const struct disc_package *package,
                                    const struct disc_session_options *options,
                                    struct disc_session **session);

/**
 * Frees a session. NULL is allowed.
 */
void disc_session_free(struct disc_session *session);

/**
 * Runs an entry of the package, `"main"` in most. There are as many inputs and outputs as the
 * entry has, in its order.
 *
 * An output with `data` of NULL is allocated, and all its fields are set; free it with
 * `disc_tensor_free`. Any other is written to the memory of the caller, which has element type and
 * sizes of the output. After a failure no output is allocated, memory of the caller has undefined
 * contents, and the session can be used again.
 */
struct disc_error *disc_session_run(struct disc_session *session,
                                    const char *entry,
                                    const struct disc_tensor *inputs,
                                    size_t n_inputs,
                                    struct disc_tensor *outputs,
                                    size_t n_outputs);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DISC_H */
