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
  weir_context context;
  TRY(weir_context_create(NULL, &context));
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  TRY(weir_device_find(context, "gpu,host", &device.device)); /* CPU memory where there is no GPU */
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  TRY(weir_device_info_get(context, device.device, &info));
  device.budget = 8 << 20; /* ... on 8 MiB of device memory */
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device;
  pool_desc.device_count = 1;
  pool_desc.host_budget = 32 << 20; /* what does not fit goes to pinned host memory */
  weir_pool pool;
  TRY(weir_pool_create(context, &pool_desc, &pool));
  weir_stream stream;
  TRY(weir_stream_create(context, device.device, 0, &stream));

  static unsigned char bytes[SIZE];
  weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
  buffer_desc.size = SIZE;
  weir_buffer buffers[COUNT];
  for (int i = 0; i < COUNT; i++) {
    memset(bytes, i + 1, SIZE);
    TRY(weir_buffer_create(pool, &buffer_desc, &buffers[i]));
    TRY(weir_buffer_write(pool, buffers[i], 0, SIZE, bytes));
  }
  for (int i = 0; i < COUNT; i++) {
    weir_use use = WEIR_USE(buffers[i], WEIR_READ_WRITE);
    weir_lease lease;
    TRY(weir_acquire(pool, stream, &use, 1, NULL, &lease)); /* on the device until released */
    /* Here kernels are launched on the stream; use.address is the buffer's. Nothing waits. */
    TRY(weir_release(lease, stream));
  }
  for (int i = 0; i < COUNT; i++) {
    TRY(weir_buffer_read(pool, buffers[i], 0, SIZE, bytes));
    for (int k = 0; k < SIZE; k++)
      if (bytes[k] != i + 1) return printf("buffer %d is wrong\n", i), 1;
  }
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  TRY(weir_pool_stats_get(pool, &stats));
  printf("right: all %d MiB; moved %d MiB up to \"%s\" and %d MiB down\n", (COUNT * SIZE) >> 20,
         (int)(stats.promoted_bytes >> 20), info.name, (int)(stats.demoted_bytes >> 20));
  TRY(weir_pool_destroy(pool));
  TRY(weir_stream_close(stream));
  TRY(weir_context_destroy(context));
  return 0;
}
