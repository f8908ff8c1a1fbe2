/* SPDX-License-Identifier: Apache-2.0
 *
 * vulkan_scene.c - a renderer without a window that draws a scene four times as large as the device memory it is given.
 *
 * A landscape and balloons: each object has a mesh and a texture, two buffers. The picture is drawn tile by tile; for each tile the
 * objects that are in it, a few at a time: lease their buffers, record their draws with the addresses, submit, release. There is no
 * cache to write: Weir keeps on the device what was drawn lately, and brings the next few while these are drawn.
 *
 * Then the same is drawn with a budget in which everything fits, and the pictures must be equal in every bit.
 *
 *   example_vulkan_scene [--png FILE] [--cache weir|everything|nothing]
 *
 * What happens without a cache: "everything" leases the whole scene, which Weir refuses as over the budget; "nothing" leases memory
 * without what was loaded (WEIR_DISCARD_WRITE), and the picture is wrong. Both end with exit code 1.
 */
#include "launch.h"
#include "scene_draw.h"
#include "scene_world.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACROSS = 8, DOWN = 5, WIDTH = ACROSS * TILE, HEIGHT = DOWN * TILE };
enum { TOGETHER = 6 /* objects of one lease */, MOST_USES = 2 * OBJECTS + 1 };
static const uint64_t scene_bytes = (uint64_t)OBJECTS * (MESH_BYTES + TEXTURE_BYTES);
typedef enum { CACHE_WEIR, CACHE_EVERYTHING, CACHE_NOTHING } cache_kind;

typedef struct {
  weir_buffer mesh, texture;
  float least[3], most[3]; /* the box that it is in */
} object;

typedef struct {
  launcher *launcher;
  const renderer *renderer;
  weir_stream stream;
  weir_pool pool;
  cache_kind cache;
  object objects[OBJECTS];
  weir_buffer tile;
  float camera[16];
} scene;

/* ---- what is where ---- */

/* Can the object be in the tile? Of boxes that reach behind the eye it is said of all tiles. */
static int is_in_tile(const scene *s, const object *o, uint32_t x, uint32_t y) {
  float low[2] = {1e9F, 1e9F}, high[2] = {-1e9F, -1e9F};
  for (int corner = 0; corner < 8; corner++) {
    float at[3], seen[4];
    for (int axis = 0; axis < 3; axis++)
      at[axis] = corner >> axis & 1 ? o->most[axis] : o->least[axis];
    for (int row = 0; row < 4; row++)
      seen[row] = s->camera[row] * at[0] + s->camera[4 + row] * at[1] + s->camera[8 + row] * at[2] +
                  s->camera[12 + row];
    if (seen[3] < 0.1F) return 1;
    for (int axis = 0; axis < 2; axis++) {
      const float pixel = (seen[axis] / seen[3] + 1) / 2 * (axis == 0 ? WIDTH : HEIGHT);
      if (pixel < low[axis]) low[axis] = pixel;
      if (pixel > high[axis]) high[axis] = pixel;
    }
  }
  return high[0] >= (float)x && low[0] <= (float)(x + TILE) && high[1] >= (float)y &&
         low[1] <= (float)(y + TILE);
}

/* A few objects of a tile, or all of it where `last`. */
typedef struct {
  uint32_t x, y, count, objects[OBJECTS];
  int first, last;
} batch;

/* The picture as batches, tile by tile, every second row of tiles backwards: neighbours have objects in common. */
static size_t plan(const scene *s, batch **batches) {
  const uint32_t together = s->cache == CACHE_EVERYTHING ? OBJECTS : TOGETHER;
  size_t count = 0;
  *batches = calloc((size_t)ACROSS * DOWN * (OBJECTS / TOGETHER + 2), sizeof **batches);
  if (*batches == NULL) must(WEIR_ERROR_OUT_OF_HOST_MEMORY, "calloc");
  for (uint32_t t = 0; t < ACROSS * DOWN; t++) {
    const uint32_t row = t / ACROSS, place = t % ACROSS;
    const uint32_t x = TILE * (row % 2 == 0 ? place : ACROSS - 1 - place), y = TILE * row;
    batch *b = &(*batches)[count++];
    *b = (batch){.x = x, .y = y, .first = 1};
    for (uint32_t o = 0; o < OBJECTS; o++) {
      if (s->cache != CACHE_EVERYTHING && !is_in_tile(s, &s->objects[o], x, y)) continue;
      if (b->count == together) {
        b = &(*batches)[count++];
        *b = (batch){.x = x, .y = y};
      }
      b->objects[b->count++] = o;
    }
    b->last = 1;
  }
  return count;
}

/* ---- drawing ---- */

static size_t uses_of(const scene *s, const batch *b, weir_use uses[MOST_USES]) {
  const uint32_t mode = s->cache == CACHE_NOTHING ? WEIR_DISCARD_WRITE : WEIR_READ;
  size_t count = 0;
  for (uint32_t i = 0; i < b->count; i++) {
    uses[count++] = (weir_use)WEIR_USE(s->objects[b->objects[i]].mesh, mode);
    uses[count++] = (weir_use)WEIR_USE(s->objects[b->objects[i]].texture, mode);
  }
  if (b->last) uses[count++] = (weir_use)WEIR_USE(s->tile, WEIR_DISCARD_WRITE);
  return count;
}

static void draw_batch(const scene *s, const batch *b, const weir_use *uses, size_t count) {
  const VkCommandBuffer commands = launch_begin(s->launcher);
  draw_constants draw = {.columns = COLUMNS, .rows = COLUMNS, .texture_size = TEXTURE};
  memcpy(draw.camera, s->camera, sizeof draw.camera);
  pass_begin(s->renderer, commands, b->x, b->y, WIDTH, HEIGHT, b->first);
  for (uint32_t i = 0; i < b->count; i++) {
    draw.mesh = uses[2 * i].address, draw.texture = uses[2 * i + 1].address;
    pass_draw(s->renderer, commands, &draw);
  }
  pass_end(commands);
  if (b->last) {
    launch_barrier(commands);
    store_tile(s->renderer, commands, uses[count - 1].address);
  }
  launch_end(s->launcher);
}

/* Draws the whole picture. Returns what Weir said if it refused: then the picture is not there. */
static weir_result draw_picture(const scene *s, uint32_t *picture) {
  weir_acquire_options how = WEIR_ACQUIRE_OPTIONS_INIT;
  how.flags = WEIR_ACQUIRE_SOLE_HOLDER; /* nothing else holds a lease here */
  how.timeout_ns = WEIR_INFINITE;
  how.operation = "draw";
  static weir_use uses[MOST_USES];
  static uint32_t tile[TILE * TILE];
  batch *batches;
  const size_t count = plan(s, &batches);
  weir_result result = WEIR_SUCCESS;
  for (size_t i = 0; i < count; i++) {
    const batch *b = &batches[i];
    const size_t used = uses_of(s, b, uses);
    weir_lease lease;
    result = weir_acquire(s->pool, s->stream, uses, used, &how, &lease);
    if (result != WEIR_SUCCESS) break;
    draw_batch(s, b, uses, used);
    MUST(weir_release(lease, s->stream));
    if (i + 1 < count && s->cache == CACHE_WEIR)
      MUST(weir_prefetch(s->pool, s->stream, uses, uses_of(s, &batches[i + 1], uses)));
    if (!b->last) continue;
    MUST(weir_buffer_read(s->pool, s->tile, 0, sizeof tile, tile)); /* waits for the draws */
    for (uint32_t y = 0; y < TILE; y++)
      memcpy(&picture[(b->y + y) * WIDTH + b->x], &tile[y * TILE], TILE * sizeof *tile);
  }
  free(batches);
  return result;
}

/* ---- loading ---- */

static weir_buffer make_buffer(weir_pool pool, uint64_t size, const void *bytes) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  weir_buffer buffer;
  MUST(weir_buffer_create(pool, &desc, &buffer));
  if (bytes != NULL) MUST(weir_buffer_write(pool, buffer, 0, size, bytes));
  return buffer;
}

static void load(scene *s) {
  static vertex mesh[COLUMNS * COLUMNS];
  static uint32_t texture[TEXTURE * TEXTURE];
  for (uint32_t i = 0; i < OBJECTS; i++) {
    object *o = &s->objects[i];
    make_object(i, mesh, texture, o->least, o->most);
    o->mesh = make_buffer(s->pool, MESH_BYTES, mesh);
    o->texture = make_buffer(s->pool, TEXTURE_BYTES, texture);
  }
  s->tile = make_buffer(s->pool, sizeof(uint32_t) * TILE * TILE, NULL);
}

static void unload(scene *s) {
  MUST(weir_stream_synchronize(s->stream));
  for (uint32_t i = 0; i < OBJECTS; i++) {
    MUST(weir_buffer_destroy(s->pool, s->objects[i].mesh));
    MUST(weir_buffer_destroy(s->pool, s->objects[i].texture));
  }
  MUST(weir_buffer_destroy(s->pool, s->tile));
}

/* One picture, from a pool with so much device memory. */
static weir_result render(weir_context context, weir_pool_device device, uint64_t budget, scene *s,
                          uint32_t *picture, weir_pool_stats *stats) {
  device.budget = budget;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.page_size = small_page(context, device.device); /* an object is two or three pages */
  desc.host_budget = 2 * scene_bytes;
  MUST(weir_pool_create(context, &desc, &s->pool));
  load(s);
  const weir_result result = draw_picture(s, picture);
  if (result != WEIR_SUCCESS)
    fprintf(stderr, "the scene was not drawn: %s: %s\n", weir_result_string(result),
            weir_last_error());
  MUST(weir_pool_stats_get(s->pool, stats));
  unload(s);
  MUST(weir_pool_destroy(s->pool));
  return result;
}

/* ---- the program ---- */

static int write_png(const char *path, const uint32_t *picture) {
  png_image image = {
      .version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT, .format = PNG_FORMAT_RGBA};
  if (png_image_write_to_file(&image, path, 0, picture, 0, NULL) != 0) return 1;
  fprintf(stderr, "%s: %s\n", path, image.message);
  return 0;
}

typedef struct {
  const char *png;
  cache_kind cache;
} options;

static int parse(int count, char **words, options *opts) {
  static const char *const kinds[] = {"weir", "everything", "nothing"};
  for (int i = 1; i < count; i += 2) {
    int kind = 0;
    if (i + 1 == count) {
      fprintf(stderr, "%s: a value is missing\n", words[i]);
      return 0;
    }
    while (kind < 3 && strcmp(words[i + 1], kinds[kind]) != 0) kind++;
    if (strcmp(words[i], "--png") == 0) {
      opts->png = words[i + 1];
    } else if (strcmp(words[i], "--cache") == 0 && kind < 3) {
      opts->cache = (cache_kind)kind;
    } else {
      fprintf(stderr, "%s %s: not known\n", words[i], words[i + 1]);
      return 0;
    }
  }
  return 1;
}

int main(int count, char **words) {
  options opts = {NULL, CACHE_WEIR};
  if (!parse(count, words, &opts)) return 1;
  static uint32_t drawn[WIDTH * HEIGHT], expected[WIDTH * HEIGHT];
  static scene s;
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  weir_pool_stats stats = WEIR_POOL_STATS_INIT, all_stats = WEIR_POOL_STATS_INIT;
  static engine own;
  static launcher launches;
  engine_start(&own);
  weir_context context = engine_context(&own, &device.device);
  launcher_start(&launches, &own, context, device.device);
  renderer drawing = renderer_start(&launches);
  s.launcher = &launches, s.stream = launches.stream, s.renderer = &drawing, s.cache = opts.cache;
  make_camera((float)WIDTH / HEIGHT, s.camera);

  weir_result result = render(context, device, scene_bytes / 4, &s, drawn, &stats);
  uint64_t wrong = 0;
  if (result == WEIR_SUCCESS) {
    s.cache = CACHE_WEIR;
    result = render(context, device, 2 * scene_bytes, &s, expected, &all_stats);
    for (size_t i = 0; i < (size_t)WIDTH * HEIGHT; i++) wrong += drawn[i] != expected[i];
    const double mib = 1 << 20;
    printf(
        "vulkan_scene %dx%d: device holds %.0f %% of %.1f MiB, moved %.1f MiB to the device "
        "(%.1f where it holds all), %llu wrong pixels\n",
        WIDTH, HEIGHT, 100 * (double)stats.device_budget / (double)scene_bytes,
        (double)scene_bytes / mib, (double)stats.promoted_bytes / mib,
        (double)all_stats.promoted_bytes / mib, (unsigned long long)wrong);
  }
  int right = result == WEIR_SUCCESS && wrong == 0;
  if (right && opts.png != NULL) right = write_png(opts.png, drawn);

  renderer_finish(&drawing);
  launcher_finish(&launches);
  MUST(weir_context_destroy(context));
  engine_finish(&own);
  return right ? 0 : 1;
}
