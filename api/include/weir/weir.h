/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/weir.h - the whole public interface but the backend ABI. Read in this order: context, topology, pool,
 * buffer, lease, observe; arena and codec stand alone.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/types.h>
#include <weir/context.h>
#include <weir/topology.h>
#include <weir/pool.h>
#include <weir/buffer.h>
#include <weir/lease.h>
#include <weir/observe.h>
#include <weir/arena.h>
#include <weir/codec.h>

#endif /* WEIR_WEIR_H */
