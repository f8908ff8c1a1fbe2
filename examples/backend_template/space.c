/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual memory over one file in memory: a granule is a part of the file, a mapping is a mapping of the system. This is the
 * template's one optional group, and the group of runs that goes with it. Yours: the runtime's calls, behind the same
 * checks; a runtime does not refuse everything that weir/backend.h wants refused.
 *
 * Invariants: the lists hold all that exists and change under `mutex` only. What a call can fail at comes before what it
 * changes, so that a call that fails has changed nothing.
 */
#define _GNU_SOURCE /* memfd_create, fallocate */
#include "template.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Its handle is its address. The list is in the order of the places in the file. */
struct granule {
  struct granule *next;
  uint64_t offset, bytes;
  int mapped;
};
struct range {
  struct range *next;
  uint64_t address, bytes;
};
/* In the order of addresses. */
struct mapping {
  struct mapping *next;
  uint64_t address, bytes;
  struct granule *granule;
};
struct space {
  pthread_mutex_t mutex;
  int file;
  uint64_t bytes;
  struct granule *granules;
  struct range *ranges;
  struct mapping *mappings;
};

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }
static int is_unit(uint64_t value) { return value % SPACE_UNIT == 0; }

/* Takes the memory away and leaves the addresses reserved. */
static int hide(uint64_t address, uint64_t bytes) {
  return mmap(pointer(address), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED;
}

struct space *space_open(uint64_t bytes) {
  struct space *space = calloc(1, sizeof *space);
  if (space == NULL) return NULL;
  space->bytes = bytes / SPACE_UNIT * SPACE_UNIT;
  space->file = memfd_create("weir-template", MFD_CLOEXEC);
  if (space->file < 0 || ftruncate(space->file, (off_t)space->bytes) != 0 ||
      pthread_mutex_init(&space->mutex, NULL) != 0) {
    if (space->file >= 0) close(space->file);
    free(space);
    return NULL;
  }
  return space;
}

void space_close(struct space *space) {
  for (struct mapping *each = space->mappings, *next; each != NULL; each = next) {
    next = each->next;
    free(each);
  }
  for (struct range *each = space->ranges, *next; each != NULL; each = next) {
    next = each->next;
    munmap(pointer(each->address), each->bytes);
    free(each);
  }
  for (struct granule *each = space->granules, *next; each != NULL; each = next) {
    next = each->next;
    free(each);
  }
  close(space->file);
  pthread_mutex_destroy(&space->mutex);
  free(space);
}

int space_maps(struct space *space, uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&space->mutex);
  const struct mapping *each = space->mappings;
  while (each != NULL && (address - each->address >= each->bytes ||
                          bytes > each->bytes - (address - each->address)))
    each = each->next;
  pthread_mutex_unlock(&space->mutex);
  return each != NULL;
}

/* ---- granules ---- */

weir_result space_create(struct space *space, uint64_t bytes, uint64_t flags,
                         weir_be_granule *granule) {
  if (flags != 0) return fail(WEIR_ERROR_NOT_SUPPORTED, BAD_ARGUMENT);
  if (bytes == 0 || !is_unit(bytes)) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  struct granule *made = calloc(1, sizeof *made);
  if (made == NULL) return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  pthread_mutex_lock(&space->mutex);
  struct granule **at = &space->granules;
  uint64_t offset = 0; /* the first gap that is large enough */
  for (; *at != NULL && (*at)->offset - offset < bytes; at = &(*at)->next)
    offset = (*at)->offset + (*at)->bytes;
  const int fits = offset <= space->bytes && bytes <= space->bytes - offset;
  if (fits) {
    *made = (struct granule){*at, offset, bytes, 0};
    *at = made;
  }
  pthread_mutex_unlock(&space->mutex);
  if (!fits) {
    free(made);
    return fail(WEIR_ERROR_DEVICE_OOM, NO_DEVICE_MEMORY);
  }
  *granule = (uintptr_t)made;
  return WEIR_SUCCESS;
}

/* Where the granule stands in the list, or the list's end. The lock is held. */
static struct granule **find(struct space *space, weir_be_granule granule) {
  struct granule **at = &space->granules;
  while (*at != NULL && (uintptr_t)*at != granule) at = &(*at)->next;
  return at;
}

weir_result space_destroy(struct space *space, weir_be_granule granule, uint64_t *bytes) {
  pthread_mutex_lock(&space->mutex);
  struct granule **at = find(space, granule), *found = *at;
  const int idle = found != NULL && !found->mapped;
  if (idle) {
    *at = found->next;
    *bytes = found->bytes;
    /* The memory goes back to the system. Where that fails it waits for the next granule there. */
    (void)fallocate(space->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)found->offset,
                    (off_t)found->bytes);
  }
  pthread_mutex_unlock(&space->mutex);
  if (!idle) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  free(found);
  return WEIR_SUCCESS;
}

/* ---- addresses ---- */

weir_result space_reserve(struct space *space, uint64_t bytes, uint64_t alignment,
                          uint64_t *address) {
  if (bytes == 0 || !is_unit(bytes)) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  if (alignment < SPACE_UNIT || (alignment & (alignment - 1)) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
  struct range *made = calloc(1, sizeof *made);
  void *base = MAP_FAILED;
  if (made != NULL && bytes <= UINT64_MAX - alignment)
    base = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
  if (base == MAP_FAILED) {
    free(made);
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  }
  /* The ends that stick out of the aligned middle go back. */
  const uint64_t start = (uintptr_t)base, middle = (start + alignment - 1) / alignment * alignment;
  if (middle != start) munmap(base, middle - start);
  munmap(pointer(middle + bytes), start + alignment - middle);
  pthread_mutex_lock(&space->mutex);
  *made = (struct range){space->ranges, middle, bytes};
  space->ranges = made;
  pthread_mutex_unlock(&space->mutex);
  *address = middle;
  return WEIR_SUCCESS;
}

/* The first mapping that does not end before the address. The lock is held. */
static struct mapping **mapping_at(struct space *space, uint64_t address) {
  struct mapping **at = &space->mappings;
  while (*at != NULL && (*at)->address + (*at)->bytes <= address) at = &(*at)->next;
  return at;
}

weir_result space_free(struct space *space, uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&space->mutex);
  struct range **at = &space->ranges;
  while (*at != NULL && ((*at)->address != address || (*at)->bytes != bytes)) at = &(*at)->next;
  struct range *found = *at;
  const struct mapping *inside = *mapping_at(space, address);
  const int idle = found != NULL && (inside == NULL || inside->address >= address + bytes);
  if (idle) {
    *at = found->next;
    munmap(pointer(address), bytes);
  }
  pthread_mutex_unlock(&space->mutex);
  if (!idle) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
  free(found);
  return WEIR_SUCCESS;
}

/* ---- mappings ---- */

/* SUCCESS where the piece can be mapped there; the lock is held. A granule is mapped whole, and once at a time. */
static weir_result check_piece(struct space *space, uint64_t address, const weir_be_piece *piece) {
  if (piece->bytes == 0 || !is_unit(piece->bytes) || !is_unit(address))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  const struct granule *granule = *find(space, piece->granule);
  if (granule == NULL || granule->mapped) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  if (piece->offset > granule->bytes || piece->bytes > granule->bytes - piece->offset)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  if (piece->bytes != granule->bytes)
    return fail(is_unit(piece->offset) ? WEIR_ERROR_NOT_SUPPORTED : WEIR_ERROR_INVALID_ARGUMENT,
                BAD_SIZE);
  const struct range *range = space->ranges;
  while (range != NULL && (address - range->address >= range->bytes ||
                           piece->bytes > range->bytes - (address - range->address)))
    range = range->next;
  const struct mapping *next = *mapping_at(space, address);
  if (range == NULL || (next != NULL && next->address < address + piece->bytes))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
  return WEIR_SUCCESS;
}

static weir_result map_piece(struct space *space, uint64_t address, const weir_be_piece *piece) {
  const weir_result result = check_piece(space, address, piece);
  if (result != WEIR_SUCCESS) return result;
  struct mapping *made = calloc(1, sizeof *made), **at = mapping_at(space, address);
  struct granule *granule = *find(space, piece->granule);
  if (made == NULL || mmap(pointer(address), piece->bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_FIXED | MAP_NORESERVE, space->file,
                           (off_t)granule->offset) == MAP_FAILED) {
    if (made != NULL) (void)hide(address, piece->bytes); /* it may have been torn half way */
    free(made);
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  }
  *made = (struct mapping){*at, address, piece->bytes, granule};
  *at = made;
  granule->mapped = 1;
  return WEIR_SUCCESS;
}

/* Forgets `count` mappings from `at` on, whose memory is hidden. The lock is held. */
static void forget(struct mapping **at, uint32_t count) {
  for (; count > 0; --count) {
    struct mapping *gone = *at;
    *at = gone->next;
    gone->granule->mapped = 0;
    free(gone);
  }
}

/* A run is all or none: what was mapped before the piece that fails is taken back. */
weir_result space_map(struct space *space, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count) {
  if (pieces == NULL || count == 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
  weir_result result = WEIR_SUCCESS;
  uint64_t at = address;
  uint32_t mapped = 0;
  pthread_mutex_lock(&space->mutex);
  for (; mapped < count; at += pieces[mapped++].bytes) {
    result = map_piece(space, at, &pieces[mapped]);
    if (result != WEIR_SUCCESS) break;
  }
  if (result != WEIR_SUCCESS && mapped != 0) {
    (void)hide(address, at - address);
    forget(mapping_at(space, address), mapped);
  }
  pthread_mutex_unlock(&space->mutex);
  return result;
}

weir_result space_unmap(struct space *space, uint64_t address, uint64_t bytes, int one) {
  pthread_mutex_lock(&space->mutex);
  struct mapping **first = mapping_at(space, address);
  const struct mapping *each = *first;
  uint64_t covered = 0;
  uint32_t count = 0;
  for (; each != NULL && covered < bytes; each = each->next, ++count) {
    if (each->address - address != covered || each->bytes > bytes - covered) break;
    covered += each->bytes;
  }
  const int found = bytes != 0 && covered == bytes && !(one && count != 1);
  const int stays = found && hide(address, bytes) != 0;
  if (found && !stays) forget(first, count);
  pthread_mutex_unlock(&space->mutex);
  if (stays) return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  return found ? WEIR_SUCCESS : fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
}
