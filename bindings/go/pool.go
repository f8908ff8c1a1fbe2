// SPDX-License-Identifier: Apache-2.0

package weir

// Pools and clients: making and ending them. A pool counts its buffers, clients, allocations and calls under way as
// users, so that none of them meets an ended pool. What else a pool does is in pool_devices.go, pool_stats.go and maintain.go.

/*
#include "shim.h"
*/
import "C"

import (
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// PoolDevice is a device of a pool, and the bytes of its memory that the pool may hold.
type PoolDevice struct {
	Device Device
	Budget uint64
}

// Never, as a time in [PoolOptions], switches off what would be done after it.
const Never time.Duration = -1

// PoolOptions are a pool's budgets and ways. All but Devices is optional; 0 is the library's default, which its pool.h has.
type PoolOptions struct {
	Devices          []PoolDevice // 1 to 28, each once; the first is DeviceDefault
	HostBudget       uint64       // bytes of pinned host memory; None; 0 = what the machine has to spare
	CompressedBudget uint64       // bytes of pageable host memory for compressed pages; 0 = no such tier
	StorageBudget    uint64       // bytes of spill files; 0 = no such tier
	StoragePaths     []string     // directories for them, which must exist

	NoBackground    bool // no threads of the pool's own: all work happens inside calls
	ChecksumHost    bool // checksum every page that is demoted to host memory
	EncryptStorage  bool
	BufferedStorage bool // through the page cache
	NoIOUring       bool
	NoPeer          bool // nothing is lent to neighbours

	PageSize              uint64 // a power of two times the largest of the devices' granules, at most 1 GiB; 0 = docs/budgets.md
	LargePageSize         uint64 // a power of two times PageSize, at most 1 GiB; equal to it: one class only
	SegmentSize           uint64
	WatermarkLowPermille  int           // thousandths of the device budget
	WatermarkHighPermille int           // likewise
	EvictWait             time.Duration // how long an eviction may wait for released work
	Policy                string        // "auto" or "lru-window"; "" = "auto" in pools that are large enough (docs/policies.md), else "lru-window"
	Name                  string        // for logs and snapshots
	Codec                 string        // of compressed blocks
	CompressThreads       int
	CompressSharePercent  int // percent of a CPU
	IdleGrace             time.Duration
	RecompressIdle        time.Duration
	RebalanceRate         uint64 // bytes a second; None = never by itself
	RecordBudget          uint64 // bytes of the pool's own records for buffers to be made; 0 = 1/64 of the machine's memory
	PolicyMemory          uint64 // bytes for what the policy "auto" learns, at least 2 MiB; 0 = 32 MiB, or a quarter of RecordBudget
	PolicyCPUPercent      int    // of one CPU, that "auto" may use to learn and plan; 0 = 10
}

// Pool is budgets over devices and tiers.
type Pool struct {
	object
	context *Context // nil if the pool was wrapped without one
	turn    chan struct{}
	loss    struct {
		sync.Mutex
		handle cgo.Handle
	}
	removing sync.Map // Device of each RemoveDevice under way
	names    operationNames
}

func flag(on bool, bit C.uint64_t) C.uint64_t {
	if on {
		return bit
	}
	return 0
}

// span is a time in nanoseconds; Never is WEIR_NONE.
func span(t time.Duration) C.uint64_t {
	if t == Never {
		return C.WEIR_NONE
	}
	return C.uint64_t(t)
}

func (o *PoolOptions) check(op string) error {
	for _, number := range []struct {
		name  string
		value int64
	}{
		{"WatermarkLowPermille", int64(o.WatermarkLowPermille)}, {"WatermarkHighPermille", int64(o.WatermarkHighPermille)},
		{"CompressThreads", int64(o.CompressThreads)}, {"CompressSharePercent", int64(o.CompressSharePercent)},
		{"PolicyCPUPercent", int64(o.PolicyCPUPercent)},
		{"EvictWait", int64(o.EvictWait)},
	} {
		if number.value < 0 || (number.name != "EvictWait" && number.value > 1<<31) {
			return refused(op, ErrInvalidArgument, "%s is %d", number.name, number.value)
		}
	}
	if o.IdleGrace < Never || o.RecompressIdle < Never {
		return refused(op, ErrInvalidArgument, "IdleGrace is %v, RecompressIdle is %v; negative is Never only", o.IdleGrace,
			o.RecompressIdle)
	}
	return nil
}

// desc is the descriptor but for its devices; its strings are those of texts.
func (o *PoolOptions) desc(texts *cStrings) C.weir_pool_desc {
	return C.weir_pool_desc{
		struct_size: C.sizeof_weir_pool_desc, device_count: C.uint32_t(len(o.Devices)),
		flags: flag(o.NoBackground, C.WEIR_POOL_NO_BACKGROUND) | flag(o.ChecksumHost, C.WEIR_POOL_CHECKSUM_HOST) |
			flag(o.EncryptStorage, C.WEIR_POOL_ENCRYPT_STORAGE) | flag(o.BufferedStorage, C.WEIR_POOL_BUFFERED_STORAGE) |
			flag(o.NoIOUring, C.WEIR_POOL_NO_IO_URING) | flag(o.NoPeer, C.WEIR_POOL_NO_PEER),
		host_budget: C.uint64_t(o.HostBudget), page_size: C.uint64_t(o.PageSize),
		large_page_size: C.uint64_t(o.LargePageSize), watermark_low_permille: C.uint32_t(o.WatermarkLowPermille),
		watermark_high_permille: C.uint32_t(o.WatermarkHighPermille), evict_wait_ns: C.uint64_t(o.EvictWait),
		policy: texts.add(o.Policy), name: texts.add(o.Name), compressed_budget: C.uint64_t(o.CompressedBudget),
		storage_budget: C.uint64_t(o.StorageBudget), storage_paths: texts.list(o.StoragePaths),
		storage_path_count: C.uint32_t(len(o.StoragePaths)), compress_threads: C.uint32_t(o.CompressThreads),
		compress_share_percent: C.uint32_t(o.CompressSharePercent), codec: texts.add(o.Codec), idle_grace_ns: span(o.IdleGrace),
		segment_size: C.uint64_t(o.SegmentSize), recompress_idle_ns: span(o.RecompressIdle),
		rebalance_bytes_per_second: C.uint64_t(o.RebalanceRate), record_budget: C.uint64_t(o.RecordBudget),
		policy_memory: C.uint64_t(o.PolicyMemory), policy_cpu_percent: C.uint32_t(o.PolicyCPUPercent),
	}
}

// NewPool creates a pool.
func (c *Context) NewPool(options PoolOptions) (*Pool, error) {
	const op = "create pool"
	if err := options.check(op); err != nil {
		return nil, err
	}
	if err := c.enter(op); err != nil {
		return nil, err
	}
	var texts cStrings
	defer texts.free()
	desc := options.desc(&texts)
	devices := make([]C.weir_pool_device, len(options.Devices)+1)
	for i, device := range options.Devices {
		devices[i].device = C.weir_device(device.Device)
		devices[i].budget = C.uint64_t(device.Budget)
	}
	var handle C.uintptr_t
	if err := failed(op, C.weirgo_pool_create(C.uintptr_t(c.handle), &desc, &devices[0], &handle)); err != nil {
		c.leave()
		return nil, err
	}
	return newPool(c, uintptr(handle), false), nil
}

// WrapPool makes a Pool of a weir_pool that another language of the program owns. It must live for as long as the Pool and
// its buffers are used; Close ends the Pool only. c, the pool's context, may be nil.
func WrapPool(c *Context, handle unsafe.Pointer) (*Pool, error) {
	const op = "wrap pool"
	if handle == nil {
		return nil, refused(op, ErrInvalidHandle, "the handle is nil")
	}
	if c != nil {
		if err := c.enter(op); err != nil {
			return nil, err
		}
	}
	return newPool(c, uintptr(handle), true), nil
}

func newPool(c *Context, handle uintptr, borrowed bool) *Pool {
	p := &Pool{context: c, turn: make(chan struct{}, 1)}
	p.borrowed = borrowed
	open(p, &p.object, kindPool, handle, (*Pool).Close)
	return p
}

// Handle is the weir_pool, for C and other languages. It is the Pool's as before:
// runtime.KeepAlive belongs after C's last use of it.
func (p *Pool) Handle() unsafe.Pointer { return foreign(p.handle) }

// Close ends the pool; it waits for work in flight. ErrBusy while the pool has buffers, clients, allocations or leases, or
// while another goroutine is in a call of it. Buffers that another language made in it die with it.
func (p *Pool) Close() error {
	const op = "close pool"
	err := p.finish(op, func() error {
		if p.borrowed {
			return p.dropLossCallback(op)
		}
		return failed(op, C.weirgo_pool_destroy(C.uintptr_t(p.handle)))
	})
	if err != nil {
		return err
	}
	p.forgetLoss()
	if p.context != nil {
		p.context.leave()
	}
	return nil
}

// ClientOptions are all optional. A quota is bytes that the client may hold: 0 is the pool's budget, [None] is nothing at all.
type ClientOptions struct {
	Name            string
	Priority        Priority // added to the buffers' own
	DeviceQuota     uint64   // bytes on each device
	HostQuota       uint64
	CompressedQuota uint64
	StorageQuota    uint64
}

// Client is what bytes are charged to.
type Client struct {
	object
	pool *Pool
}

// NewClient creates a client of the pool. options may be nil.
func (p *Pool) NewClient(options *ClientOptions) (*Client, error) {
	const op = "create client"
	if options == nil {
		options = &ClientOptions{}
	}
	if err := p.enter(op); err != nil {
		return nil, err
	}
	var texts cStrings
	defer texts.free()
	desc := C.weir_client_desc{
		struct_size: C.sizeof_weir_client_desc, priority: C.int32_t(options.Priority),
		device_quota: C.uint64_t(options.DeviceQuota), host_quota: C.uint64_t(options.HostQuota),
		name: texts.add(options.Name), compressed_quota: C.uint64_t(options.CompressedQuota),
		storage_quota: C.uint64_t(options.StorageQuota),
	}
	var handle C.uintptr_t
	if err := failed(op, C.weirgo_client_create(C.uintptr_t(p.handle), &desc, &handle)); err != nil {
		p.leave()
		return nil, err
	}
	c := &Client{pool: p}
	open(c, &c.object, kindClient, uintptr(handle), (*Client).Close)
	return c, nil
}

// Handle is the weir_client, for C and other languages. It is the Client's as before:
// runtime.KeepAlive belongs after C's last use of it.
func (c *Client) Handle() unsafe.Pointer { return foreign(c.handle) }

// Close ends the client. ErrBusy while it has buffers.
func (c *Client) Close() error {
	const op = "close client"
	err := c.finish(op, func() error { return failed(op, C.weirgo_client_destroy(C.uintptr_t(c.handle))) })
	if err == nil {
		c.pool.leave()
	}
	return err
}

// ClientStats is what a client holds.
type ClientStats struct {
	Buffers         int
	DeviceBytes     uint64
	HostBytes       uint64
	CompressedBytes uint64
	StorageBytes    uint64
}

// Stats tells what the client holds.
func (c *Client) Stats() (ClientStats, error) {
	const op = "client stats"
	if err := c.enter(op); err != nil {
		return ClientStats{}, err
	}
	defer c.leave()
	var stats C.weir_client_stats
	err := failed(op, C.weirgo_client_stats(C.uintptr_t(c.handle), &stats))
	return ClientStats{
		Buffers: int(stats.buffers), DeviceBytes: uint64(stats.device_bytes), HostBytes: uint64(stats.host_bytes),
		CompressedBytes: uint64(stats.compressed_bytes), StorageBytes: uint64(stats.storage_bytes),
	}, err
}
