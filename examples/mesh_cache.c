/* SPDX-License-Identifier: Apache-2.0
 *
 * mesh_cache.c - a renderer's cache of read-only meshes, many times larger than the device.
 *
 * A world of cells, a mesh in each. All meshes are loaded once; then a camera walks about, and every frame leases the
 * meshes around it and draws them: here, drawing is computing each mesh's checksum "on the device". Before it moves on,
 * the meshes that will come into sight if it keeps its direction are prefetched.
 *
 * There is no cache to write: a buffer per mesh is all, and Weir keeps on the device what was used lately. As nothing
 * writes a mesh after loading, whatever leaves the device has its bytes in a lower tier already and is dropped without a
 * copy; the program checks that (clean drops of nearly 100 %), and that every mesh drawn had the right bytes.
 *
 *   example_mesh_cache [--meshes N] [--frames N] [--seed N] [--device BYTES] [--host BYTES] [--compressed BYTES]
 *                      [--storage DIR] [--storage-size BYTES]
 *
 * BYTES may end in K, M or G; --compressed 0 and --storage-size 0 do without the tier. It runs on the host backend, whose
 * kernels are C functions; on a GPU the host call below is a launch.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

enum { PAGE = 16 << 10, SIGHT = 3, IN_SIGHT = (2 * SIGHT + 1) * (2 * SIGHT + 1) };
static const uint64_t unset = UINT64_MAX;

typedef struct {
  uint64_t meshes, frames, seed;
  uint64_t device, host, compressed, storage_size;
  const char *storage;
} options;

static void must(weir_result result, const char *what) {
  if (result == WEIR_SUCCESS) return;
  fprintf(stderr, "%s: %s: %s\n", what, weir_result_string(result), weir_last_error());
  exit(1);
}
#define MUST(call) must((call), #call)

static void *memory(uint64_t count, size_t bytes) {
  void *made = calloc(count, bytes);
  if (made != NULL) return made;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static uint64_t next_random(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
  uint64_t x = *state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
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

/* ---- meshes ---- */

typedef struct {
  weir_buffer buffer;
  uint64_t bytes, checksum;
} mesh;

/* A vertex: a position and a normal, as most engines store them. */
typedef struct {
  float position[3], normal[3], texture[2];
} vertex;

/* Two in three meshes are small props, the others terrain and buildings: 4 KiB to 256 KiB. */
static uint64_t mesh_bytes(uint64_t id, uint64_t seed) {
  uint64_t state = seed ^ id * UINT64_C(0xd1342543de82ef95);
  const uint64_t draw = next_random(&state);
  const uint64_t kib = draw % 3 != 0 ? 4 + (draw >> 8) % 28 : 64 + (draw >> 8) % 192;
  return kib << 10;
}

/* A bumpy sphere, with bumps of its own. */
static void load_mesh(uint64_t id, uint64_t seed, vertex *vertices, uint64_t count) {
  uint64_t state = seed + id;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t draw = next_random(&state);
    const float along = 6.2831853F * (float)(i % 64) / 64,
                up = 3.1415927F * (float)i / (float)count;
    const float normal[3] = {sinf(up) * cosf(along), sinf(up) * sinf(along), cosf(up)};
    const float radius = 1 + 0.05F * (float)(draw >> 52) / 4096;
    for (int axis = 0; axis < 3; axis++) {
      vertices[i].normal[axis] = normal[axis];
      vertices[i].position[axis] = radius * normal[axis];
    }
    vertices[i].texture[0] = (float)(i % 64) / 64;
    vertices[i].texture[1] = (float)i / (float)count;
  }
}

static uint64_t checksum(const void *bytes, uint64_t size) {
  const uint64_t *words = bytes;
  uint64_t lanes[4] = {1, 2, 3, 4}; /* four, so that the multiplications overlap */
  for (uint64_t i = 0; i < size / sizeof *words; i++)
    lanes[i % 4] = (lanes[i % 4] ^ words[i]) * UINT64_C(0x9fb21c651e98df25) + (lanes[i % 4] >> 29);
  return lanes[0] ^ lanes[1] << 1 ^ lanes[2] << 2 ^ lanes[3] << 3;
}

/* ---- frames ---- */

/* What the device is to draw, and what it found. */
typedef struct {
  uint64_t count, wrong;
  const void *at[IN_SIGHT];
  const mesh *meshes[IN_SIGHT];
} frame;

static void draw(void *user) {
  frame *work = user;
  for (uint64_t i = 0; i < work->count; i++)
    work->wrong += checksum(work->at[i], work->meshes[i]->bytes) != work->meshes[i]->checksum;
}

typedef struct {
  weir_context context;
  weir_pool pool;
  weir_stream stream;
  uint64_t side, bytes; /* cells along the square world; bytes of all meshes */
  mesh *meshes;
} world;

typedef struct {
  int64_t x, y, dx, dy;
} camera;

/* The meshes within sight of a place. The world has no edge: whoever leaves it comes in on the other side. */
static size_t in_sight(const world *all, int64_t x, int64_t y, weir_use uses[IN_SIGHT],
                       const mesh *meshes[IN_SIGHT]) {
  const int64_t side = (int64_t)all->side;
  size_t count = 0;
  for (int64_t dy = -SIGHT; dy <= SIGHT; dy++) {
    for (int64_t dx = -SIGHT; dx <= SIGHT; dx++) {
      if (dx * dx + dy * dy > SIGHT * SIGHT) continue;
      const int64_t cell_x = ((x + dx) % side + side) % side,
                    cell_y = ((y + dy) % side + side) % side;
      meshes[count] = &all->meshes[cell_y * side + cell_x];
      uses[count] = (weir_use)WEIR_USE(meshes[count]->buffer, WEIR_READ);
      count++;
    }
  }
  return count;
}

/* Straight on most of the time, a turn now and then, and once in a while a cut to somewhere else. */
static void move(camera *eye, const world *all, uint64_t *state) {
  const uint64_t draw = next_random(state);
  if (draw % 64 == 0) {
    eye->x = (int64_t)((draw >> 8) % all->side), eye->y = (int64_t)((draw >> 32) % all->side);
  } else if (draw % 8 == 1) {
    const int64_t dx = eye->dx;
    eye->dx = draw & 256 ? eye->dy : -eye->dy, eye->dy = draw & 256 ? -dx : dx;
  }
  eye->x += eye->dx, eye->y += eye->dy;
}

/* Draws all frames; returns how many meshes had wrong bytes. */
static uint64_t render(const world *all, const options *opts) {
  frame *frames = memory(opts->frames + 1, sizeof *frames); /* each must live until it has run */
  camera eye = {0, 0, 1, 0};
  uint64_t state = opts->seed;
  for (uint64_t f = 0; f < opts->frames; f++) {
    frame *work = &frames[f];
    weir_use uses[IN_SIGHT];
    work->count = in_sight(all, eye.x, eye.y, uses, work->meshes);
    const weir_lease lease =
        lease_when_possible(all->pool, all->stream, uses, work->count, "frame");
    for (uint64_t i = 0; i < work->count; i++)
      work->at[i] = (const void *)(uintptr_t)uses[i].address;
    MUST(weir_stream_host_call(all->stream, draw, work)); /* the "launch" */
    MUST(weir_release(lease, all->stream));

    const mesh *unused[IN_SIGHT];
    const size_t ahead = in_sight(all, eye.x + 2 * eye.dx, eye.y + 2 * eye.dy, uses, unused);
    MUST(weir_prefetch(all->pool, all->stream, uses, ahead));
    move(&eye, all, &state);
  }
  MUST(weir_stream_synchronize(all->stream));
  uint64_t wrong = 0;
  for (uint64_t f = 0; f < opts->frames; f++) wrong += frames[f].wrong;
  free(frames);
  return wrong;
}

/* ---- loading ---- */

static world start(const options *opts) {
  world all = {0};
  while ((all.side + 1) * (all.side + 1) <= opts->meshes) all.side++;
  all.meshes = memory(all.side * all.side, sizeof *all.meshes);
  for (uint64_t id = 0; id < all.side * all.side; id++) all.bytes += mesh_bytes(id, opts->seed);
  const uint64_t device_budget = opts->device != unset ? opts->device : all.bytes / 4;

  char backend[128];
  snprintf(backend, sizeof backend, "host.memory=%llu;host.granule=%d;host.granule_large=0",
           (unsigned long long)(device_budget + (64 << 20)) / PAGE * PAGE, PAGE);
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.options = backend;
  MUST(weir_context_create(&context_desc, &all.context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  /* "gpu,host" where the kernels are a GPU's: here they are functions of the CPU, which needs memory that it can reach. */
  MUST(weir_device_find(all.context, "host", &device.device));
  MUST(weir_stream_create(all.context, device.device, 0, &all.stream));

  device.budget = device_budget;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = opts->host == unset ? all.bytes / 2
                          : opts->host != 0   ? opts->host
                                              : WEIR_NONE;
  pool_desc.compressed_budget = opts->compressed == unset ? all.bytes / 4 : opts->compressed;
  pool_desc.storage_budget = opts->storage_size == unset ? 2 * all.bytes : opts->storage_size;
  if (pool_desc.storage_budget != 0) {
    pool_desc.storage_paths = &opts->storage;
    pool_desc.storage_path_count = 1;
  }
  MUST(weir_pool_create(all.context, &pool_desc, &all.pool));
  printf("%llu meshes of %.1f MiB, %.1f MiB of device memory\n",
         (unsigned long long)(all.side * all.side), (double)all.bytes / (1 << 20),
         (double)device_budget / (1 << 20));

  for (uint64_t id = 0; id < all.side * all.side; id++) {
    mesh *made = &all.meshes[id];
    made->bytes = mesh_bytes(id, opts->seed);
    weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
    buffer_desc.size = made->bytes;
    buffer_desc.tag = id;
    MUST(weir_buffer_create(all.pool, &buffer_desc, &made->buffer));
    weir_use use = WEIR_USE(made->buffer, WEIR_DISCARD_WRITE);
    const weir_lease lease = lease_when_possible(all.pool, all.stream, &use, 1, "load");
    MUST(weir_stream_synchronize(all.stream)); /* the CPU is about to touch it */
    void *bytes = (void *)(uintptr_t)use.address;
    load_mesh(id, opts->seed, bytes, made->bytes / sizeof(vertex));
    made->checksum = checksum(bytes, made->bytes);
    MUST(weir_release(lease, all.stream));
  }
  /* What was loaded last is on the device only. Its copies down are made now, so that frames need not. */
  MUST(weir_pool_trim(all.pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, NULL));
  return all;
}

static void finish(world *all) {
  for (uint64_t id = 0; id < all->side * all->side; id++)
    MUST(weir_buffer_destroy(all->pool, all->meshes[id].buffer));
  MUST(weir_pool_destroy(all->pool));
  MUST(weir_stream_close(all->stream));
  MUST(weir_context_destroy(all->context));
  free(all->meshes);
}

/* ---- the report ---- */

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }
static double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 100 : 100 * (double)part / (double)whole;
}

/* What the frames took, by the counters before and after them. False if a tier damaged something, or if more was copied down
 * than need have been. Nothing, ideally; but where host memory is short, Weir may give up there what is on the device too,
 * rather than write it to a file: such a mesh is copied down when it leaves the device, and never again. */
static int report(const world *all, const weir_pool_stats *before, const weir_pool_stats *after) {
  const uint64_t hits = after->hits - before->hits, misses = after->misses - before->misses;
  const uint64_t dropped = after->dropped_clean_bytes - before->dropped_clean_bytes;
  const uint64_t copied = after->demoted_bytes - before->demoted_bytes;
  printf("  meshes found on the device   %5.1f %% of %llu\n", percent(hits, hits + misses),
         (unsigned long long)(hits + misses));
  printf("  brought there                %.1f MiB, %.1f of them ahead of demand\n",
         mib(after->promoted_bytes - before->promoted_bytes),
         mib(after->prefetched_bytes - before->prefetched_bytes));
  printf("  clean drops                  %5.1f %% of %.1f MiB evicted\n",
         percent(dropped, dropped + copied), mib(dropped + copied));
  if (after->compressed_out_bytes != 0)
    printf("  compressed                   %.1f MiB, to 1/%.2f\n", mib(after->compressed_in_bytes),
           (double)after->compressed_in_bytes / (double)after->compressed_out_bytes);
  printf("  storage                      %.1f MiB written, %.1f read\n",
         mib(after->storage_written_bytes), mib(after->storage_read_bytes));
  if (after->checksum_failures != 0 || after->io_errors != 0) {
    printf("%llu checksums were wrong, %llu reads and writes failed\n",
           (unsigned long long)after->checksum_failures, (unsigned long long)after->io_errors);
    return 0;
  }
  if (percent(dropped, dropped + copied) >= 90 && copied <= all->bytes) return 1;
  printf("too much was copied down that nothing had written\n");
  return 0;
}

/* ---- options ---- */

static char temporary[] = "/var/tmp/weir-meshes-XXXXXX";
static int temporary_made;
/* The spill file has no name, so the folder is empty whatever happened. */
static void remove_temporary(void) {
  if (temporary_made) rmdir(temporary);
}

static int parse_number(const char *text, uint64_t *value) {
  char *end;
  *value = strtoull(text, &end, 10);
  const char *units = "KMG", *unit = *end != '\0' ? strchr(units, *end) : NULL;
  if (end == text || text[0] == '-' || (*end != '\0' && (unit == NULL || end[1] != '\0'))) return 0;
  if (unit != NULL) *value <<= 10 * (unit - units + 1);
  return 1;
}

static int parse(int count, char **words, options *opts) {
  const struct {
    const char *name;
    uint64_t *value;
  } numbers[] = {{"--meshes", &opts->meshes},
                 {"--frames", &opts->frames},
                 {"--seed", &opts->seed},
                 {"--device", &opts->device},
                 {"--host", &opts->host},
                 {"--compressed", &opts->compressed},
                 {"--storage-size", &opts->storage_size}};
  const size_t known = sizeof numbers / sizeof *numbers;
  for (int i = 1; i + 1 < count; i += 2) {
    size_t n = 0;
    while (n < known && strcmp(words[i], numbers[n].name) != 0) n++;
    if (strcmp(words[i], "--storage") == 0) {
      opts->storage = words[i + 1];
    } else if (n == known || !parse_number(words[i + 1], numbers[n].value)) {
      fprintf(stderr, "%s %s: unknown, or not a number\n", words[i], words[i + 1]);
      return 0;
    }
  }
  if (count % 2 == 0) {
    fprintf(stderr, "%s: a value is missing\n", words[count - 1]);
    return 0;
  }
  if (opts->meshes < (2 * SIGHT + 1) * (2 * SIGHT + 1) || opts->meshes > 1 << 20) {
    fprintf(stderr, "--meshes must be %d .. %d\n", IN_SIGHT, 1 << 20);
    return 0;
  }
  if (opts->storage_size == 0 || opts->storage != NULL) return 1;
  temporary_made = mkdtemp(temporary) != NULL;
  opts->storage = temporary;
  atexit(remove_temporary);
  if (!temporary_made) perror(temporary);
  return temporary_made;
}

int main(int count, char **words) {
  options opts = {400, 300, 1, unset, unset, unset, unset, NULL};
  if (!parse(count, words, &opts)) return 1;
  world all = start(&opts);
  weir_pool_stats before = WEIR_POOL_STATS_INIT, after = before;
  MUST(weir_pool_stats_get(all.pool, &before));
  const uint64_t wrong = render(&all, &opts);
  MUST(weir_pool_stats_get(all.pool, &after));
  const int sound = report(&all, &before, &after);
  finish(&all);
  if (wrong != 0)
    printf("%llu meshes had wrong bytes when they were drawn\n", (unsigned long long)wrong);
  if (wrong == 0)
    printf("right: every mesh had the bytes that were loaded, in every one of %llu frames\n",
           (unsigned long long)opts.frames);
  return wrong == 0 && sound ? 0 : 1;
}
