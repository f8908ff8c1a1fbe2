// SPDX-License-Identifier: Apache-2.0

package weir

// What a pool's policy has learned, as bytes, and back.

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// SavePolicy is what the pool's policy has learned of the program, for [Pool.LoadPolicy] of a later pool, also in another
// process. At most 64 MiB: names of operations, sizes and orders, and nothing of any content. What was acquired before is in it. It is a
// cache: another release of the library may refuse it. A pool whose policy learns nothing has [ErrNotSupported].
func (p *Pool) SavePolicy() ([]byte, error) {
	const op = "save policy"
	if err := p.enter(op); err != nil {
		return nil, err
	}
	defer p.leave()
	var bytes unsafe.Pointer
	var size C.uint64_t
	if err := failed(op, C.weirgo_pool_policy_save(C.uintptr_t(p.handle), &bytes, &size)); err != nil {
		return nil, err
	}
	defer C.free(bytes)
	return C.GoBytes(bytes, C.int(size)), nil
}

// LoadPolicy has the pool's policy know what another has learned, so that the first round of the program is planned as a later one
// would be. Before the pool's first acquire. Bytes that are damaged have [ErrCorrupt], those of another version, policy or page size
// [ErrNotSupported]; the pool is as it was then.
func (p *Pool) LoadPolicy(bytes []byte) error {
	const op = "load policy"
	if len(bytes) == 0 {
		return refused(op, ErrCorrupt, "there are no bytes")
	}
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	return failed(op, C.weirgo_pool_policy_load(C.uintptr_t(p.handle), unsafe.Pointer(&bytes[0]), C.uint64_t(len(bytes))))
}
