/* SPDX-License-Identifier: Apache-2.0
 *
 * suballocator.c - thousands of small objects in one block of device memory, placed by weir_arena.
 *
 * A cache of objects of 256 bytes to 256 KiB, in one block that weir_malloc gave: one call of the runtime instead of
 * thousands. The arena knows nothing of the block: it hands out offsets, the program adds the block's address. When
 * there is no room for an object, others go until there is. At the end a walk over the ranges draws the block.
 *
 * Every object is filled with a byte of its own and compared when it goes: that no two overlap is seen, not assumed.
 *
 *   example_suballocator [OBJECTS]
 *
 * It runs on the host backend, where the CPU may write device memory; on a GPU the memset below is a kernel or a copy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

enum { BLOCK = 16 << 20, ALIGNMENT = 256, MOST = BLOCK / ALIGNMENT, COLUMNS = 64 };

#define TRY(call) \
  if ((call) != WEIR_SUCCESS) return printf("%s: %s\n", #call, weir_last_error()), 1

typedef struct {
  weir_arena_allocation allocation;
  uint64_t offset, size;
  unsigned char pattern;
} object;

typedef struct {
  weir_arena arena;
  unsigned char *block;
  uint32_t count, random;
  object objects[MOST];
} cache;

static uint32_t next_random(cache *c) {
  c->random = c->random * 1664525 + 1013904223;
  return c->random >> 8;
}

static int drop_one(cache *c) {
  object *place = &c->objects[next_random(c) % c->count];
  const object gone = *place;
  *place = c->objects[--c->count];
  for (uint64_t i = 0; i < gone.size; i++) {
    if (c->block[gone.offset + i] != gone.pattern)
      return printf("byte %" PRIu64 " was overwritten\n", gone.offset + i), 1;
  }
  TRY(weir_arena_free(c->arena, gone.allocation));
  return 0;
}

static int add(cache *c, uint64_t size) {
  object made = {0, 0, size, (unsigned char)next_random(c)};
  weir_result result;
  while ((result = weir_arena_allocate(c->arena, size, ALIGNMENT, &made.allocation,
                                       &made.offset)) == WEIR_ERROR_OVER_BUDGET) {
    if (c->count == 0) return printf("too large: %s\n", weir_last_error()), 1;
    if (drop_one(c) != 0) return 1;
  }
  if (result != WEIR_SUCCESS) return printf("%s\n", weir_last_error()), 1;
  memset(c->block + made.offset, made.pattern, size);
  c->objects[c->count++] = made;
  return 0;
}

/* How many bytes of each column of the picture are taken. */
static weir_result shade(void *user, const weir_arena_range *range) {
  uint64_t *taken = user;
  const uint64_t width = BLOCK / COLUMNS;
  if (range->allocation == 0) return WEIR_SUCCESS;
  for (uint64_t at = range->offset, end = range->offset + range->size; at < end;) {
    const uint64_t column = at / width;
    const uint64_t stop = end < (column + 1) * width ? end : (column + 1) * width;
    taken[column] += stop - at;
    at = stop;
  }
  return WEIR_SUCCESS;
}

static int draw(weir_arena arena) {
  uint64_t taken[COLUMNS] = {0};
  TRY(weir_arena_walk(arena, shade, taken));
  for (int i = 0; i < COLUMNS; i++) putchar(" .:-=+*#%@"[taken[i] * 9 / (BLOCK / COLUMNS)]);
  weir_arena_report report = WEIR_ARENA_REPORT_INIT;
  TRY(weir_arena_report_get(arena, &report));
  printf("\n%" PRIu64 " objects, %.1f %% used; %" PRIu64 " free ranges, the largest %" PRIu64
         " KiB, fragmentation %.2f\n",
         report.live_ranges, 100.0 * (double)report.used / (double)report.size, report.free_ranges,
         report.largest_free >> 10, report.fragmentation_ppm / 1e6);
  return 0;
}

int main(int count, char **arguments) {
  const unsigned long objects = count > 1 ? strtoul(arguments[1], NULL, 10) : 5000;
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.options = "host.memory=64M";
  weir_context context;
  TRY(weir_context_create(&context_desc, &context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  TRY(weir_device_find(context, "host", &device.device));
  device.budget = 32 << 20;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device, pool_desc.device_count = 1, pool_desc.host_budget = 8 << 20;
  weir_pool pool;
  TRY(weir_pool_create(context, &pool_desc, &pool));
  uint64_t address;
  TRY(weir_malloc(pool, device.device, NULL, BLOCK, &address));

  static cache c;
  weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
  desc.size = BLOCK;
  desc.quantum = ALIGNMENT; /* so that offsets are aligned as they come, and no hole is smaller */
  TRY(weir_arena_create(&desc, &c.arena));
  c.block = (unsigned char *)(uintptr_t)address;
  for (unsigned long i = 0; i < objects; i++) {
    const uint64_t most = UINT64_C(512) << next_random(&c) % 10;
    if (add(&c, 256 + next_random(&c) % (most - 256)) != 0) return 1;
  }
  if (draw(c.arena) != 0) return 1;

  while (c.count != 0)
    if (drop_one(&c) != 0) return 1;
  weir_arena_stats stats = WEIR_ARENA_STATS_INIT;
  TRY(weir_arena_stats_get(c.arena, &stats));
  if (stats.largest_free != BLOCK) return printf("%" PRIu64 " bytes leaked\n", stats.used), 1;
  TRY(weir_arena_validate(c.arena));
  weir_arena_destroy(c.arena);
  TRY(weir_free(pool, NULL, address));
  TRY(weir_pool_destroy(pool));
  TRY(weir_context_destroy(context));
  return 0;
}
