// SPDX-License-Identifier: Apache-2.0

package weir

// Sharded buffers: the layout as it was asked for, one address, and the same bytes from every device.

import (
	"bytes"
	"testing"
)

func TestShards(t *testing.T) {
	w := newWorld(t, setup{devices: 2, devicePages: 64, hostPages: 256})
	const pages = 100 // more runs than are asked for at once
	b, err := w.pool.NewBuffer(pages*page, &BufferOptions{Shards: &ShardOptions{Devices: []Device{0, 1}}})
	ok(t, err)
	defer func() { ok(t, b.Close()) }()
	shards, err := b.Shards()
	ok(t, err)
	if len(shards) != pages {
		t.Fatalf("%d runs: %+v", len(shards), shards)
	}
	for i, shard := range shards {
		if shard != (Shard{uint64(i) * page, page, Device(i % 2)}) {
			t.Fatalf("run %d is %+v", i, shard)
		}
	}
	w.fill(b, 3)
	addresses := [2]uint64{}
	for device := range addresses {
		stream := w.newStream(Device(device))
		lease, err := w.pool.TryAcquire(stream, Read(b))
		ok(t, err)
		ok(t, stream.Synchronize())
		memory, err := lease.Bytes(0)
		ok(t, err)
		if !bytes.Equal(memory, pattern(pages*page, 3)) {
			t.Errorf("device %d has other bytes", device)
		}
		addresses[device] = lease.Address(0)
		ok(t, lease.Release())
	}
	if addresses[0] != addresses[1] {
		t.Errorf("two addresses: %x", addresses)
	}

	blocks, err := w.pool.NewBuffer(4*page, &BufferOptions{
		Shards: &ShardOptions{Policy: ShardBlocked, Devices: []Device{1, 0}, Weights: []uint32{3, 1}}})
	ok(t, err)
	shards, err = blocks.Shards()
	ok(t, err)
	if len(shards) != 2 || shards[0] != (Shard{0, 3 * page, 1}) || shards[1] != (Shard{3 * page, page, 0}) {
		t.Errorf("%+v", shards)
	}
	ok(t, blocks.Close())
	_, err = blocks.Shards()
	expect(t, err, ErrInvalidHandle)
	plain, err := w.buffer(3).Shards()
	ok(t, err)
	if len(plain) != 1 || plain[0] != (Shard{0, 3 * page, 0}) {
		t.Errorf("%+v", plain)
	}
}

func TestShardsRefused(t *testing.T) {
	w := newWorld(t, setup{devices: 2})
	for _, shards := range []ShardOptions{
		{},
		{Devices: []Device{0, 0}},
		{Devices: []Device{0, 7}},
		{Devices: []Device{0, 1}, Weights: []uint32{1}},
		{Devices: []Device{0, 1}, Weights: []uint32{1, 0}},
		{Devices: []Device{0, 1}, Policy: 9},
		{Devices: []Device{0, 1}, Stripe: page + 1},
	} {
		shards := shards
		_, err := w.pool.NewBuffer(4*page, &BufferOptions{Shards: &shards})
		expect(t, err, ErrInvalidArgument)
	}
	_, err := w.pool.PlaceBuffers([]BufferRequest{{page, BufferOptions{Shards: &ShardOptions{}}}})
	expect(t, err, ErrInvalidArgument)
}
