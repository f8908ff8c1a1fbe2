/* SPDX-License-Identifier: Apache-2.0
 *
 * A C program and a library written in Rust share a pool: each makes buffers, the other works on them, and an error of Weir
 * crosses as its number. scripts/test-rust builds and runs it.
 */
#include <stdio.h>
#include <weir_share_demo.h>

#define EXPECT(condition) \
  if (!(condition))       \
  return printf("%d: %s does not hold: %s\n", __LINE__, #condition, weir_last_error()), 1

enum { WORDS = 100000 };

int main(void) {
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.options = "host.memory=64M;host.granule=64K;host.granule_large=0";
  weir_context context;
  EXPECT(weir_context_create(&context_desc, &context) == WEIR_SUCCESS);
  weir_pool_device device = WEIR_POOL_DEVICE_INIT;
  device.budget = 1 << 20;
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = &device, pool_desc.device_count = 1, pool_desc.host_budget = 16 << 20;
  weir_pool pool;
  EXPECT(weir_pool_create(context, &pool_desc, &pool) == WEIR_SUCCESS);
  weir_stream stream;
  EXPECT(weir_stream_create(context, 0, 0, &stream) == WEIR_SUCCESS);

  weir_buffer buffer;
  uint64_t wrong = 1, first = 0, again = 0;
  EXPECT(weir_share_make(pool, WORDS, 42, &buffer) == WEIR_SUCCESS);
  EXPECT(weir_share_check(context, pool, buffer, 42, &wrong) == WEIR_SUCCESS && wrong == 0);
  EXPECT(weir_share_check(context, pool, buffer, 43, &wrong) == WEIR_SUCCESS && wrong > WORDS / 2);
  EXPECT(weir_buffer_read(pool, buffer, 0, sizeof first, &first) == WEIR_SUCCESS);
  EXPECT(weir_share_add(context, pool, stream, 0, buffer, 5) == WEIR_SUCCESS);
  EXPECT(weir_buffer_read(pool, buffer, 0, sizeof again, &again) == WEIR_SUCCESS &&
         again == first + 5);
  EXPECT(weir_share_conflict(context, pool, buffer) == WEIR_ERROR_LEASE_CONFLICT);
  EXPECT(weir_share_make(NULL, WORDS, 42, &buffer) == WEIR_ERROR_INVALID_HANDLE);
  EXPECT(weir_share_make(pool, 0, 42, &buffer) == WEIR_ERROR_INVALID_ARGUMENT);
  EXPECT(weir_buffer_destroy(pool, buffer) == WEIR_SUCCESS);

  EXPECT(weir_pool_destroy(pool) == WEIR_SUCCESS);
  EXPECT(weir_stream_close(stream) == WEIR_SUCCESS);
  EXPECT(weir_context_destroy(context) == WEIR_SUCCESS);
  printf("share: a pool of C's, worked on by Rust\n");
  return 0;
}
