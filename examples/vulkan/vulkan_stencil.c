/* SPDX-License-Identifier: Apache-2.0
 *
 * vulkan_stencil.c - the 3-D heat equation by a compute shader, on two grids that are four times as large as the device memory
 * they are given; what does not fit is in host memory.
 *
 * The grids, the present and the next, are cut into slabs of z-planes; each slab is one buffer. A step computes slab after slab: it
 * leases the slab of the present grid, one plane of each neighbour, and the slab of the next grid, pushes their addresses to the
 * shader and submits it to the stream's queue. The CPU waits for nothing: leases are released right after the submission, and Weir
 * orders its own copies behind it. Every second step runs downwards, so that it begins with what is still resident.
 *
 * The result must be equal bit for bit to what the CPU computes (which takes compiling this file with -ffp-contract=off).
 *
 *   example_vulkan_stencil [--size N] [--planes P] [--steps T] [--budget MIB]
 *
 * MIB is a quarter of the grids unless it is given.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t shader[] =
#include <stencil.comp.inc>
    ;

typedef struct {
  uint64_t size, planes, steps, budget;
} options;

typedef struct {
  weir_context context;
  weir_pool pool;
  weir_stream stream; /* the launcher's */
  engine engine;
  launcher launcher;
  program relax;
  uint64_t slabs, slab_bytes, plane_bytes;
  weir_buffer *grids[2]; /* of each, the slabs */
} solver;

/* The shader's push constants. */
typedef struct {
  uint64_t below, here, above, next;
  uint32_t size, planes, first, last;
} slab_constants;

static void *memory(size_t count, size_t bytes) {
  void *made = calloc(count, bytes);
  if (made != NULL) return made;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

/* ---- the run on Weir ---- */

/* What computing one slab uses. Where the grid ends, a plane of the slab itself stands in for the neighbour's. */
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

static void launch(solver *solve, const options *opts, uint64_t slab, const weir_use *uses) {
  const slab_constants constants = {
      uses[BELOW].address,  uses[HERE].address,     uses[ABOVE].address, uses[NEXT].address,
      (uint32_t)opts->size, (uint32_t)opts->planes, slab == 0,           slab + 1 == solve->slabs};
  const VkCommandBuffer commands = launch_begin(&solve->launcher);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, solve->relax.pipeline);
  vkCmdPushConstants(commands, solve->relax.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                     sizeof constants, &constants);
  vkCmdDispatch(commands, ((uint32_t)opts->size + 15) / 16, ((uint32_t)opts->size + 7) / 8,
                (uint32_t)opts->planes);
  launch_end(&solve->launcher);
}

static void compute(solver *solve, const options *opts) {
  /* Nothing else holds a lease here, so it may wait without a deadline. */
  weir_acquire_options how = WEIR_ACQUIRE_OPTIONS_INIT;
  how.flags = WEIR_ACQUIRE_SOLE_HOLDER;
  how.timeout_ns = WEIR_INFINITE;
  how.operation = "relax";
  const uint64_t windows = opts->steps * solve->slabs;
  for (uint64_t i = 0; i < windows; i++) {
    const uint64_t slab = slab_of(solve, i);
    weir_use uses[USES];
    weir_lease lease;
    window(solve, i / solve->slabs, slab, uses);
    MUST(weir_acquire(solve->pool, solve->stream, uses, USES, &how, &lease));
    launch(solve, opts, slab, uses);
    MUST(weir_release(lease, solve->stream));
    if (i + 1 == windows) break;
    window(solve, (i + 1) / solve->slabs, slab_of(solve, i + 1), uses);
    MUST(weir_prefetch(solve->pool, solve->stream, uses, USES)); /* while this one is computed */
  }
  MUST(weir_stream_synchronize(solve->stream));
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

static void start(solver *solve, const options *opts) {
  solve->slabs = opts->size / opts->planes;
  solve->plane_bytes = opts->size * opts->size * sizeof(float);
  solve->slab_bytes = opts->planes * solve->plane_bytes;
  const uint64_t grids = 2 * solve->slabs * solve->slab_bytes;

  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  engine_start(&solve->engine);
  solve->context = engine_context(&solve->engine, &device.device);
  launcher_start(&solve->launcher, &solve->engine, solve->context, device.device);
  solve->stream = solve->launcher.stream;
  solve->relax = compute_program(solve->launcher.device, shader, sizeof shader,
                                 sizeof(slab_constants), VK_NULL_HANDLE);

  device.budget = opts->budget != 0 ? opts->budget << 20 : grids / 4;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.page_size = small_page(solve->context, device.device);
  pool_desc.host_budget = grids + grids / 4;
  MUST(weir_pool_create(solve->context, &pool_desc, &solve->pool));

  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = solve->slab_bytes;
  float *slab = memory(1, solve->slab_bytes);
  for (int g = 0; g < 2; g++) solve->grids[g] = memory(solve->slabs, sizeof(weir_buffer));
  for (uint64_t s = 0; s < solve->slabs; s++) {
    for (int g = 0; g < 2; g++)
      MUST(weir_buffer_create(solve->pool, &buffer_desc, &solve->grids[g][s]));
    for (uint64_t z = 0; z < opts->planes; z++)
      fill_plane(opts->size, s * opts->planes + z, slab + z * opts->size * opts->size);
    MUST(weir_buffer_write(solve->pool, solve->grids[0][s], 0, solve->slab_bytes, slab));
  }
  free(slab);
}

static void finish(solver *solve) {
  for (int g = 0; g < 2; g++) {
    for (uint64_t s = 0; s < solve->slabs; s++)
      MUST(weir_buffer_destroy(solve->pool, solve->grids[g][s]));
    free(solve->grids[g]);
  }
  program_destroy(solve->launcher.device, &solve->relax);
  MUST(weir_pool_destroy(solve->pool));
  launcher_finish(&solve->launcher);
  MUST(weir_context_destroy(solve->context));
  engine_finish(&solve->engine);
}

/* ---- the check ---- */

/* One step on the CPU, of a grid of n x n x n. */
static void relax_all(uint64_t n, const float *here, float *next) {
  const uint64_t plane = n * n;
  memcpy(next, here, n * plane * sizeof *next);
  for (uint64_t z = 1; z + 1 < n; z++) {
    for (uint64_t y = 1; y + 1 < n; y++) {
      for (uint64_t x = 1; x + 1 < n; x++) {
        const uint64_t i = z * plane + y * n + x;
        const float around = here[i - 1] + here[i + 1] + here[i - n] + here[i + n] +
                             here[i - plane] + here[i + plane];
        next[i] = here[i] + 0.125F * (around - 6.0F * here[i]);
      }
    }
  }
}

/* Cells of the result that differ from the CPU's. */
static uint64_t compare(const solver *solve, const options *opts) {
  const uint64_t plane = opts->size * opts->size, slab_cells = opts->planes * plane;
  float *grids[2], *slab = memory(1, solve->slab_bytes);
  for (int g = 0; g < 2; g++) grids[g] = memory(opts->size, solve->plane_bytes);
  for (uint64_t z = 0; z < opts->size; z++) fill_plane(opts->size, z, grids[0] + z * plane);
  for (uint64_t step = 0; step < opts->steps; step++)
    relax_all(opts->size, grids[step % 2], grids[(step + 1) % 2]);
  const float *expected = grids[opts->steps % 2];
  uint64_t wrong = 0;
  for (uint64_t s = 0; s < solve->slabs; s++) {
    MUST(weir_buffer_read(solve->pool, solve->grids[opts->steps % 2][s], 0, solve->slab_bytes,
                          slab));
    for (uint64_t i = 0; i < slab_cells; i++)
      wrong += memcmp(&slab[i], &expected[s * slab_cells + i], sizeof *slab) != 0;
  }
  free(slab);
  for (int g = 0; g < 2; g++) free(grids[g]);
  return wrong;
}

/* One line. False if all of it fitted on the device: then nothing was shown. */
static int report(const solver *solve, const options *opts, uint64_t wrong) {
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  MUST(weir_pool_stats_get(solve->pool, &stats));
  const double mib = 1 << 20, grids = 2.0 * (double)(solve->slabs * solve->slab_bytes);
  printf(
      "vulkan_stencil N=%llu steps=%llu: device holds %.0f %% of the grids, moved %.1f MiB to "
      "the device, %llu wrong cells\n",
      (unsigned long long)opts->size, (unsigned long long)opts->steps,
      100 * (double)stats.device_budget / grids, (double)stats.promoted_bytes / mib,
      (unsigned long long)wrong);
  return stats.promoted_bytes > 0;
}

static int parse(int count, char **words, options *opts) {
  for (int i = 1; i + 1 < count; i += 2) {
    uint64_t *number = strcmp(words[i], "--size") == 0     ? &opts->size
                       : strcmp(words[i], "--planes") == 0 ? &opts->planes
                       : strcmp(words[i], "--steps") == 0  ? &opts->steps
                       : strcmp(words[i], "--budget") == 0 ? &opts->budget
                                                           : NULL;
    char *end = words[i + 1];
    if (number != NULL) *number = strtoull(words[i + 1], &end, 10);
    if (number == NULL || end == words[i + 1] || *end != '\0' || words[i + 1][0] == '-') {
      fprintf(stderr, "%s %s: unknown, or not a number\n", words[i], words[i + 1]);
      return 0;
    }
  }
  if (count % 2 == 0) {
    fprintf(stderr, "%s: a value is missing\n", words[count - 1]);
    return 0;
  }
  if (opts->size < 3 || opts->size > 1024 || opts->planes == 0 || opts->size % opts->planes != 0 ||
      opts->steps > 100000 || opts->budget > 1 << 20) {
    fprintf(stderr,
            "--size must be 3 .. 1024 and a multiple of --planes, --steps at most 100000, "
            "--budget at most 1048576\n");
    return 0;
  }
  return 1;
}

int main(int count, char **words) {
  options opts = {128, 4, 6, 0};
  if (!parse(count, words, &opts)) return 1;
  static solver solve;
  start(&solve, &opts);
  compute(&solve, &opts);
  const uint64_t wrong = compare(&solve, &opts);
  const int moved = report(&solve, &opts, wrong);
  finish(&solve);
  return wrong == 0 && moved ? 0 : 1;
}
