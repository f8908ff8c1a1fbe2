/* SPDX-License-Identifier: Apache-2.0
 *
 * opencl_matmul.c - C = A x B, all three in tiles, by a kernel in OpenCL C on a device that holds a quarter of them. It is
 * examples/matmul.c on a device of OpenCL's: the context and the queue are the program's own, Weir works in them
 * (weir/opencl.h), and leases give the kernel's arguments.
 *
 * Each tile is a buffer. A step multiplies one tile of A with one of B into one of C: it leases the three, enqueues the
 * kernel and releases them, and the CPU waits for nothing. Before it does, it asks for the tiles of the step after it.
 * The elements are small integers, so that every sum is exact, and all of C is compared with what integers give.
 *
 *   example_opencl_matmul [--size N] [--tile T]      N rows and columns, a multiple of T
 *
 * It takes the first GPU that suffices, else the first CPU; where there is none it says so and exits with 77.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/opencl.h>
#include <weir/weir.h>

enum { PAGE = 64 << 10, A = 0, B = 1, C = 2, MATRICES = 3, NOT_HERE = 77 };

static const char *const source =
    "__kernel void multiply(__global const float *a, __global const float *b, __global float *c,\n"
    "                       int tile, int first) {\n"
    "  const int i = get_global_id(1), j = get_global_id(0);\n"
    "  float sum = first ? 0.0f : c[i * tile + j];\n"
    "  for (int k = 0; k < tile; k++) sum += a[i * tile + k] * b[k * tile + j];\n"
    "  c[i * tile + j] = sum;\n"
    "}\n";

static void must(weir_result result, const char *what) {
  if (result == WEIR_SUCCESS) return;
  fprintf(stderr, "%s: %s: %s\n", what, weir_result_string(result), weir_last_error());
  exit(1);
}
#define MUST(call) must((call), #call)

static void must_cl(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  fprintf(stderr, "%s: OpenCL says %d\n", what, code);
  exit(1);
}
#define MUST_CL(call) must_cl((call), #call)

static void *memory(size_t count, size_t bytes) {
  void *made = calloc(count, bytes);
  if (made != NULL) return made;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static int a_of(uint64_t i, uint64_t k) { return (int)((7 * i + 3 * k) % 11) - 5; }
static int b_of(uint64_t k, uint64_t j) { return (int)((5 * k + 2 * j) % 13) - 6; }

/* ---- OpenCL ---- */

typedef struct {
  cl_platform_id platform;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernel;
  clSetKernelArgMemPointerINTEL_fn set_usm; /* NULL: addresses are of shared virtual memory */
} opencl;

/* The first device of a type in any platform. Whether it suffices Weir says. */
static int find_device(cl_device_type type, opencl *cl) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) return 0;
  for (cl_uint i = 0; i < count && i < 16; i++) {
    cl->platform = platforms[i];
    if (clGetDeviceIDs(platforms[i], type, 1, &cl->device, NULL) == CL_SUCCESS) return 1;
  }
  return 0;
}

static void start_opencl(opencl *cl) {
  cl_int code = CL_SUCCESS;
  cl->context = clCreateContext(NULL, 1, &cl->device, NULL, NULL, &code);
  must_cl(code, "clCreateContext");
  cl->queue = clCreateCommandQueueWithProperties(cl->context, cl->device, NULL, &code);
  must_cl(code, "clCreateCommandQueueWithProperties");
  const char *text = source;
  cl->program = clCreateProgramWithSource(cl->context, 1, &text, NULL, &code);
  must_cl(code, "clCreateProgramWithSource");
  MUST_CL(clBuildProgram(cl->program, 1, &cl->device, "", NULL, NULL));
  cl->kernel = clCreateKernel(cl->program, "multiply", &code);
  must_cl(code, "clCreateKernel");
}

static void finish_opencl(opencl *cl) {
  MUST_CL(clReleaseKernel(cl->kernel));
  MUST_CL(clReleaseProgram(cl->program));
  MUST_CL(clReleaseCommandQueue(cl->queue));
  MUST_CL(clReleaseContext(cl->context));
}

/* ---- the product on Weir ---- */

typedef struct {
  uint64_t size, tile, across; /* across: tiles in a row */
  opencl cl;
  weir_context context;
  weir_device device;
  weir_pool pool;
  weir_stream stream;
  weir_buffer *tiles[MATRICES]; /* of each, row by row */
} product;

/* Step s is the k-th of a tile of C: which one, and which tiles it uses. Every second row goes backwards. */
static void uses_of(const product *p, uint64_t s, weir_use uses[MATRICES]) {
  const uint64_t n = p->across, k = s % n, i = s / n / n, place = s / n % n;
  const uint64_t j = i % 2 == 0 ? place : n - 1 - place;
  uses[A] = (weir_use)WEIR_USE(p->tiles[A][i * n + k], WEIR_READ);
  uses[B] = (weir_use)WEIR_USE(p->tiles[B][k * n + j], WEIR_READ);
  uses[C] =
      (weir_use)WEIR_USE(p->tiles[C][i * n + j], k == 0 ? WEIR_DISCARD_WRITE : WEIR_READ_WRITE);
}

/* Which function takes addresses: Weir tells what they are. */
static void learn_addresses(product *p, uint64_t address) {
  weir_opencl_memory about = WEIR_OPENCL_MEMORY_INIT;
  MUST(weir_native_memory(p->context, p->device, address, WEIR_OPENCL_MEMORY, &about));
  if (about.type != WEIR_OPENCL_USM) return;
  void *found =
      clGetExtensionFunctionAddressForPlatform(p->cl.platform, "clSetKernelArgMemPointerINTEL");
  memcpy(&p->cl.set_usm, &found, sizeof found);
}

/* The launch: arguments are taken when it is enqueued, so the next step may set others. */
static void launch(product *p, const weir_use uses[MATRICES], int first) {
  const cl_int tile = (cl_int)p->tile, begins = first;
  const size_t global[2] = {p->tile, p->tile};
  for (cl_uint i = 0; i < MATRICES; i++) {
    const void *address = (const void *)(uintptr_t)uses[i].address;
    MUST_CL(p->cl.set_usm != NULL ? p->cl.set_usm(p->cl.kernel, i, address)
                                  : clSetKernelArgSVMPointer(p->cl.kernel, i, address));
  }
  MUST_CL(clSetKernelArg(p->cl.kernel, 3, sizeof tile, &tile));
  MUST_CL(clSetKernelArg(p->cl.kernel, 4, sizeof begins, &begins));
  MUST_CL(clEnqueueNDRangeKernel(p->cl.queue, p->cl.kernel, 2, NULL, global, NULL, 0, NULL, NULL));
}

static void compute(product *p) {
  const uint64_t steps = p->across * p->across * p->across;
  /* Nothing else holds a lease here, so it may wait without a deadline until there is room. */
  weir_acquire_options how = WEIR_ACQUIRE_OPTIONS_INIT;
  how.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  how.timeout_ns = WEIR_INFINITE;
  how.operation = "multiply";
  for (uint64_t s = 0; s < steps; s++) {
    weir_use uses[MATRICES];
    weir_lease lease;
    uses_of(p, s, uses);
    MUST(weir_acquire(p->pool, p->stream, uses, MATRICES, &how, &lease));
    if (s == 0) learn_addresses(p, uses[A].address);
    if (s + 1 < steps) {
      weir_use next[MATRICES];
      uses_of(p, s + 1, next);
      MUST(weir_prefetch(p->pool, p->stream, next, MATRICES));
    }
    launch(p, uses, s % p->across == 0);
    MUST(weir_release(lease, p->stream));
  }
  MUST(weir_stream_synchronize(p->stream));
}

static void fill(const product *p, int matrix, uint64_t row, uint64_t column, float *tile) {
  for (uint64_t i = 0; i < p->tile; i++) {
    for (uint64_t j = 0; j < p->tile; j++) {
      const uint64_t y = row * p->tile + i, x = column * p->tile + j;
      tile[i * p->tile + j] = (float)(matrix == A ? a_of(y, x) : b_of(y, x));
    }
  }
}

/* 0: the device does not suffice, and Weir has said why. */
static int start_weir(product *p) {
  weir_opencl_context mine = WEIR_OPENCL_CONTEXT_INIT(p->cl.context);
  const weir_native native = {"opencl", &mine};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.natives = &native;
  desc.native_count = 1;
  if (weir_context_create(&desc, &p->context) != WEIR_SUCCESS) {
    fprintf(stderr, "not here: %s\n", weir_last_error());
    return 0;
  }
  MUST(weir_device_find(p->context, "opencl", &p->device));
  MUST(weir_stream_wrap(p->context, p->device, p->cl.queue, 0, &p->stream));
  return 1;
}

static void make_tiles(product *p) {
  const uint64_t all = MATRICES * p->size * p->size * sizeof(float),
                 tile_bytes = p->tile * p->tile * sizeof(float);
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  device.device = p->device;
  device.budget = all / 4;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  /* In host memory each tile has pages of its own. */
  const uint64_t pages = MATRICES * p->across * p->across * ((tile_bytes + PAGE - 1) / PAGE);
  pool_desc.host_budget = pages * PAGE + all / 4;
  pool_desc.page_size = pool_desc.large_page_size = PAGE;
  MUST(weir_pool_create(p->context, &pool_desc, &p->pool));

  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = tile_bytes;
  float *bytes = memory(1, tile_bytes);
  for (int matrix = 0; matrix < MATRICES; matrix++) {
    p->tiles[matrix] = memory(p->across * p->across, sizeof(weir_buffer));
    for (uint64_t t = 0; t < p->across * p->across; t++) {
      MUST(weir_buffer_create(p->pool, &buffer_desc, &p->tiles[matrix][t]));
      if (matrix == C) continue; /* the kernels write every byte of it */
      fill(p, matrix, t / p->across, t % p->across, bytes);
      MUST(weir_buffer_write(p->pool, p->tiles[matrix][t], 0, tile_bytes, bytes));
    }
  }
  free(bytes);
}

static void finish_weir(product *p) {
  for (int matrix = 0; matrix < MATRICES; matrix++) {
    for (uint64_t t = 0; t < p->across * p->across; t++)
      MUST(weir_buffer_destroy(p->pool, p->tiles[matrix][t]));
    free(p->tiles[matrix]);
  }
  MUST(weir_pool_destroy(p->pool));
  MUST(weir_stream_close(p->stream));
  MUST(weir_context_destroy(p->context));
}

/* ---- the check ---- */

/* How many elements of C are wrong. A's rows repeat every 11 and B's columns every 13, so there are 143 sums to compare with. */
static uint64_t wrong_elements(const product *p) {
  int64_t sums[11][13] = {{0}};
  for (uint64_t i = 0; i < 11; i++)
    for (uint64_t j = 0; j < 13; j++)
      for (uint64_t k = 0; k < p->size; k++) sums[i][j] += a_of(i, k) * b_of(k, j);

  const uint64_t tile_bytes = p->tile * p->tile * sizeof(float);
  float *tile = memory(1, tile_bytes);
  uint64_t wrong = 0;
  for (uint64_t t = 0; t < p->across * p->across; t++) {
    MUST(weir_buffer_read(p->pool, p->tiles[C][t], 0, tile_bytes, tile));
    for (uint64_t i = 0; i < p->tile; i++) {
      for (uint64_t j = 0; j < p->tile; j++) {
        const uint64_t y = t / p->across * p->tile + i, x = t % p->across * p->tile + j;
        wrong += tile[i * p->tile + j] != (float)sums[y % 11][x % 13];
      }
    }
  }
  free(tile);
  return wrong;
}

static int parse(int count, char **words, uint64_t *size, uint64_t *tile) {
  for (int i = 1; i < count; i += 2) {
    uint64_t *value = strcmp(words[i], "--size") == 0   ? size
                      : strcmp(words[i], "--tile") == 0 ? tile
                                                        : NULL;
    char *end = NULL;
    if (value != NULL && i + 1 < count) *value = strtoull(words[i + 1], &end, 10);
    if (end == NULL || end == words[i + 1] || *end != '\0' || words[i + 1][0] == '-') {
      fprintf(stderr, "%s %s: unknown, or not a number\n", words[i],
              i + 1 < count ? words[i + 1] : "");
      return 0;
    }
  }
  if (*tile == 0 || *size > 8192 || *size % *tile != 0 || *size / *tile < 4) {
    fprintf(
        stderr,
        "--size is %llu and --tile %llu: a size of at most 8192, and of at least 4 whole tiles\n",
        (unsigned long long)*size, (unsigned long long)*tile);
    return 0;
  }
  return 1;
}

int main(int count, char **words) {
  product p = {0};
  p.size = 768, p.tile = 128;
  if (!parse(count, words, &p.size, &p.tile)) return 1;
  p.across = p.size / p.tile;
  if (!find_device(CL_DEVICE_TYPE_GPU, &p.cl) && !find_device(CL_DEVICE_TYPE_ALL, &p.cl)) {
    fprintf(stderr, "not here: OpenCL has no device\n");
    return NOT_HERE;
  }
  start_opencl(&p.cl);
  if (!start_weir(&p)) return NOT_HERE;
  make_tiles(&p);
  compute(&p);
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  MUST(weir_pool_stats_get(p.pool, &stats));
  const uint64_t wrong = wrong_elements(&p);
  finish_weir(&p);
  finish_opencl(&p.cl);
  printf(
      "matmul N=%llu tile=%llu: device holds 25 %% of the matrices, moved %.1f MiB to the device, "
      "%llu wrong elements\n",
      (unsigned long long)p.size, (unsigned long long)p.tile,
      (double)stats.promoted_bytes / (1 << 20), (unsigned long long)wrong);
  return wrong == 0 ? 0 : 1;
}
