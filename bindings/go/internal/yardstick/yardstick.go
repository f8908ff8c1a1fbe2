// SPDX-License-Identifier: Apache-2.0

// Package yardstick is what the benchmarks measure the binding against: the same loop in C, and a bare call of C. It is a
// package of its own because tests can't have C in them.
package yardstick

/*
#cgo pkg-config: weir
#cgo CFLAGS: -O2
#include <stdint.h>
#include <weir/weir.h>

static void yardstick_nothing(uintptr_t a, uintptr_t b, uint64_t *c, size_t d, uint64_t *e) {
  (void)a, (void)b, (void)c, (void)d, (void)e;
}

static int32_t yardstick_loop(uintptr_t pool, uintptr_t stream, uintptr_t buffer, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; i++) {
    weir_use use = WEIR_USE((weir_buffer)buffer, WEIR_READ);
    weir_lease lease;
    weir_result result = weir_acquire((weir_pool)pool, (weir_stream)stream, &use, 1, NULL, &lease);
    if (result == WEIR_SUCCESS) result = weir_release(lease, (weir_stream)stream);
    if (result != WEIR_SUCCESS) return result;
  }
  return WEIR_SUCCESS;
}
*/
import "C"

import "unsafe"

// Loop acquires a buffer for reading and releases it, in C. It answers the library's result.
func Loop(pool, stream unsafe.Pointer, buffer uintptr, rounds int) int32 {
	return int32(C.yardstick_loop(C.uintptr_t(uintptr(pool)), C.uintptr_t(uintptr(stream)), C.uintptr_t(buffer), C.uint64_t(rounds)))
}

// Nothing calls C so many times for nothing, with as many arguments as a small call has.
func Nothing(rounds int) {
	memory := new([8]C.uint64_t)
	for i := 0; i < rounds; i++ {
		C.yardstick_nothing(1, 2, &memory[0], 1, &memory[1])
	}
}
