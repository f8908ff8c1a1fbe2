// SPDX-License-Identifier: Apache-2.0
//
// What every struct of the C ABI that may grow measured in version 1.0.0: the least that a caller can have been compiled
// with. The numbers stand for as long as the major version does, however the structs grow; a struct of a later version
// comes with the size that it had there.
#pragma once

#include <weir/weir.h>

namespace weir {

template <class T>
inline constexpr uint32_t first_size = 0;

#define WEIR_FIRST_SIZE(type, bytes)                  \
  template <>                                         \
  inline constexpr uint32_t first_size<type> = bytes; \
  static_assert(sizeof(type) >= (bytes))

WEIR_FIRST_SIZE(weir_error_info, 56);
WEIR_FIRST_SIZE(weir_context_desc, 112);
WEIR_FIRST_SIZE(weir_backend_info, 48);
WEIR_FIRST_SIZE(weir_device_info, 176);
WEIR_FIRST_SIZE(weir_link_info, 56);
WEIR_FIRST_SIZE(weir_calibrate_desc, 32);
WEIR_FIRST_SIZE(weir_calibrate_report, 40);
WEIR_FIRST_SIZE(weir_pool_desc, 160);
WEIR_FIRST_SIZE(weir_device_loss, 24);
WEIR_FIRST_SIZE(weir_client_desc, 48);
WEIR_FIRST_SIZE(weir_client_stats, 40);
WEIR_FIRST_SIZE(weir_defragment_desc, 64);
WEIR_FIRST_SIZE(weir_defragment_report, 136);
WEIR_FIRST_SIZE(weir_defragmentation_desc, 32);
WEIR_FIRST_SIZE(weir_pool_stats, 528);
WEIR_FIRST_SIZE(weir_codec_stats, 1032);
WEIR_FIRST_SIZE(weir_pool_device_stats, 88);
WEIR_FIRST_SIZE(weir_shard_desc, 40);
WEIR_FIRST_SIZE(weir_buffer_desc, 80);
WEIR_FIRST_SIZE(weir_buffer_info, 112);
WEIR_FIRST_SIZE(weir_acquire_options, 32);
WEIR_FIRST_SIZE(weir_compress_desc, 32);
WEIR_FIRST_SIZE(weir_compressed_info, 552);
WEIR_FIRST_SIZE(weir_arena_desc, 24);
WEIR_FIRST_SIZE(weir_arena_stats, 56);
WEIR_FIRST_SIZE(weir_arena_report, 2120);
WEIR_FIRST_SIZE(weir_trace_desc, 24);

#undef WEIR_FIRST_SIZE

}  // namespace weir
