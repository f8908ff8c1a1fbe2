/* SPDX-License-Identifier: Apache-2.0
 *
 * heat_stencil.c - the 3-D heat equation on a grid that is four times as large as the device and twice as large as the
 * host memory it is given: what does not fit is compressed, and what does not fit there lies in a file.
 *
 * Two grids of n x n x n floats, the present and the next, are cut into slabs of z-planes; each slab is one buffer. A
 * step computes slab after slab: it leases the slab of the present grid, one plane of each neighbour, and the slab of
 * the next grid it will write, and enqueues the kernel. The CPU never waits for a kernel: leases are released right
 * after their kernel has been enqueued, and Weir orders its own copies behind it. Announcing a few windows ahead lets it
 * bring them in while earlier ones are computed. Every second step runs downwards, so that it begins with what is
 * still resident.
 *
 * The result must be equal bit for bit to that of the same kernel on ordinary memory.
 *
 *   example_heat_stencil [--size N] [--planes P] [--steps T] [--device BYTES] [--host BYTES] [--compressed BYTES]
 *                        [--storage DIR] [--storage-size BYTES]
 *
 * BYTES may end in K, M or G; --compressed 0 and --storage-size 0 do without the tier. It runs on the host backend, whose
 * kernels are C functions; on a GPU the host call below is a launch.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

enum { PAGE = 64 << 10, AHEAD = 3 /* windows announced */ };
static const uint64_t unset = UINT64_MAX;

typedef struct {
  uint64_t size, planes, steps;
  uint64_t device, host, compressed, storage_size;
  const char *storage;
} options;

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

/* Leases the uses as soon as there is room. Nothing else holds a lease here, so it may wait without a deadline. */
static weir_lease lease_when_possible(weir_pool pool, weir_stream stream, weir_use *uses,
                                      size_t count, const char *operation) {
  weir_acquire_options how = WEIR_ACQUIRE_OPTIONS_INIT;
  how.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  how.timeout_ns = WEIR_INFINITE;
  how.operation = operation;
  weir_lease lease;
  MUST(weir_acquire(pool, stream, uses, count, &how, &lease));
  return lease;
}

/* ---- the kernel ---- */

/* Computes the planes of one slab. `below` and `above` are the planes next to it, NULL where the grid ends. */
typedef struct {
  uint64_t size, planes;
  const float *below, *here, *above;
  float *next;
} kernel;

/* The outermost cells keep their temperature; every other one moves towards the mean of its six neighbours. */
static void relax_plane(uint64_t n, const float *below, const float *here, const float *above,
                        float *next) {
  memcpy(next, here, n * n * sizeof *next);
  if (below == NULL || above == NULL) return;
  for (uint64_t y = 1; y + 1 < n; y++) {
    for (uint64_t x = 1; x + 1 < n; x++) {
      const uint64_t i = y * n + x;
      const float around =
          here[i - 1] + here[i + 1] + here[i - n] + here[i + n] + below[i] + above[i];
      next[i] = here[i] + 0.125F * (around - 6.0F * here[i]);
    }
  }
}

static void run_kernel(void *user) {
  const kernel *work = user;
  const uint64_t plane = work->size * work->size;
  for (uint64_t z = 0; z < work->planes; z++) {
    const float *here = work->here + z * plane;
    const float *below = z > 0 ? here - plane : work->below;
    const float *above = z + 1 < work->planes ? here + plane : work->above;
    relax_plane(work->size, below, here, above, work->next + z * plane);
  }
}

/* A warm room with a hot ball in it and a cold floor; the noise sees to it that no two cells are alike. */
static void fill_plane(uint64_t n, uint64_t z, float *plane) {
  uint64_t noise = z * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (uint64_t y = 0; y < n; y++) {
    for (uint64_t x = 0; x < n; x++) {
      const float dx = 2.0F * (float)x / (float)n - 1, dy = 2.0F * (float)y / (float)n - 1;
      const float dz = 2.0F * (float)z / (float)n - 1;
      noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
      float heat = dx * dx + dy * dy + dz * dz < 0.25F ? 90.0F : 20.0F;
      if (z == 0) heat = 0.0F;
      plane[y * n + x] = heat + (float)(noise >> 56) * 0.001F;
    }
  }
}

/* ---- the run on Weir ---- */

typedef struct {
  weir_context context;
  weir_pool pool;
  weir_stream stream;
  uint64_t slabs, slab_bytes, plane_bytes;
  weir_buffer *grids[2]; /* of each, the slabs */
} solver;

static float *address(const weir_use *use) { return (float *)(uintptr_t)use->address; }

/* What computing one slab uses. Where the grid ends there is no neighbour: a plane of the slab itself stands in for it, so
 * that there are always four uses, and the kernel leaves it alone. */
enum { HERE, NEXT, BELOW, ABOVE, USES };
static void window(const solver *solve, uint64_t step, uint64_t slab, weir_use uses[USES]) {
  weir_buffer *present = solve->grids[step % 2], *next = solve->grids[(step + 1) % 2];
  const uint64_t below = slab > 0 ? slab - 1 : slab,
                 above = slab + 1 < solve->slabs ? slab + 1 : slab;
  uses[HERE] = (weir_use)WEIR_USE(present[slab], WEIR_READ);
  uses[NEXT] = (weir_use)WEIR_USE(next[slab], WEIR_DISCARD_WRITE); /* every byte will be new */
  uses[BELOW] = (weir_use)WEIR_USE(present[below], WEIR_READ);
  uses[BELOW].offset = solve->slab_bytes - solve->plane_bytes; /* its topmost plane */
  uses[ABOVE] = (weir_use)WEIR_USE(present[above], WEIR_READ);
  uses[ABOVE].length = solve->plane_bytes; /* its lowest plane */
}

/* The slab of the i-th window: upwards in even steps, downwards in odd ones. */
static uint64_t slab_of(const solver *solve, uint64_t i) {
  const uint64_t step = i / solve->slabs, place = i % solve->slabs;
  return step % 2 == 0 ? place : solve->slabs - 1 - place;
}

static void announce(const solver *solve, uint64_t i) {
  weir_use uses[USES];
  window(solve, i / solve->slabs, slab_of(solve, i), uses);
  weir_operation operation = WEIR_OPERATION_INIT;
  operation.name = "relax";
  operation.uses = uses;
  operation.use_count = USES;
  MUST(weir_announce(solve->pool, solve->stream, &operation, 1, 0));
}

static void compute(const solver *solve, const options *opts) {
  const uint64_t windows = opts->steps * solve->slabs;
  kernel *kernels = memory(windows + 1, sizeof *kernels); /* each must live until it has run */
  for (uint64_t i = 0; i < AHEAD && i < windows; i++) announce(solve, i);
  for (uint64_t i = 0; i < windows; i++) {
    if (i + AHEAD < windows) announce(solve, i + AHEAD);
    const uint64_t slab = slab_of(solve, i);
    weir_use uses[USES];
    window(solve, i / solve->slabs, slab, uses);
    const weir_lease lease = lease_when_possible(solve->pool, solve->stream, uses, USES, "relax");
    kernels[i] = (kernel){opts->size,
                          opts->planes,
                          slab > 0 ? address(&uses[BELOW]) : NULL,
                          address(&uses[HERE]),
                          slab + 1 < solve->slabs ? address(&uses[ABOVE]) : NULL,
                          address(&uses[NEXT])};
    MUST(weir_stream_host_call(solve->stream, run_kernel, &kernels[i])); /* the "launch" */
    MUST(weir_release(lease, solve->stream));
  }
  MUST(weir_stream_synchronize(solve->stream));
  free(kernels);
}

static solver start(const options *opts) {
  solver solve = {0};
  solve.slabs = opts->size / opts->planes;
  solve.plane_bytes = opts->size * opts->size * sizeof(float);
  solve.slab_bytes = opts->planes * solve.plane_bytes;

  char backend[128];
  snprintf(backend, sizeof backend, "host.memory=%llu;host.granule=%d;host.granule_large=0",
           (unsigned long long)(opts->device + (64 << 20)) / PAGE * PAGE, PAGE);
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.options = backend;
  MUST(weir_context_create(&context_desc, &solve.context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  /* "gpu,host" where the kernels are a GPU's: here they are functions of the CPU, which needs memory that it can reach. */
  MUST(weir_device_find(solve.context, "host", &device.device));
  MUST(weir_stream_create(solve.context, device.device, 0, &solve.stream));

  device.budget = opts->device;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = opts->host != 0 ? opts->host : WEIR_NONE;
  pool_desc.compressed_budget = opts->compressed;
  pool_desc.storage_budget = opts->storage_size;
  if (opts->storage_size != 0) {
    pool_desc.storage_paths = &opts->storage;
    pool_desc.storage_path_count = 1;
  }
  MUST(weir_pool_create(solve.context, &pool_desc, &solve.pool));

  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = solve.slab_bytes;
  float *slab = memory(1, solve.slab_bytes);
  for (uint64_t s = 0; s < solve.slabs; s++) {
    for (int g = 0; g < 2; g++) {
      if (s == 0) solve.grids[g] = memory(solve.slabs, sizeof(weir_buffer));
      buffer_desc.tag = 2 * s + (uint64_t)g;
      MUST(weir_buffer_create(solve.pool, &buffer_desc, &solve.grids[g][s]));
    }
    for (uint64_t z = 0; z < opts->planes; z++)
      fill_plane(opts->size, s * opts->planes + z, slab + z * opts->size * opts->size);
    /* Filled where it is used; weir_buffer_write would put the whole grid into host memory. */
    weir_use use = WEIR_USE(solve.grids[0][s], WEIR_DISCARD_WRITE);
    const weir_lease lease = lease_when_possible(solve.pool, solve.stream, &use, 1, "fill");
    MUST(weir_stream_synchronize(solve.stream)); /* the CPU is about to touch it */
    memcpy(address(&use), slab, solve.slab_bytes);
    MUST(weir_release(lease, solve.stream));
  }
  free(slab);
  return solve;
}

static void finish(solver *solve) {
  for (uint64_t s = 0; s < solve->slabs; s++)
    for (int g = 0; g < 2; g++) MUST(weir_buffer_destroy(solve->pool, solve->grids[g][s]));
  for (int g = 0; g < 2; g++) free(solve->grids[g]);
  MUST(weir_pool_destroy(solve->pool));
  MUST(weir_stream_close(solve->stream));
  MUST(weir_context_destroy(solve->context));
}

/* ---- the check ---- */

/* Cells of the result, read from wherever they lie, that differ from those of a run on ordinary memory. */
static uint64_t compare(const solver *solve, const options *opts) {
  const uint64_t plane = opts->size * opts->size;
  float *grids[2];
  for (int g = 0; g < 2; g++) grids[g] = memory(opts->size, solve->plane_bytes);
  for (uint64_t z = 0; z < opts->size; z++) fill_plane(opts->size, z, grids[0] + z * plane);
  for (uint64_t step = 0; step < opts->steps; step++) {
    kernel work = {opts->size, opts->size, NULL, grids[step % 2], NULL, grids[(step + 1) % 2]};
    run_kernel(&work);
  }
  const float *expected = grids[opts->steps % 2];
  float *slab = memory(1, solve->slab_bytes);
  uint64_t wrong = 0;
  for (uint64_t s = 0; s < solve->slabs; s++) {
    MUST(weir_buffer_read(solve->pool, solve->grids[opts->steps % 2][s], 0, solve->slab_bytes,
                          slab));
    for (uint64_t i = 0; i < opts->planes * plane; i++)
      wrong += memcmp(&slab[i], &expected[s * opts->planes * plane + i], sizeof *slab) != 0;
  }
  free(slab);
  for (int g = 0; g < 2; g++) free(grids[g]);
  return wrong;
}

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

/* Prints what the run took. False if a tier lost or damaged something on the way. */
static int report(const solver *solve, const options *opts) {
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  MUST(weir_pool_stats_get(solve->pool, &stats));
  printf(
      "grids of %.1f MiB on %.1f MiB of device memory, %.1f MiB of host memory, %.1f MiB for "
      "compressed pages,"
      " %.1f MiB of storage\n",
      mib(2 * opts->size * solve->plane_bytes), mib(stats.device_budget), mib(opts->host),
      mib(opts->compressed), mib(opts->storage_size));
  printf("  to the device   %10.1f MiB, %.1f of them ahead of demand\n", mib(stats.promoted_bytes),
         mib(stats.prefetched_bytes));
  printf("  from the device %10.1f MiB, and %.1f dropped without a copy\n",
         mib(stats.demoted_bytes), mib(stats.dropped_clean_bytes));
  if (stats.compressed_out_bytes != 0)
    printf("  compressed      %10.1f MiB, to 1/%.2f\n", mib(stats.compressed_in_bytes),
           (double)stats.compressed_in_bytes / (double)stats.compressed_out_bytes);
  printf("  storage         %10.1f MiB written, %.1f read\n", mib(stats.storage_written_bytes),
         mib(stats.storage_read_bytes));
  if (stats.checksum_failures == 0 && stats.io_errors == 0) return 1;
  printf("%llu checksums were wrong, %llu reads and writes failed\n",
         (unsigned long long)stats.checksum_failures, (unsigned long long)stats.io_errors);
  return 0;
}

/* ---- options ---- */

static char temporary[] = "/var/tmp/weir-heat-XXXXXX";
static int temporary_made;
/* The spill file has no name, so the folder is empty whatever happened. */
static void remove_temporary(void) {
  if (temporary_made) rmdir(temporary);
}

static int parse_bytes(const char *text, uint64_t *value) {
  char *end;
  *value = strtoull(text, &end, 10);
  const char *units = "KMG", *unit = *end != '\0' ? strchr(units, *end) : NULL;
  if (end == text || text[0] == '-' || (*end != '\0' && (unit == NULL || end[1] != '\0'))) return 0;
  if (unit != NULL) *value <<= 10 * (unit - units + 1);
  return 1;
}

static int parse(int count, char **words, options *opts) {
  for (int i = 1; i + 1 < count; i += 2) {
    const struct {
      const char *name;
      uint64_t *value;
    } numbers[] = {{"--size", &opts->size},
                   {"--planes", &opts->planes},
                   {"--steps", &opts->steps},
                   {"--device", &opts->device},
                   {"--host", &opts->host},
                   {"--compressed", &opts->compressed},
                   {"--storage-size", &opts->storage_size}};
    size_t n = 0;
    while (n < sizeof numbers / sizeof *numbers && strcmp(words[i], numbers[n].name) != 0) n++;
    if (strcmp(words[i], "--storage") == 0) {
      opts->storage = words[i + 1];
    } else if (n == sizeof numbers / sizeof *numbers ||
               !parse_bytes(words[i + 1], numbers[n].value)) {
      fprintf(stderr, "%s %s: unknown, or not a number\n", words[i], words[i + 1]);
      return 0;
    }
  }
  if (count % 2 == 0) {
    fprintf(stderr, "%s: a value is missing\n", words[count - 1]);
    return 0;
  }
  if (opts->size < 3 || opts->size > 4096 || opts->planes == 0 || opts->size % opts->planes != 0) {
    fprintf(stderr, "--size must be 3 .. 4096 and a multiple of --planes\n");
    return 0;
  }
  const uint64_t whole = 2 * opts->size * opts->size * opts->size * sizeof(float);
  if (opts->device == unset) opts->device = whole / 4;
  if (opts->host == unset) opts->host = whole / 2;
  if (opts->compressed == unset) opts->compressed = whole / 8;
  if (opts->storage_size == unset) opts->storage_size = whole;
  if (opts->storage_size == 0 || opts->storage != NULL) return 1;
  temporary_made = mkdtemp(temporary) != NULL;
  opts->storage = temporary;
  atexit(remove_temporary);
  if (!temporary_made) perror(temporary);
  return temporary_made;
}

int main(int count, char **words) {
  options opts = {128, 8, 6, unset, unset, unset, unset, NULL};
  if (!parse(count, words, &opts)) return 1;
  solver solve = start(&opts);
  compute(&solve, &opts);
  const uint64_t wrong = compare(&solve, &opts);
  const int sound = report(&solve, &opts);
  finish(&solve);
  if (wrong != 0) printf("%llu cells are wrong\n", (unsigned long long)wrong);
  if (wrong == 0)
    printf("right: every cell is what the same kernel makes of it in ordinary memory\n");
  return wrong == 0 && sound ? 0 : 1;
}
