/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_share_demo.h - a library written in Rust that works on a pool that other code made.
 *
 * Handles stay the caller's and must be live for the time of the call; streams may be of any device that the pool has.
 * Results are Weir's. Link with -lweir_share_demo (cargo build -p weir-share-demo makes libweir_share_demo.so) and -lweir:
 * both must be the one libweir of the process.
 */
#ifndef WEIR_SHARE_DEMO_H
#define WEIR_SHARE_DEMO_H

#include <weir/weir.h>

WEIR_BEGIN_DECLS

/** Makes a buffer of `words` words of 8 bytes in the pool, written with the sequence that `seed` begins. The caller owns
 *  *buffer: weir_buffer_destroy. */
weir_result weir_share_make(weir_pool pool, uint64_t words, uint64_t seed, weir_buffer *buffer);

/** Counts the words of `buffer` that are not the sequence of `seed`, by a lease on the CPU's memory. */
weir_result weir_share_check(weir_context context, weir_pool pool, weir_buffer buffer,
                             uint64_t seed, uint64_t *wrong);

/** Adds `addend` to every word of `buffer`, by a function in `stream`, which is on `device`. Does not wait for it: what is
 *  acquired or read next does. */
weir_result weir_share_add(weir_context context, weir_pool pool, weir_stream stream,
                           weir_device device, weir_buffer buffer, uint64_t addend);

/** Asks for a lease to write beside one to read: WEIR_ERROR_LEASE_CONFLICT. */
weir_result weir_share_conflict(weir_context context, weir_pool pool, weir_buffer buffer);

WEIR_END_DECLS
#endif /* WEIR_SHARE_DEMO_H */
