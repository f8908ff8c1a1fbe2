/* SPDX-License-Identifier: Apache-2.0
 *
 * What yesterday's client is told of today's headers, which it can't include beside its own: sizes. It must name no type
 * of Weir.
 */
#ifndef WEIR_TESTS_TODAY_H
#define WEIR_TESTS_TODAY_H

#include <stddef.h>

typedef struct today_sizes {
  size_t pool_desc, buffer_desc, device_info, link_info, pool_stats, pool_device_stats;
} today_sizes;

today_sizes sizes_of_today(void);

#endif
