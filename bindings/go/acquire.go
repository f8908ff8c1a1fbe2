// SPDX-License-Identifier: Apache-2.0

package weir

// Acquiring. The first try is one call in the caller's goroutine, which waits for no lease. Only what has to wait for
// leases of others goes to the pool's thread, where ctx can end it. That thread takes one request at a time and would
// not look at one that is cancelled behind it, so goroutines queue here, where a ctx ends the queueing at once. Whatever
// the outcome, an acquire that answers an error holds nothing, and no callback of it is under way.

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"runtime/cgo"
	"time"
)

// AcquireOptions are all optional.
type AcquireOptions struct {
	// Timeout bounds the waiting, beside ctx: ErrTimeout.
	Timeout time.Duration
	// SoleHolder is the caller's word that it holds no other lease, and that no thread waits for one it holds, so that waiting
	// without a bound can't deadlock. It lets a ctx that never ends wait.
	SoleHolder bool
	// Operation is a name for the policy to learn from. The pool's number of it is looked up; see [Pool.OperationID].
	Operation string
	// OperationID is the number of a name, and taken in its place; 0 is none.
	OperationID uint32
}

// Acquire acquires a set of uses on a stream, all or nothing. If it would fit once leases of others are released, it waits
// for that until ctx ends: the error is then ctx.Err() (and [ErrCancelled] or [ErrTimeout]), and nothing is held. A ctx
// that never ends, as context.Background(), does not wait, since nothing could end a deadlock: [ErrWouldBlock]. ctx does not
// interrupt copies that make room. Waiting acquires of one pool are served in their order.
func (p *Pool) Acquire(ctx context.Context, stream *Stream, uses ...Use) (Lease, error) {
	if ctx.Err() != nil {
		return Lease{}, ended("acquire", ctx)
	}
	if len(uses) != 1 {
		return p.acquire(ctx, stream, nil, uses)
	}
	lease, err := p.acquireNow(stream, uses)
	if err != nil && mayWait(ctx, nil) && errors.Is(err, ErrWouldBlock) {
		return p.acquire(ctx, stream, nil, uses)
	}
	return lease, err
}

// AcquireWith is [Pool.Acquire] with options.
func (p *Pool) AcquireWith(ctx context.Context, stream *Stream, options AcquireOptions, uses ...Use) (Lease, error) {
	return p.acquire(ctx, stream, &options, uses)
}

// TryAcquire is [Pool.Acquire] that waits for no lease: [ErrWouldBlock].
func (p *Pool) TryAcquire(stream *Stream, uses ...Use) (Lease, error) {
	return p.acquireNow(stream, uses)
}

// Do acquires, calls work with the lease, and releases it, also if work panics. It answers work's error, else the release's.
func (p *Pool) Do(ctx context.Context, stream *Stream, work func(Lease) error, uses ...Use) (err error) {
	lease, err := p.Acquire(ctx, stream, uses...)
	if err != nil {
		return err
	}
	defer func() {
		if released := lease.Release(); err == nil && !errors.Is(released, ErrClosed) {
			err = released
		}
	}()
	return work(lease)
}

func (p *Pool) acquire(ctx context.Context, stream *Stream, options *AcquireOptions, uses []Use) (Lease, error) {
	const op = "acquire"
	if ctx.Err() != nil {
		return Lease{}, ended(op, ctx)
	}
	if options != nil && options.Timeout < 0 {
		return Lease{}, refused(op, ErrInvalidArgument, "Timeout is %v", options.Timeout)
	}
	var operation C.uint32_t
	if options != nil {
		var err error
		if operation, err = p.operationNumber(op, options.Operation, options.OperationID); err != nil {
			return Lease{}, err
		}
	}
	s, err := begin(op, p, stream, uses)
	if err != nil {
		return Lease{}, err
	}
	s.operation = operation
	C.weirgo_acquire_set(s.one, &s.uses[0], C.size_t(len(s.uses)), operation)
	if s.one.error != 0 {
		err := oneError(op, s.one)
		if errors.Is(err, ErrWouldBlock) && mayWait(ctx, options) {
			err = reported(s.await(ctx, options), err)
		}
		if err != nil {
			s.recycle()
			return Lease{}, err
		}
	}
	s.stack = callerStack(2)
	return Lease{s, s.generation.Load()}, nil
}

func mayWait(ctx context.Context, options *AcquireOptions) bool {
	return ctx.Done() != nil || options != nil && (options.Timeout > 0 || options.SoleHolder)
}

// grant is how an acquire on the pool's thread has ended.
type grant struct {
	lease uintptr
	err   error
}

// A bound that is none: the context is one. The library takes a real infinity from sole holders only.
const boundedByContext = 1 << 62

// await is the acquire of s on the pool's thread. It has ended, whatever it answers, when this returns.
func (s *leaseState) await(ctx context.Context, options *AcquireOptions) error {
	if options == nil {
		options = &AcquireOptions{}
	}
	wait := ctx
	if options.Timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, options.Timeout)
		defer cancel()
		wait = bounded
	}
	select {
	case s.pool.turn <- struct{}{}:
	case <-wait.Done():
		return endedOrTimeout(ctx, options)
	}
	defer func(turn chan struct{}) { <-turn }(s.pool.turn)
	got, interrupted := s.request(wait, options)
	if !interrupted {
		s.one.lease = C.uintptr_t(got.lease)
		return got.err
	}
	if got.err == nil {
		// The grant came when ctx had ended: the caller is told the latter, and holds nothing.
		_ = failed("release", C.weirgo_release(C.uintptr_t(got.lease), C.uintptr_t(s.stream.handle)))
	} else if !errors.Is(got.err, ErrCancelled) {
		return got.err
	}
	return endedOrTimeout(ctx, options)
}

// request submits, waits for the end, and tells whether ctx had to be asked for it.
func (s *leaseState) request(ctx context.Context, options *AcquireOptions) (got grant, interrupted bool) {
	var flags, timeout C.uint64_t = 0, boundedByContext
	if options.SoleHolder {
		flags, timeout = C.WEIR_ACQUIRE_SOLE_HOLDER, C.WEIR_INFINITE
	}
	done := make(chan grant, 1)
	waiter := cgo.NewHandle(done)
	defer waiter.Delete()
	var request *C.weirgo_request
	e := C.weirgo_acquire_async(C.uintptr_t(s.pool.handle), C.uintptr_t(s.stream.handle), &s.uses[0],
		C.size_t(len(s.uses)), s.operation, flags, timeout, C.uintptr_t(waiter), &request)
	if e != nil {
		return grant{err: failed("acquire", e)}, false
	}
	select {
	case got = <-done:
	case <-ctx.Done():
		interrupted = true
		C.weirgo_request_cancel(request)
		got = <-done
	}
	C.weirgo_request_end(request, &s.uses[0])
	return got, interrupted
}

// reported is err with the report of the refusal that was waited after, where it is a timeout, which has none of its own.
func reported(err, refusal error) error {
	var late, first *Error
	if errors.As(err, &late) && errors.As(refusal, &first) && late.Result == ErrTimeout && late.Report == "" {
		late.Report = first.Report
	}
	return err
}

func endedOrTimeout(ctx context.Context, options *AcquireOptions) error {
	if ctx.Err() != nil {
		return ended("acquire", ctx)
	}
	return refused("acquire", ErrTimeout, "leases of others were not released within %v", options.Timeout)
}
