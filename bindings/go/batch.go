// SPDX-License-Identifier: Apache-2.0

package weir

// Many calls in one crossing into C: steps of acquire, host call and release; reads and writes; prefetches and
// announcements, which take many uses by themselves.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/cgo"
	"unsafe"
)

// Step is work of a [Stream] on the bytes of its uses.
type Step struct {
	Uses []Use
	Func func(View) // runs in stream order, on a thread of the device's; nil: nothing runs
}

// View is the memory of a step's uses, valid until its function returns.
type View struct{ bytes [][]byte }

// Len is how many uses there are.
func (v View) Len() int { return len(v.bytes) }

// Bytes is the memory of the i-th use.
func (v View) Bytes(i int) ([]byte, error) {
	if i < 0 || i >= len(v.bytes) {
		return nil, refused("view bytes", ErrInvalidArgument, "use %d of %d", i, len(v.bytes))
	}
	return v.bytes[i], nil
}

// stepCall is what a step's function needs and knows before its acquire.
type stepCall struct {
	call    func(View)
	lengths []uint64
}

func (c *stepCall) run(addresses []C.uint64_t) {
	view := View{make([][]byte, len(addresses))}
	for i, address := range addresses {
		view.bytes[i] = bytesAt(uint64(address), c.lengths[i])
	}
	c.call(view)
}

// Run acquires the uses, enqueues work on the stream, and releases, in one call of C. work gets the memory when its turn
// in the stream has come; it must not call this package, nor wait for anything that does. Run waits for leases of others as
// [Pool.Acquire] does.
func (p *Pool) Run(ctx context.Context, stream *Stream, work func(View), uses ...Use) error {
	_, err := p.RunSteps(ctx, stream, Step{uses, work})
	return err
}

// RunSteps is [Pool.Run] of many steps in one call of C. It tells how many were enqueued before the first failure. An
// error's UseIndex counts the uses of all steps, in order. A use with UseAllowRemote of a step with a function is
// ErrNotSupported where the CPU can't reach every device of the context.
func (p *Pool) RunSteps(ctx context.Context, stream *Stream, steps ...Step) (int, error) {
	const op = "run"
	if ctx.Err() != nil {
		return 0, ended(op, ctx)
	}
	if !stream.reach {
		return 0, refused(op, ErrNotSupported, "the CPU can't reach the memory of device %d", stream.device)
	}
	if len(steps) == 0 {
		return 0, nil
	}
	var all []Use
	for i := range steps {
		if len(steps[i].Uses) == 0 {
			return 0, refused(op, ErrInvalidArgument, "step %d has no uses", i)
		}
		all = append(all, steps[i].Uses...)
	}
	s, err := begin(op, p, stream, all)
	if err != nil {
		return 0, err
	}
	defer s.recycle()
	if err := canReachSteps(op, s, steps); err != nil {
		return 0, err
	}
	r := newRun(s, steps)
	err = r.do(ctx, s)
	for _, step := range r.steps[r.done:] {
		if step.call != 0 {
			cgo.Handle(step.call).Delete()
		}
	}
	return r.done, err
}

// canReachSteps refuses steps whose functions would get memory that the CPU may not reach.
func canReachSteps(op string, s *leaseState, steps []Step) error {
	use := 0
	for i := range steps {
		for range steps[i].Uses {
			if steps[i].Func != nil {
				if err := s.canReach(op, use); err != nil {
					return err
				}
			}
			use++
		}
	}
	return nil
}

// run is a RunSteps under way: done steps are enqueued, the handles of the others are its own.
type run struct {
	steps []C.weirgo_step
	done  int
	first int // use of the step after those
}

func newRun(s *leaseState, steps []Step) *run {
	r := &run{steps: make([]C.weirgo_step, len(steps))}
	use := 0
	for i := range steps {
		count := len(steps[i].Uses)
		r.steps[i].use_count = C.uint64_t(count)
		if steps[i].Func != nil {
			lengths := make([]uint64, count)
			for j := range lengths {
				lengths[j] = s.length(use + j)
			}
			r.steps[i].call = C.uintptr_t(cgo.NewHandle(&stepCall{steps[i].Func, lengths}))
		}
		use += count
	}
	return r
}

func (r *run) do(ctx context.Context, s *leaseState) error {
	for r.done < len(r.steps) {
		var done C.size_t
		var state C.int32_t
		err := failed("run", C.weirgo_run(C.uintptr_t(s.pool.handle), C.uintptr_t(s.stream.handle), &r.steps[r.done],
			C.size_t(len(r.steps)-r.done), &s.uses[r.first], &done, &state))
		r.advance(int(done))
		if err == nil {
			return nil
		}
		r.countUses(err)
		if state == 2 {
			r.advance(1)
		}
		if state != 0 || !errors.Is(err, ErrWouldBlock) || !mayWait(ctx, nil) {
			return err
		}
		if err := r.waitForOne(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// countUses makes the index of a use of the next step one of all steps' uses.
func (r *run) countUses(err error) {
	var e *Error
	if errors.As(err, &e) && e.UseIndex >= 0 {
		e.UseIndex += r.first
	}
}

func (r *run) advance(steps int) {
	for ; steps > 0; steps-- {
		r.first += int(r.steps[r.done].use_count)
		r.done++
	}
}

// waitForOne takes the next step by an acquire that waits. With an error of the release the step is taken all the same.
func (r *run) waitForOne(ctx context.Context, s *leaseState) (err error) {
	step := &r.steps[r.done]
	count := int(step.use_count)
	one := leaseState{one: new(C.weirgo_one), stream: s.stream, pool: s.pool, uses: s.uses[r.first : r.first+count]}
	if err := one.await(ctx, nil); err != nil {
		r.countUses(err)
		return err
	}
	defer func() {
		if released := failed("run", C.weirgo_release(one.one.lease, C.uintptr_t(s.stream.handle))); err == nil {
			err = released
		}
	}()
	if step.call != 0 {
		addresses := make([]C.uint64_t, count)
		for i := range addresses {
			addresses[i] = one.uses[i].address
		}
		h := cgo.Handle(step.call)
		call := h.Value().(*stepCall)
		if err := s.stream.HostCall(func() { call.run(addresses) }); err != nil {
			return err
		}
		h.Delete()
	}
	r.advance(1)
	return nil
}

// Prefetch starts bringing the uses' bytes to the stream's device, as far as that harms no other user of the device. Failures are silent: a
// later acquire tells.
func (p *Pool) Prefetch(stream *Stream, uses ...Use) error {
	const op = "prefetch"
	if len(uses) == 0 {
		return nil
	}
	s, err := begin(op, p, stream, uses)
	if err != nil {
		return err
	}
	defer s.recycle()
	return failed(op, C.weirgo_prefetch(C.uintptr_t(p.handle), C.uintptr_t(stream.handle), &s.uses[0], C.size_t(len(s.uses))))
}

// Operation is what a later acquire on a stream will use. Its name, or in that's place the number of a name ([Pool.OperationID]),
// is for the policy to learn from.
type Operation struct {
	Name string
	Uses []Use
	ID   uint32
}

// Announce tells what the next acquires on the stream will use, in order, after what was announced before.
func (p *Pool) Announce(stream *Stream, operations ...Operation) error {
	return p.announce(stream, operations, 0)
}

// AnnounceAnew forgets what was announced on the stream before; without operations it does only that.
func (p *Pool) AnnounceAnew(stream *Stream, operations ...Operation) error {
	return p.announce(stream, operations, C.WEIR_ANNOUNCE_REPLACE)
}

func (p *Pool) announce(stream *Stream, operations []Operation, flags C.uint64_t) error {
	const op = "announce"
	if err := p.enter(op); err != nil {
		return err
	}
	defer p.leave()
	var all []Use
	counts := make([]C.uint64_t, len(operations)+1)
	ids := make([]C.uint32_t, len(operations)+1)
	for i := range operations {
		counts[i] = C.uint64_t(len(operations[i].Uses))
		var err error
		if ids[i], err = p.operationNumber(op, operations[i].Name, operations[i].ID); err != nil {
			return err
		}
		all = append(all, operations[i].Uses...)
	}
	uses := &C.weirgo_use{}
	if len(all) != 0 {
		s, err := begin(op, p, stream, all)
		if err != nil {
			return err
		}
		defer s.recycle()
		uses = &s.uses[0]
	} else {
		if err := stream.enter(op); err != nil {
			return err
		}
		defer stream.leave()
	}
	return failed(op, C.weirgo_announce(C.uintptr_t(p.handle), C.uintptr_t(stream.handle), &counts[0], &ids[0],
		C.size_t(len(operations)), uses, flags))
}

// Transfer is bytes to be read from, or written to, a buffer.
type Transfer struct {
	Buffer *Buffer
	Offset uint64
	Bytes  []byte
}

// ReadMany does many small reads in one call of C, by a copy of the bytes. It tells how many were done before the first
// failure; only those have their bytes.
func (p *Pool) ReadMany(transfers ...Transfer) (int, error) {
	t, err := p.beginTransfers("read many", transfers)
	if err != nil || t == nil {
		return 0, err
	}
	defer t.end()
	var done C.size_t
	err = failed(t.op, C.weirgo_read_many(C.uintptr_t(p.handle), &t.list[0], C.size_t(len(t.list)), t.at(), &done))
	rest := t.bytes
	for i := range transfers[:done] {
		copy(transfers[i].Bytes, rest)
		rest = rest[len(transfers[i].Bytes):]
	}
	return int(done), err
}

// WriteMany does many small writes in one call of C, by a copy of the bytes. It tells how many were done before the first
// failure.
func (p *Pool) WriteMany(transfers ...Transfer) (int, error) {
	t, err := p.beginTransfers("write many", transfers)
	if err != nil || t == nil {
		return 0, err
	}
	defer t.end()
	rest := t.bytes
	for i := range transfers {
		rest = rest[copy(rest, transfers[i].Bytes):]
	}
	var done C.size_t
	err = failed(t.op, C.weirgo_write_many(C.uintptr_t(p.handle), &t.list[0], C.size_t(len(t.list)), t.at(), &done))
	return int(done), err
}

// moves are transfers as C gets them: arrays without Go pointers, and all bytes in one piece.
type moves struct {
	op      string
	list    []C.weirgo_transfer
	bytes   []byte
	entered []*Buffer
}

func (t *moves) at() *C.char { return (*C.char)(unsafe.Pointer(&t.bytes[0])) }

func (t *moves) end() {
	for _, b := range t.entered {
		b.leave()
	}
}

func (p *Pool) enterTransfer(op string, b *Buffer, i int) error {
	if b == nil {
		return refused(op, ErrInvalidHandle, "transfer %d has no buffer", i)
	}
	if b.pool != p {
		if err := p.mayUse(op, b, fmt.Sprintf("transfer %d has no buffer of this pool", i)); err != nil {
			return err
		}
	}
	return b.enter(op)
}

// beginTransfers is nil without an error if there is nothing to do.
func (p *Pool) beginTransfers(op string, transfers []Transfer) (*moves, error) {
	if len(transfers) == 0 {
		return nil, nil
	}
	t := &moves{op: op}
	total := 0
	for i := range transfers {
		b := transfers[i].Buffer
		if err := p.enterTransfer(op, b, i); err != nil {
			t.end()
			return nil, err
		}
		t.entered = append(t.entered, b)
		length := len(transfers[i].Bytes)
		t.list = append(t.list, C.weirgo_transfer{buffer: C.uintptr_t(b.handle), offset: C.uint64_t(transfers[i].Offset),
			length: C.uint64_t(length)})
		total += length
	}
	t.bytes = make([]byte, total+1)
	return t, nil
}
