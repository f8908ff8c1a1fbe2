// SPDX-License-Identifier: Apache-2.0

package weir

// Buffers: making, asking, hints, and their bytes by copies. A buffer counts as a user of its pool and its client; leases,
// holds and calls under way count as users of the buffer.

/*
#include "shim.h"
*/
import "C"

import (
	"io"
	"strings"
	"unsafe"
)

// On is a device where an option may have none: Home: weir.On(1).
func On(device Device) *Device { return &device }

// BufferOptions are all optional.
type BufferOptions struct {
	Client        *Client // nil: the pool's own
	Home          *Device // where it is expected to be used, or DeviceAny; nil = DeviceDefault
	Priority      Priority
	Alignment     uint64 // a power of two up to the page size; 0 = 256
	Element       Element
	Tag           uint64   // the caller's; shown in snapshots
	Name          string   // what errors, reports and snapshots call it, as for [Buffer.SetName]
	Users         []Device // those that will use it, DeviceHost for leases of the CPU
	StableAddress bool     // one address for life
	Scrub         bool     // overwrite every copy as it stops being one
	LossyBF16     bool     // LOSSY: floats may come back rounded to bf16, once they have left for COMPRESSED
	LossyF16      bool     // LOSSY: likewise to f16
	Shards        *ShardOptions
}

// desc is the descriptor but for client, users and name.
func (o *BufferOptions) desc(size uint64) C.weir_buffer_desc {
	home := DeviceDefault
	if o.Home != nil {
		home = *o.Home
	}
	return C.weir_buffer_desc{
		struct_size: C.sizeof_weir_buffer_desc, priority: C.int32_t(o.Priority),
		flags: flag(o.StableAddress, C.WEIR_BUFFER_STABLE_ADDRESS) | flag(o.Scrub, C.WEIR_BUFFER_SCRUB) |
			flag(o.LossyBF16, C.WEIR_BUFFER_LOSSY_BF16) | flag(o.LossyF16, C.WEIR_BUFFER_LOSSY_F16),
		size: C.uint64_t(size), alignment: C.uint64_t(o.Alignment), home: C.weir_device(home),
		element: C.uint32_t(o.Element), tag: C.uint64_t(o.Tag), user_count: C.uint32_t(len(o.Users)),
	}
}

// Buffer is a virtual allocation whose bytes live wherever the pool has room. A new one reads as zero.
type Buffer struct {
	object
	pool   *Pool
	client *Client
	size   uint64
	serial uint64 // no other buffer's, ever
	leased [streamsOfBuffer]remembered
}

// NewBuffer creates a buffer of size bytes. No device memory is taken before it is first acquired. options may be nil.
func (p *Pool) NewBuffer(size uint64, options *BufferOptions) (*Buffer, error) {
	const op = "create buffer"
	if options == nil {
		options = &BufferOptions{}
	}
	layout, devices, weights, err := options.Shards.desc(op)
	if err != nil {
		return nil, err
	}
	var texts cStrings
	defer texts.free()
	name, err := bufferName(op, &texts, options.Name)
	if err != nil {
		return nil, err
	}
	if err := p.enter(op); err != nil {
		return nil, err
	}
	var client C.uintptr_t
	if options.Client != nil {
		if err := options.Client.enter(op); err != nil {
			p.leave()
			return nil, err
		}
		client = C.uintptr_t(options.Client.handle)
	}
	desc := options.desc(size)
	users := deviceNumbers(nil, options.Users)
	var handle C.uintptr_t
	err = failed(op, C.weirgo_buffer_create(C.uintptr_t(p.handle), &desc, client, &append(users, 0)[0], name, layout, devices,
		weights, &handle))
	b := &Buffer{pool: p, client: options.Client, size: size, serial: newSerial()}
	if err != nil {
		b.leaveOwners()
		return nil, err
	}
	open(b, &b.object, kindBuffer, uintptr(handle), (*Buffer).Close)
	return b, nil
}

// bufferName is of texts: nil for "". C would cut a name at a byte 0.
func bufferName(op string, texts *cStrings, name string) (*C.char, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return nil, refused(op, ErrInvalidArgument, "the name of a buffer has a byte 0")
	}
	return texts.add(name), nil
}

func deviceNumbers(numbers []C.uint32_t, devices []Device) []C.uint32_t {
	for _, device := range devices {
		numbers = append(numbers, C.uint32_t(device))
	}
	return numbers
}

func (b *Buffer) leaveOwners() {
	if b.client != nil {
		b.client.leave()
	}
	b.pool.leave()
}

// mayUse tells whether p, which is not the Pool that the buffer was made by, is open and another Pool of the same.
func (p *Pool) mayUse(op string, b *Buffer, otherwise string) error {
	if p.handle != b.pool.handle {
		return refused(op, ErrInvalidHandle, "%s", otherwise)
	}
	if p.isClosed() {
		return closedError(op, p.kind.String())
	}
	return nil
}

// WrapBuffer makes a Buffer of a weir_buffer of this pool that another language of the program owns. It must live for as
// long as the Buffer is used; Close ends the Buffer only.
func (p *Pool) WrapBuffer(handle uintptr) (*Buffer, error) {
	return p.foreignBuffer("wrap buffer", handle, true)
}

// AdoptBuffer makes a Buffer of a weir_buffer of this pool that another language has made and given away: Close ends both.
func (p *Pool) AdoptBuffer(handle uintptr) (*Buffer, error) {
	return p.foreignBuffer("adopt buffer", handle, false)
}

func (p *Pool) foreignBuffer(op string, handle uintptr, borrowed bool) (*Buffer, error) {
	if err := p.enter(op); err != nil {
		return nil, err
	}
	b := &Buffer{pool: p, serial: newSerial()}
	var info C.weir_buffer_info
	err := failed(op, C.weirgo_buffer_info(C.uintptr_t(p.handle), C.uintptr_t(handle), 0, C.WEIR_WHOLE, &info))
	if err != nil {
		b.leaveOwners()
		return nil, err
	}
	b.size = uint64(info.size)
	b.borrowed = borrowed
	open(b, &b.object, kindBuffer, handle, (*Buffer).Close)
	return b, nil
}

// Handle is the weir_buffer, for C and other languages. It is a number, not an address, and must not be kept in a Go
// pointer: pass it to C as a uintptr_t, and call runtime.KeepAlive after C's last use of it.
func (b *Buffer) Handle() uintptr { return b.handle }

// Pool is the buffer's pool.
func (b *Buffer) Pool() *Pool { return b.pool }

// Size is in bytes, as it was asked for.
func (b *Buffer) Size() uint64 { return b.size }

// Close ends the buffer; its contents are dropped. ErrBusy while it is leased or held.
func (b *Buffer) Close() error {
	const op = "close buffer"
	closed, err := b.finishFor(op, b.slotsTaken, func() error {
		if b.borrowed {
			return nil
		}
		return failed(op, C.weirgo_buffer_destroy(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle)))
	}, func(error) bool { return true })
	if closed {
		b.leaveOwners()
	}
	return err
}

// BufferRequest is a buffer that is going to be made.
type BufferRequest struct {
	Size    uint64
	Options BufferOptions
}

// PlaceBuffers chooses homes for buffers that are going to be made, together. Nothing is made or set aside: put the answer
// into BufferOptions.Home.
func (p *Pool) PlaceBuffers(requests []BufferRequest) ([]Device, error) {
	const op = "place buffers"
	if err := p.enter(op); err != nil {
		return nil, err
	}
	defer p.leave()
	descs := make([]C.weir_buffer_desc, len(requests)+1)
	var users []C.uint32_t
	for i := range requests {
		if requests[i].Options.Shards != nil {
			return nil, refused(op, ErrInvalidArgument, "request %d has shards, which say where its bytes are to be", i)
		}
		descs[i] = requests[i].Options.desc(requests[i].Size)
		users = deviceNumbers(users, requests[i].Options.Users)
	}
	homes := make([]C.uint32_t, len(requests)+1)
	if err := failed(op, C.weirgo_buffer_place(C.uintptr_t(p.handle), &descs[0], C.size_t(len(requests)),
		&append(users, 0)[0], &homes[0])); err != nil {
		return nil, err
	}
	devices := make([]Device, len(requests))
	for i := range devices {
		devices[i] = Device(homes[i])
	}
	return devices, nil
}

// BufferInfo is where bytes of a buffer are.
type BufferInfo struct {
	Home    Device
	Size    uint64
	Tag     uint64
	Address uint64 // on the home device; 0 if it has none at present

	// Of the range asked about, by where the latest version lies.
	DeviceBytes     uint64 // on the home device
	PeerBytes       uint64 // on other devices, and not on the home device
	HostBytes       uint64 // in host memory, and on no device
	BothBytes       uint64 // of DeviceBytes, those that are in host memory too
	UnwrittenBytes  uint64 // never written, or discarded
	LostBytes       uint64 // lost with a device
	CompressedBytes uint64
	StorageBytes    uint64

	Leases   int
	Held     int // holds not yet undone
	Priority Priority
	Pages    int // 0 for a tenant of a slab
}

// Info tells where the bytes from offset on are, length of them or [Whole].
func (b *Buffer) Info(offset, length uint64) (BufferInfo, error) {
	const op = "buffer info"
	if err := b.enter(op); err != nil {
		return BufferInfo{}, err
	}
	defer b.leave()
	var i C.weir_buffer_info
	err := failed(op, C.weirgo_buffer_info(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.uint64_t(offset),
		C.uint64_t(length), &i))
	return BufferInfo{
		Home: Device(i.home), Size: uint64(i.size), Tag: uint64(i.tag), Address: uint64(i.address),
		DeviceBytes: uint64(i.device_bytes), PeerBytes: uint64(i.peer_bytes), HostBytes: uint64(i.host_bytes),
		BothBytes: uint64(i.both_bytes), UnwrittenBytes: uint64(i.unwritten_bytes), LostBytes: uint64(i.lost_bytes),
		CompressedBytes: uint64(i.compressed_bytes), StorageBytes: uint64(i.storage_bytes), Leases: int(i.leases),
		Held: int(i.held), Priority: Priority(i.priority), Pages: int(i.pages),
	}, err
}

// inRange is how many of n bytes at offset are in the buffer.
func (b *Buffer) inRange(op string, offset int64, n int) (int, error) {
	if offset < 0 {
		return 0, refused(op, ErrInvalidArgument, "offset is %d", offset)
	}
	if uint64(offset) >= b.size {
		return 0, nil
	}
	if left := b.size - uint64(offset); uint64(n) > left {
		return int(left), nil
	}
	return n, nil
}

// ReadAt copies bytes out from whatever tier they are on; it implements io.ReaderAt. It waits for the work that writes
// them. ErrLeaseConflict against an unreleased lease that writes there.
func (b *Buffer) ReadAt(bytes []byte, offset int64) (int, error) {
	const op = "read buffer"
	if err := b.enter(op); err != nil {
		return 0, err
	}
	defer b.leave()
	n, err := b.inRange(op, offset, len(bytes))
	if err == nil && n > 0 {
		err = failed(op, C.weirgo_buffer_read(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.uint64_t(offset),
			C.uint64_t(n), unsafe.Pointer(&bytes[0])))
	}
	if err != nil {
		return 0, err
	}
	if n < len(bytes) {
		err = io.EOF
	}
	return n, err
}

// WriteAt copies bytes in; it implements io.WriterAt. It waits for work that uses them. ErrLeaseConflict against any
// unreleased lease there. Bytes beyond the buffer's end are ErrInvalidArgument, and nothing is written then. If it fails
// halfway, bytes before the failure may be new already, though the count is 0.
func (b *Buffer) WriteAt(bytes []byte, offset int64) (int, error) {
	const op = "write buffer"
	if err := b.enter(op); err != nil {
		return 0, err
	}
	defer b.leave()
	n, err := b.inRange(op, offset, len(bytes))
	if err == nil && n < len(bytes) {
		err = refused(op, ErrInvalidArgument, "%d bytes at %d do not fit into %d", len(bytes), offset, b.size)
	}
	if err == nil && n > 0 {
		err = failed(op, C.weirgo_buffer_write(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.uint64_t(offset),
			C.uint64_t(n), unsafe.Pointer(&bytes[0])))
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// Advice is a hint about a range.
type Advice uint32

const (
	AdviceNormal    Advice = iota
	AdviceCold             // not needed soon
	AdviceWillNeed         // as a prefetch to the home device
	AdviceStreaming        // used once and not again for long
)

// Advise gives a hint; it never changes contents. Lasts until the next advice.
func (b *Buffer) Advise(offset, length uint64, advice Advice) error {
	const op = "advise"
	if err := b.enter(op); err != nil {
		return err
	}
	defer b.leave()
	return failed(op, C.weirgo_advise(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.uint64_t(offset),
		C.uint64_t(length), C.uint32_t(advice)))
}

// Discard says that the contents of the range are no longer needed: pages wholly inside read as zero from then on.
func (b *Buffer) Discard(offset, length uint64) error {
	const op = "discard"
	if err := b.enter(op); err != nil {
		return err
	}
	defer b.leave()
	return failed(op, C.weirgo_discard(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.uint64_t(offset),
		C.uint64_t(length)))
}

// SetName gives the buffer a name, or another; "" takes it away. Errors, reports and snapshots have it. It is UTF-8 without
// a byte 0, of which the first 255 bytes are kept, up to the end of a character. Names need not differ, and mean nothing to
// Weir.
func (b *Buffer) SetName(name string) error {
	const op = "set name"
	var texts cStrings
	defer texts.free()
	text, err := bufferName(op, &texts, name)
	if err != nil {
		return err
	}
	if err := b.enter(op); err != nil {
		return err
	}
	defer b.leave()
	return failed(op, C.weirgo_buffer_set_name(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), text))
}

// Name is the buffer's name, as far as it is kept; "" if it has none.
func (b *Buffer) Name() (string, error) {
	const op = "buffer name"
	if err := b.enter(op); err != nil {
		return "", err
	}
	defer b.leave()
	var text *C.char
	var length C.size_t
	if err := failed(op, C.weirgo_buffer_name(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), &text, &length)); err != nil {
		return "", err
	}
	defer C.free(unsafe.Pointer(text))
	return C.GoStringN(text, C.int(length)), nil
}

// SetPriority changes the eviction class.
func (b *Buffer) SetPriority(priority Priority) error {
	const op = "set priority"
	if err := b.enter(op); err != nil {
		return err
	}
	defer b.leave()
	return failed(op, C.weirgo_buffer_set_priority(C.uintptr_t(b.pool.handle), C.uintptr_t(b.handle), C.int32_t(priority)))
}
