/* SPDX-License-Identifier: Apache-2.0
 *
 * The one part of yesterday's client that sees today's headers.
 */
#include "tests/abi/yesterday/today.h"

#include <weir/weir.h>

today_sizes sizes_of_today(void) {
  const today_sizes sizes = {sizeof(weir_pool_desc),   sizeof(weir_buffer_desc),
                             sizeof(weir_device_info), sizeof(weir_link_info),
                             sizeof(weir_pool_stats),  sizeof(weir_pool_device_stats)};
  return sizes;
}
