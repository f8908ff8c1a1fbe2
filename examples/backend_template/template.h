/* SPDX-License-Identifier: Apache-2.0
 *
 * What the template's two files know of each other: how a failure is told, and virtual memory (space.c), which is a part of the
 * state with a lock of its own.
 */
#ifndef WEIR_BACKEND_TEMPLATE_H
#define WEIR_BACKEND_TEMPLATE_H

#include <weir/backend.h>

/* Yours: the runtime's own codes where a call of it failed, so that people can look them up. */
enum {
  NO_ERROR = 0,
  BAD_ARGUMENT,
  BAD_SIZE,
  BAD_DEVICE,
  BAD_ADDRESS,
  BAD_HANDLE,
  NO_DEVICE_MEMORY,
  NO_HOST_MEMORY
};

/* Every failure goes through here: it sets the thread's last code. Success leaves the code alone. */
weir_result fail(weir_result result, int64_t code);

/* The unit of physical memory and of addresses. */
#define SPACE_UNIT (UINT64_C(64) << 10)

/* Granules, reserved addresses, and what is mapped where. */
struct space;
struct space *space_open(uint64_t bytes); /* NULL: the system has no memory for it */
void space_close(struct space *space);    /* ends what is left */
int space_maps(struct space *space, uint64_t address,
               uint64_t bytes); /* whether one mapping has them */

weir_result space_create(struct space *space, uint64_t bytes, uint64_t flags,
                         weir_be_granule *granule);
weir_result space_destroy(struct space *space, weir_be_granule granule, uint64_t *bytes);
weir_result space_reserve(struct space *space, uint64_t bytes, uint64_t alignment,
                          uint64_t *address);
weir_result space_free(struct space *space, uint64_t address, uint64_t bytes);
weir_result space_map(struct space *space, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count);
/* `one`: exactly what one map call made; else all that whole pieces make up. */
weir_result space_unmap(struct space *space, uint64_t address, uint64_t bytes, int one);

#endif
