// SPDX-License-Identifier: Apache-2.0

package weir

// What a pool tells of itself: counters, the codec's and each device's numbers, the snapshot, the map.

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/json"
	"unsafe"
)

// PoolStats are the pool's counters, in the order of the library's WEIR_POOL_STATS_FIELDS: a test holds the two together.
type PoolStats struct {
	DeviceBudget           uint64 // bytes all devices may hold, after any reduction by DEVICE_OOM
	DeviceBytes            uint64 // bytes of device memory held from the system
	DeviceFreeBytes        uint64 // of those, not in use: in free lists, or free in segments
	DeviceHeldBytes        uint64 // of those, held (weir_hold, weir_malloc)
	HostBudget             uint64 // bytes HOST may hold
	HostBytes              uint64 // bytes of pinned memory held from the system
	HostUsedBytes          uint64 // of those, occupied by pages
	Buffers                uint64 // live buffers
	Pages                  uint64 // pages of live buffers and slabs, and of dead ones not yet given up
	Slabs                  uint64 // slabs
	BufferBytes            uint64 // bytes of live buffers as asked for
	BookkeepingBytes       uint64 // host memory the pool's own records take
	Hits                   uint64 // uses granted with everything resident
	Misses                 uint64 // uses that had to bring in at least one page
	PromotedBytes          uint64 // bytes copied up to a device
	DemotedBytes           uint64 // bytes copied down from a device
	DroppedCleanBytes      uint64 // bytes evicted without a copy, because another latest copy existed
	DiscardedBytes         uint64 // bytes evicted without a copy, because they were discarded or never written
	ZeroFilledBytes        uint64 // bytes of never-written pages zeroed on a device
	PrefetchedBytes        uint64 // of promoted_bytes and peer_bytes, those brought in ahead of demand
	BackgroundDemotedBytes uint64 // of demoted_bytes, those copied down ahead of demand
	PeerBytes              uint64 // bytes copied between devices
	Evictions              uint64 // pages evicted
	EvictionFailures       uint64 // evictions given up: no room below, a failed copy, a slow fence
	OverBudget             uint64 // acquires refused with OVER_BUDGET
	WouldBlock             uint64 // acquires refused with WOULD_BLOCK or TIMEOUT
	LeaseConflicts         uint64 // acquires refused with LEASE_CONFLICT
	DeviceOOM              uint64 // times the runtime refused memory inside the budget
	RefaultedBytes         uint64 // promoted bytes that had been evicted within the last device_budget bytes of evictions
	WaitNanoseconds        uint64 // time acquires spent waiting for other leases
	ChecksumFailures       uint64 // pages found in a lower tier with other bytes than were demoted
	StagingBytes           uint64 // of host_bytes, those that lower tiers are reached through
	CompressedBudget       uint64 // bytes COMPRESSED may hold
	CompressedBytes        uint64 // bytes of memory compressed pages take
	CompressedRawBytes     uint64 // bytes of those pages uncompressed
	StorageBudget          uint64 // bytes of the spill files
	StorageBytes           uint64 // of those, occupied by pages
	StorageRawBytes        uint64 // bytes of those pages uncompressed
	StorageWrittenBytes    uint64 // bytes written to the spill files
	StorageReadBytes       uint64 // bytes read back from them
	CompressedInBytes      uint64 // bytes of pages compressed, before
	CompressedOutBytes     uint64 // ... and after
	DecompressedBytes      uint64 // bytes of pages decompressed
	IncompressibleBytes    uint64 // bytes of pages that were not compressed because it would not pay
	SunkBytes              uint64 // bytes of pages moved out of HOST to a lower tier, or past it
	LiftedBytes            uint64 // bytes of pages brought up from a lower tier than HOST
	IOErrors               uint64 // reads and writes of the spill files that failed
	CachedBytes            uint64 // of dropped_clean_bytes, those copied to HOST all the same, to be nearer than below it
	DevicePeakBytes        uint64 // the most device memory ever held from the system, each device's added up
	DeviceSegments         uint64 // segments held on devices without VMM
	DeviceReturnedBytes    uint64 // bytes of idle device memory given back to the system after idle_grace_ns
	DefragmentMoves        uint64 // tenants moved by defragmentation
	DefragmentMovedBytes   uint64 // bytes of those, copied
	DefragmentEvictedBytes uint64 // bytes that left a device because they lay in the way
	DefragmentWonBytes     uint64 // bytes of device memory that defragmentation has freed
	RecompressedBytes      uint64 // bytes of pages compressed again, harder, while they lay idle in COMPRESSED
	RecompressedWonBytes   uint64 // bytes of COMPRESSED that were freed by it
	LentBytes              uint64 // of demoted_bytes, those copied to a neighbour's idle memory
	BorrowedBytes          uint64 // device memory that such pages take now
	RelayedBytes           uint64 // of peer_bytes, those copied through a third device
	HostRelayedBytes       uint64 // of peer_bytes, those copied through the host
	SplitBytes             uint64 // of peer_bytes, those of copies that went several ways at once
	RebalancedBytes        uint64 // bytes copied from HOST and below to neighbours that had memory to spare
	Generation             uint64 // changes of the pool's devices so far: one added, one removed, one lost
	RemoteUses             uint64 // uses granted on another device's memory (WEIR_USE_ALLOW_REMOTE)
	SharedOperationIDs     uint64 // times a name got the number that all names beyond the first 65,536 share (weir_operation_id)
	LearnedOperations      uint64 // operations that the policy has learned from
	LostUses               uint64 // uses, births and deaths of buffers that it has not learned from: its log was full, or its share of the CPU used up. A use of a part of a buffer counts twice
	PlannedOperations      uint64 // operations that a plan foresaw, and that came while it was carried out
	PlansMade              uint64 // plans made, each from what was there then
	PlanFetchedBytes       uint64 // of prefetched_bytes, those that a plan wanted by a date
	PlanCleanedBytes       uint64 // of background_demoted_bytes, those that stayed on the device: a plan has done with them
	PolicySwitches         uint64 // times that the policy stopped carrying out plans, or took it up again, because they did not pay or do
	PolicyCarriesPlans     uint64 // 1: it carries out plans now; 0: it does not
	PlansEndedUntrusted    uint64 // of plans_made, those that ended because what they foresaw did not come true
	PlansEndedMoved        uint64 // ... because the program went on elsewhere, or with other sizes
	PlansEndedMissed       uint64 // ... because too much had to be fetched that they did not have
	PlansEndedOld          uint64 // ... because they had lasted for 4096 operations
	PlansEndedBudget       uint64 // ... because the device's budget had changed
	PlansEndedDevice       uint64 // ... because a device left, was lost, or came
	PlansEndedShare        uint64 // ... because the share of the CPU (policy_cpu_percent) was used up
	PlansEndedAnnounced    uint64 // ... because what was announced was used up or taken back, or took their place
	PlansEndedMemory       uint64 // ... because there was no memory
}

// The counters follow two words of 32 bits. A library that has more than these is not asked for them.
const _ = uint(unsafe.Sizeof(C.weir_pool_stats{}) - unsafe.Offsetof(C.weir_pool_stats{}.device_budget) - unsafe.Sizeof(PoolStats{}))

// Stats are the pool's counters. O(1) in the number of buffers.
func (p *Pool) Stats() (PoolStats, error) {
	const op = "pool stats"
	if err := p.enter(op); err != nil {
		return PoolStats{}, err
	}
	defer p.leave()
	var stats C.weir_pool_stats
	err := failed(op, C.weirgo_pool_stats(C.uintptr_t(p.handle), &stats))
	return *(*PoolStats)(unsafe.Pointer(&stats.device_budget)), err
}

// DeviceState is where a device stands in a pool.
type DeviceState uint32

const (
	DevicePresent DeviceState = iota
	DeviceLeaving
	DeviceGone // lost
)

// DeviceStats are the numbers of one device of a pool.
type DeviceStats struct {
	Device        Device
	State         DeviceState
	Budget        uint64
	Bytes         uint64 // held from the system
	FreeBytes     uint64 // of those, not in use
	HeldBytes     uint64 // of those, held
	PageSize      uint64
	LargePageSize uint64
	PeakBytes     uint64 // the most ever held, or since ResetPeak
	Segments      uint64 // held, where there is no virtual-memory management
	ReturnedBytes uint64 // given back after IdleGrace
	MemoryTotal   uint64 // the device has, whatever the budget; 0 is not known
}

// DeviceStats tells about one device of the pool.
func (p *Pool) DeviceStats(device Device) (DeviceStats, error) {
	const op = "device stats"
	if err := p.enter(op); err != nil {
		return DeviceStats{}, err
	}
	defer p.leave()
	var s C.weir_pool_device_stats
	err := failed(op, C.weirgo_pool_device_stats(C.uintptr_t(p.handle), C.uint32_t(device), &s))
	return DeviceStats{
		Device: Device(s.device), State: DeviceState(s.state), Budget: uint64(s.budget), Bytes: uint64(s.bytes),
		FreeBytes: uint64(s.free_bytes), HeldBytes: uint64(s.held_bytes), PageSize: uint64(s.page_size),
		LargePageSize: uint64(s.large_page_size), PeakBytes: uint64(s.peak_bytes), Segments: uint64(s.segments),
		ReturnedBytes: uint64(s.returned_bytes), MemoryTotal: uint64(s.memory_total),
	}, err
}

// ResetPeak counts PeakBytes anew, from what is held now.
func (p *Pool) ResetPeak(device Device) error {
	const op = "reset peak"
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	return failed(op, C.weirgo_pool_reset_peak(C.uintptr_t(p.handle), C.uint32_t(device)))
}

// CodecStats are what the pool's codec did so far.
type CodecStats struct {
	Methods  [C.WEIR_CODEC_SLOTS]CodecShare   // by CodecMethod; those that there are none of are 0
	Elements [C.WEIR_ELEMENT_SLOTS]CodecShare // by Element, likewise
}

// CodecStats tells what the pool's codec did so far.
func (p *Pool) CodecStats() (CodecStats, error) {
	const op = "codec stats"
	if err := p.enter(op); err != nil {
		return CodecStats{}, err
	}
	defer p.leave()
	var from C.weir_codec_stats
	err := failed(op, C.weirgo_pool_codec_stats(C.uintptr_t(p.handle), &from))
	var stats CodecStats
	for i := range stats.Methods {
		stats.Methods[i] = shareOf(from.methods[i])
	}
	for i := range stats.Elements {
		stats.Elements[i] = shareOf(from.elements[i])
	}
	return stats, err
}

// Snapshot is a JSON document of the pool, its devices, clients and buffers.
func (p *Pool) Snapshot() (json.RawMessage, error) {
	const op = "snapshot"
	if err := p.enter(op); err != nil {
		return nil, err
	}
	defer p.leave()
	var text *C.char
	var length C.size_t
	if err := failed(op, C.weirgo_pool_snapshot(C.uintptr_t(p.handle), &text, &length)); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(text))
	return json.RawMessage(C.GoBytes(unsafe.Pointer(text), C.int(length))), nil
}

// PieceState is what a [Piece] tells of the bytes in it.
type PieceState uint32

const (
	PieceReserved  PieceState = iota // memory held from the system, used or not
	PieceOnly                        // the latest version, which lies nowhere else
	PieceCopy                        // the latest version, which lies elsewhere too
	PieceStale                       // an older version, or one that is being written
	PieceUnwritten                   // nothing written yet, or discarded
	PieceMoving                      // on its way in or out
	PieceKept                        // of a destroyed buffer
)

// Piece is a run of memory and what lies in it.
type Piece struct {
	Tier         Tier
	Device       Device // TierDevice: whose memory; else DeviceHost
	State        PieceState
	Container    uint64
	Offset       uint64  // in the container
	Bytes        uint64  // of memory
	BufferOffset uint64  // of its first byte in the buffer
	Tag          uint64  // the buffer's
	Buffer       uintptr // Buffer.Handle of the buffer; 0: no buffer's, or that of several small buffers
}

// Map tells where everything lies in the pool, in no order. It walks all pages under the pool's lock.
func (p *Pool) Map() ([]Piece, error) {
	const op = "pool map"
	if err := p.enter(op); err != nil {
		return nil, err
	}
	defer p.leave()
	var array *C.weir_piece
	var count C.size_t
	if err := failed(op, C.weirgo_pool_map(C.uintptr_t(p.handle), &array, &count)); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(array))
	pieces := make([]Piece, count)
	for i := range pieces {
		from := &unsafe.Slice(array, int(count))[i]
		pieces[i] = Piece{
			Tier: Tier(from.tier), Device: Device(from.device), State: PieceState(from.state),
			Container: uint64(from.container), Offset: uint64(from.offset), Bytes: uint64(from.bytes),
			BufferOffset: uint64(from.buffer_offset), Tag: uint64(from.tag), Buffer: number(unsafe.Pointer(&from.buffer)),
		}
	}
	return pieces, nil
}
