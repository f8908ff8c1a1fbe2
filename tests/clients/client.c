/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's program, for scripts/test-packages: C99, and C++ as well. Bytes go through a pool that is larger than its device;
 * then it prints the version and the backends it found, each with the library it came from. It must be built with nothing
 * but what is installed.
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

#define COUNT 4
#define SIZE (1 << 20)

static unsigned char bytes[SIZE], back[SIZE];

static int must(weir_result result, const char *what) {
  if (result == WEIR_SUCCESS) return 1;
  printf("%s: %s: %s\n", what, weir_result_string(result), weir_last_error());
  return 0;
}
#define MUST(call) \
  if (!must((call), #call)) return 1

/* Four buffers of 1 MiB on 2 MiB of device memory. */
static int use_a_pool(weir_context context) {
  weir_pool_device device = {0, 0, 2 << 20, {0, 0}};
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  weir_buffer buffers[COUNT];
  weir_pool pool;
  int i;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = 8 << 20;
  MUST(weir_pool_create(context, &pool_desc, &pool));
  buffer_desc.size = SIZE;
  for (i = 0; i < COUNT; i++) {
    MUST(weir_buffer_create(pool, &buffer_desc, &buffers[i]));
    memset(bytes, i + 1, SIZE);
    MUST(weir_buffer_write(pool, buffers[i], 0, SIZE, bytes));
  }
  for (i = 0; i < COUNT; i++) {
    memset(bytes, i + 1, SIZE);
    MUST(weir_buffer_read(pool, buffers[i], 0, SIZE, back));
    if (memcmp(bytes, back, SIZE) != 0) {
      printf("buffer %d is wrong\n", i);
      return 1;
    }
    MUST(weir_buffer_destroy(pool, buffers[i]));
  }
  MUST(weir_pool_destroy(pool));
  return 0;
}

static int show_backends(weir_context context) {
  uint32_t count, i;
  MUST(weir_backend_count(context, &count));
  for (i = 0; i < count; i++) {
    weir_backend_info info = WEIR_BACKEND_INFO_INIT;
    MUST(weir_backend_info_get(context, i, &info));
    printf("backend %s %s\n", info.name, info.path);
  }
  return 0;
}

int main(void) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  weir_context context;
  desc.options = "host.memory=16M;host.granule=64K;host.granule_large=0";
  MUST(weir_context_create(&desc, &context));
  if (use_a_pool(context) != 0 || show_backends(context) != 0) return 1;
  MUST(weir_context_destroy(context));
  printf("right, by Weir %s\n", weir_version_string());
  return 0;
}
