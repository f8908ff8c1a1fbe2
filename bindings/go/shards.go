// SPDX-License-Identifier: Apache-2.0

package weir

// Sharded buffers: one buffer dealt out to several devices, at one address.

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// ShardPolicy is how a buffer is dealt out.
type ShardPolicy uint32

const (
	ShardStriped ShardPolicy = C.WEIR_SHARD_STRIPED // stripes in turn
	ShardBlocked ShardPolicy = C.WEIR_SHARD_BLOCKED // one run of bytes for each device
)

// ShardOptions are how one buffer is dealt out to several devices of the pool. It has one address, the same on all of them.
type ShardOptions struct {
	Policy  ShardPolicy // 0 = ShardStriped
	Devices []Device    // different ones, each reached directly by all others
	Weights []uint32    // of each device, 1 to 65535; nil: all alike
	Stripe  uint64      // bytes of a stripe, a multiple of the pool's page size; 0: a page. Blocks have none
}

// desc is nil without shards. The arrays go beside it, for Go memory given to C must hold no pointers to Go's.
func (o *ShardOptions) desc(op string) (layout *C.weir_shard_desc, devices, weights *C.uint32_t, err error) {
	if o == nil {
		return nil, nil, nil, nil
	}
	if len(o.Weights) != 0 && len(o.Weights) != len(o.Devices) {
		return nil, nil, nil, refused(op, ErrInvalidArgument, "%d weights for %d devices", len(o.Weights), len(o.Devices))
	}
	layout = &C.weir_shard_desc{struct_size: C.sizeof_weir_shard_desc, policy: C.uint32_t(o.Policy),
		device_count: C.uint32_t(len(o.Devices)), stripe: C.uint64_t(o.Stripe)}
	if o.Policy == 0 {
		layout.policy = C.WEIR_SHARD_STRIPED
	}
	devices = &append(deviceNumbers(nil, o.Devices), 0)[0]
	if len(o.Weights) != 0 {
		numbers := make([]C.uint32_t, len(o.Weights))
		for i, weight := range o.Weights {
			numbers[i] = C.uint32_t(weight)
		}
		weights = &numbers[0]
	}
	return layout, devices, weights, nil
}

// Shard is a run of bytes of a buffer that one device is home to.
type Shard struct {
	Offset uint64
	Length uint64
	Device Device
}

// Shards is the layout of the buffer; without shards it is one run on its home. It changes only when a device leaves the pool.
func (b *Buffer) Shards() ([]Shard, error) {
	const op = "shards"
	if err := b.enter(op); err != nil {
		return nil, err
	}
	defer b.leave()
	var array *C.weir_shard
	var count C.size_t
	err := failed(op, C.weirgo_buffer_shards(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), &array, &count))
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(array))
	shards := make([]Shard, count)
	for i, from := range unsafe.Slice(array, int(count)) {
		shards[i] = Shard{uint64(from.offset), uint64(from.length), Device(from.device)}
	}
	return shards, nil
}
