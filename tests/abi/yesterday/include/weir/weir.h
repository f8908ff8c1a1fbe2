/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/weir.h - the whole public interface but the backend ABI. Read in this order: context, pool,
 * buffer, lease; arena stands alone.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/types.h>
#include <weir/context.h>
#include <weir/pool.h>
#include <weir/buffer.h>
#include <weir/lease.h>
#include <weir/arena.h>

#endif /* WEIR_WEIR_H */
