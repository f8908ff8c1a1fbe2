/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.c - C = A x B, all three in tiles, on a device that holds a quarter of them. The same program stands in Rust, Go
 * and Python beside their bindings.
 *
 * Each tile is a buffer. A step multiplies one tile of A with one of B into one of C: it leases the three, enqueues the
 * kernel and releases them, and the CPU waits for nothing. Before it does, it asks for the tiles of the step after it, so
 * that they come while the kernel runs. Tiles of C are made row by row, every second row backwards: the columns of B that
 * were used last are still there.
 *
 * The elements are small integers, so that every sum is exact, and all of C is compared with what integers give.
 *
 *   example_matmul [--size N] [--tile T]      N rows and columns, a multiple of T
 *
 * It runs on the host backend, whose kernels are C functions; on a GPU the host call below is a launch.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { GRANULE = 64 << 10, A = 0, B = 1, C = 2, MATRICES = 3 };

static void must(weir_result result, const char *what) {
  if (result == WEIR_SUCCESS) return;
  fprintf(stderr, "%s: %s: %s\n", what, weir_result_string(result), weir_last_error());
  exit(1);
}
#define MUST(call) must((call), #call)

static void *memory(size_t count, size_t bytes) {
  void *made = calloc(count, bytes);
  if (made != NULL) return made;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static int a_of(uint64_t i, uint64_t k) { return (int)((7 * i + 3 * k) % 11) - 5; }
static int b_of(uint64_t k, uint64_t j) { return (int)((5 * k + 2 * j) % 13) - 6; }

/* ---- the kernel ---- */

typedef struct {
  uint64_t tile;
  const float *a, *b;
  float *c;
  int first; /* c holds nothing yet */
} kernel;

static void multiply(void *user) {
  const kernel *work = user;
  const uint64_t t = work->tile;
  if (work->first) memset(work->c, 0, t * t * sizeof *work->c);
  for (uint64_t i = 0; i < t; i++) {
    for (uint64_t k = 0; k < t; k++) {
      const float a = work->a[i * t + k];
      for (uint64_t j = 0; j < t; j++) work->c[i * t + j] += a * work->b[k * t + j];
    }
  }
}

/* ---- the product on Weir ---- */

typedef struct {
  uint64_t size, tile, across; /* across: tiles in a row */
  weir_context context;
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

static void compute(product *p) {
  const uint64_t steps = p->across * p->across * p->across;
  kernel *kernels = memory(steps, sizeof *kernels); /* each must live until it has run */
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
    kernels[s] = (kernel){p->tile, (const float *)(uintptr_t)uses[A].address,
                          (const float *)(uintptr_t)uses[B].address,
                          (float *)(uintptr_t)uses[C].address, s % p->across == 0};
    if (s + 1 < steps) {
      weir_use next[MATRICES];
      uses_of(p, s + 1, next);
      MUST(weir_prefetch(p->pool, p->stream, next, MATRICES));
    }
    MUST(weir_stream_host_call(p->stream, multiply, &kernels[s])); /* the "launch" */
    MUST(weir_release(lease, p->stream));
  }
  MUST(weir_stream_synchronize(p->stream));
  free(kernels);
}

static void fill(const product *p, int matrix, uint64_t row, uint64_t column, float *tile) {
  for (uint64_t i = 0; i < p->tile; i++) {
    for (uint64_t j = 0; j < p->tile; j++) {
      const uint64_t y = row * p->tile + i, x = column * p->tile + j;
      tile[i * p->tile + j] = (float)(matrix == A ? a_of(y, x) : b_of(y, x));
    }
  }
}

static product start(uint64_t size, uint64_t tile) {
  product p = {0};
  p.size = size, p.tile = tile, p.across = size / tile;
  const uint64_t all = MATRICES * size * size * sizeof(float),
                 tile_bytes = tile * tile * sizeof(float);

  char backend[128];
  snprintf(backend, sizeof backend, "host.memory=%llu;host.granule=%d;host.granule_large=0",
           (unsigned long long)(all + (64 << 20)) / GRANULE * GRANULE, GRANULE);
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.options = backend;
  MUST(weir_context_create(&context_desc, &p.context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  /* "gpu,host" where the kernels are a GPU's: here they are functions of the CPU, which needs memory that it can reach. */
  MUST(weir_device_find(p.context, "host", &device.device));
  MUST(weir_stream_create(p.context, device.device, 0, &p.stream));

  device.budget = all / 4;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = all + all / 4;
  MUST(weir_pool_create(p.context, &pool_desc, &p.pool));

  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = tile_bytes;
  float *bytes = memory(1, tile_bytes);
  for (int matrix = 0; matrix < MATRICES; matrix++) {
    p.tiles[matrix] = memory(p.across * p.across, sizeof(weir_buffer));
    for (uint64_t t = 0; t < p.across * p.across; t++) {
      MUST(weir_buffer_create(p.pool, &buffer_desc, &p.tiles[matrix][t]));
      if (matrix == C) continue; /* the kernels write every byte of it */
      fill(&p, matrix, t / p.across, t % p.across, bytes);
      MUST(weir_buffer_write(p.pool, p.tiles[matrix][t], 0, tile_bytes, bytes));
    }
  }
  free(bytes);
  return p;
}

static void finish(product *p) {
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
  uint64_t size = 768, tile = 128;
  if (!parse(count, words, &size, &tile)) return 1;
  product p = start(size, tile);
  compute(&p);
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  MUST(weir_pool_stats_get(p.pool, &stats));
  const uint64_t wrong = wrong_elements(&p);
  finish(&p);
  printf(
      "matmul N=%llu tile=%llu: device holds 25 %% of the matrices, moved %.1f MiB to the device, "
      "%llu wrong elements\n",
      (unsigned long long)size, (unsigned long long)tile, (double)stats.promoted_bytes / (1 << 20),
      (unsigned long long)wrong);
  return wrong == 0 ? 0 : 1;
}
