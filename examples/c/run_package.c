/* Runs the entry "main" of a package, whose one input is a matrix of floats of any number of rows:
 *
 *     run_package model.discpkg ROWS COLUMNS OUTPUTS
 *
 * The input is 0, 1, 2, ..; each output is printed with its sizes. docs/guide/c.md says how to
 * build it. */
#include <disc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_OUTPUTS = 16 };

/* Prints an error, if there is one, and frees it. Returns 1 for an error. */
static int failed(disc_error *error) {
  if (error == NULL) return 0;
  fprintf(stderr, "error[%s]: %s\n", disc_error_code(error), disc_error_message(error));
  disc_error_free(error);
  return 1;
}

static void print(const disc_tensor *tensor) {
  size_t count = 1;
  printf("[");
  for (size_t axis = 0; axis < tensor->rank; ++axis) {
    count *= (size_t)tensor->sizes[axis];
    printf("%s%" PRId64, axis == 0 ? "" : ", ", tensor->sizes[axis]);
  }
  printf("]");
  for (size_t i = 0; i < count && tensor->dtype == DISC_DTYPE_F32; ++i) {
    printf(" %.9g", ((const float *)tensor->data)[i]);
  }
  printf("\n");
}

static int run(disc_session *session, const disc_tensor *input, size_t outputs) {
  disc_tensor results[MOST_OUTPUTS] = {{0}}; /* No data: the call allocates. */
  if (failed(disc_session_run(session, "main", input, 1, results, outputs))) return 1;
  for (size_t i = 0; i < outputs; ++i) {
    print(&results[i]);
    disc_tensor_free(&results[i]);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: run_package PACKAGE ROWS COLUMNS OUTPUTS\n");
    return 2;
  }
  const int64_t sizes[] = {strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10)};
  const size_t outputs = (size_t)strtoull(argv[4], NULL, 10);
  if (sizes[0] < 0 || sizes[1] < 0 || outputs > MOST_OUTPUTS) return 2;
  const size_t count = (size_t)(sizes[0] * sizes[1]);

  disc_package *package = NULL;
  if (failed(disc_package_open(argv[1], &package))) return 1;
  disc_session *session = NULL;
  const disc_session_options options = {.threads = 1};
  if (failed(disc_session_new(package, &options, &session))) return 1;
  disc_package_close(package); /* The session keeps what it needs. */

  float *data = malloc((count + 1) * sizeof *data);
  if (data == NULL) return 1;
  for (size_t i = 0; i < count; ++i) data[i] = (float)i;
  const disc_tensor input = {.data = data, .sizes = sizes, .rank = 2, .dtype = DISC_DTYPE_F32};
  const int status = run(session, &input, outputs);

  free(data);
  disc_session_free(session);
  return status;
}
