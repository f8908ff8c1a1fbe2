/* SPDX-License-Identifier: Apache-2.0
 *
 * The README's example: twice as many buffers as the device has room for, all written, all read back.
 * What follows this comment stands in README.md to the letter; a test compares the two.
 */
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

enum { COUNT = 8, SIZE = 2 << 20 }; /* 16 MiB of buffers ... */
#define TRY(call) \
  if ((call) != WEIR_SUCCESS) return printf("%s: %s\n", #call, weir_last_error()), 1

int main(void) {
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.options = "host.memory=64M";
  weir_context context;
  TRY(weir_context_create(&context_desc, &context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  device.budget = 8 << 20; /* ... on 8 MiB of device memory */
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = 32 << 20; /* what does not fit goes to pinned host memory */
  weir_pool pool;
  TRY(weir_pool_create(context, &pool_desc, &pool));
  weir_stream stream;
  TRY(weir_stream_create(context, 0, 0, &stream));

  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = SIZE;
  weir_buffer buffers[COUNT];
  for (int i = 0; i < COUNT; i++) TRY(weir_buffer_create(pool, &buffer_desc, &buffers[i]));
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < COUNT; i++) {
      weir_use use = WEIR_USE(buffers[i], pass == 0 ? WEIR_DISCARD_WRITE : WEIR_READ);
      weir_lease lease;
      TRY(weir_acquire(pool, stream, &use, 1, NULL, &lease)); /* resident until released */
      TRY(weir_stream_synchronize(stream)); /* the CPU is about to touch it: wait for the bytes */
      unsigned char *bytes = (unsigned char *)(uintptr_t)use.address;
      if (pass == 0) memset(bytes, i + 1, SIZE);
      if (bytes[0] != i + 1 || bytes[SIZE - 1] != i + 1)
        return printf("buffer %d is wrong\n", i), 1;
      TRY(weir_release(lease, stream));
    }
  }
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  TRY(weir_pool_stats_get(pool, &stats));
  printf("right: all %d MiB; moved down %d MiB, up %d MiB\n", (COUNT * SIZE) >> 20,
         (int)(stats.demoted_bytes >> 20), (int)(stats.promoted_bytes >> 20));
  TRY(weir_pool_destroy(pool));
  TRY(weir_stream_close(stream));
  TRY(weir_context_destroy(context));
  return 0;
}
