/* Checks the C API against a package: strided inputs, memory of the caller, and every failure. The
 * package has one input, [rows, 8] of f32, and one output of the same sizes: 2 * x + 1. */
#include <disc.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1; \
    } \
  } while (0)

/* Returns 1 if the error has this code, and a message that contains this text; frees it. */
static int is(disc_error *error, const char *code, const char *text) {
  if (error == NULL) return 0;
  const int same = strcmp(disc_error_code(error), code) == 0 && strstr(disc_error_message(error), text) != NULL;
  if (!same) fprintf(stderr, "error[%s]: %s\n", disc_error_code(error), disc_error_message(error));
  disc_error_free(error);
  return same;
}

static float x[8][3]; /* Transposed: the input's columns are rows here. */
static const int64_t sizes[] = {3, 8}, strides[] = {1, 3};

static disc_tensor transposed(void) {
  return (disc_tensor){.data = x, .sizes = sizes, .strides = strides, .rank = 2, .dtype = DISC_DTYPE_F32};
}

static int runs(disc_session *session) {
  float y[3][8] = {{0}};
  const disc_tensor input = transposed();
  disc_tensor output = {.data = y, .sizes = sizes, .rank = 2, .dtype = DISC_DTYPE_F32};
  CHECK(disc_session_run(session, "main", &input, 1, &output, 1) == NULL);
  CHECK(output.data == y && output.owner == NULL);
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 8; ++column) CHECK(y[row][column] == 2 * x[column][row] + 1);
  disc_tensor made = {0};
  CHECK(disc_session_run(session, "main", &input, 1, &made, 1) == NULL);
  CHECK(made.owner != NULL && made.rank == 2 && made.dtype == DISC_DTYPE_F32 && made.strides == NULL);
  CHECK(made.sizes[0] == 3 && made.sizes[1] == 8 && memcmp(made.data, y, sizeof y) == 0);
  disc_tensor_free(&made);
  CHECK(made.data == NULL && made.owner == NULL);
  const int64_t none[] = {0, 8};
  const disc_tensor empty = {.sizes = none, .rank = 2, .dtype = DISC_DTYPE_F32};
  CHECK(disc_session_run(session, "main", &empty, 1, &made, 1) == NULL);
  CHECK(made.sizes[0] == 0);
  disc_tensor_free(&made);
  return 0;
}

static int refuses_arguments(disc_session *session) {
  disc_package *package = NULL;
  CHECK(is(disc_package_open(NULL, &package), "E0700", "`path` is NULL"));
  CHECK(is(disc_package_open("x", NULL), "E0700", "`package` is NULL"));
  CHECK(is(disc_package_open("\xff", &package), "E0700", "UTF-8"));
  CHECK(is(disc_package_open("missing.discpkg", &package), "E0901", "missing.discpkg"));
  CHECK(package == NULL);
  CHECK(is(disc_session_new(NULL, NULL, &session), "E0700", "`package` is NULL"));
  disc_tensor input = transposed(), output = {0};
  CHECK(is(disc_session_run(NULL, "main", &input, 1, &output, 1), "E0700", "`session` is NULL"));
  CHECK(is(disc_session_run(session, NULL, &input, 1, &output, 1), "E0700", "`entry` is NULL"));
  CHECK(is(disc_session_run(session, "main", NULL, 1, &output, 1), "E0700", "`inputs` is NULL"));
  CHECK(is(disc_session_run(session, "main", &input, 1, NULL, 1), "E0700", "`outputs` is NULL"));
  CHECK(is(disc_session_run(session, "other", &input, 1, &output, 1), "E0904", "`other`"));
  CHECK(is(disc_session_run(session, "main", NULL, 0, &output, 1), "E0601", "expects 1 inputs"));
  CHECK(is(disc_session_run(session, "main", &input, 1, NULL, 0), "E0607", "has 1 outputs"));
  CHECK(output.data == NULL && output.owner == NULL);
  disc_package_close(NULL);
  disc_session_free(NULL);
  disc_error_free(NULL);
  disc_tensor_free(NULL);
  return 0;
}

static int refuses_tensors(disc_session *session) {
  disc_tensor input = transposed(), output = {0};
  input.data = NULL;
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "`data` is NULL"));
  input = transposed();
  input.sizes = NULL;
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "`sizes` is NULL"));
  input = transposed();
  input.dtype = (disc_dtype)99;
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "the number 99"));
  input = transposed();
  input.dtype = DISC_DTYPE_I64;
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "not i64"));
  const int64_t far[] = {1, INT64_MAX / 4}, negative[] = {-1, 8}, small[] = {2, 8};
  input = transposed();
  input.strides = far;
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "strides"));
  input = transposed();
  input.sizes = negative;
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "negative"));
  float y[3][8];
  input = transposed();
  output = (disc_tensor){.data = y, .sizes = small, .rank = 2, .dtype = DISC_DTYPE_F32};
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0607", "too small"));
  output = (disc_tensor){.data = y, .sizes = sizes, .strides = strides, .rank = 2, .dtype = DISC_DTYPE_F32};
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "strides"));
  output = (disc_tensor){.data = x, .sizes = sizes, .rank = 2, .dtype = DISC_DTYPE_F32};
  CHECK(is(disc_session_run(session, "main", &input, 1, &output, 1), "E0601", "also that of an input"));
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  for (int i = 0; i < 24; ++i) (&x[0][0])[i] = (float)i / 4;
  disc_package *package = NULL;
  CHECK(disc_package_open(argv[1], &package) == NULL);
  disc_session *session = NULL;
  const disc_session_options nowhere = {.device = "cuda:7"}, two = {.threads = 2, .device = "cpu"};
  CHECK(is(disc_session_new(package, &nowhere, &session), "E0700", "`cuda:7`"));
  CHECK(is(disc_session_new(package, NULL, NULL), "E0700", "`session` is NULL"));
  CHECK(session == NULL);
  CHECK(disc_session_new(package, &two, &session) == NULL);
  disc_package_close(package);
  if (runs(session) || refuses_arguments(session) || refuses_tensors(session) || runs(session)) return 1;
  disc_session_free(session);
  printf("ok\n");
  return 0;
}
