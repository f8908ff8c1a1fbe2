// SPDX-License-Identifier: Apache-2.0

//! What may cross threads, asserted by the compiler, and what happens when many use one pool.

mod common;

use common::{machine, pool_of, PAGE};
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake};
use std::time::Duration;
use weir::*;

// Older compilers do not see that constants use them.
#[allow(dead_code)]
const fn send<T: Send>() {}
#[allow(dead_code)]
const fn sync<T: Sync>() {}
#[allow(dead_code)]
const fn movable<T: Unpin>() {}

macro_rules! both {
    ($($name:ty),* $(,)?) => { $(const _: () = { send::<$name>(); sync::<$name>(); };)* };
}

both! {
    AcquireOptions, Advice, Allocation, ArenaReport, ArenaStats, BackendInfo, BackgroundDefragmentation, Buffer, BufferInfo,
    BufferOptions, CalibrateOptions, CalibrateReport, Client, ClientOptions, ClientStats, CompressOptions, Context,
    DefragmentOptions, DefragmentReport, Detail, DeviceInfo, DeviceLoss, Error, Hold<'static>,
    Lease<'static, [Use<'static>; 2]>, Lease<'static, Vec<Use<'static>>>, Lease<'static, &'static mut [Use<'static>]>,
    LinkInfo, LostRange, Operation<'static>, OwnedLease, OwnedUse, OwnedUses, Piece, Pool, PoolDeviceStats, PoolOptions,
    PoolStats, Request, Shard, ShardLayout, Stream, Use<'static>, View<'static>,
}
const _: () = {
    send::<Arena>();
    send::<ContextOptions>();
    movable::<Request>();
};

/// Fails to compile if `Arena` becomes `Sync`: there would be two implementations to choose from.
trait NotSync<Which> {
    fn check() {}
}
struct WhenSync;
impl<T: ?Sized> NotSync<()> for T {}
impl<T: ?Sized + Sync> NotSync<WhenSync> for T {}

#[test]
fn arenas_are_not_shared() {
    <Arena as NotSync<_>>::check();
}

#[test]
fn many_threads_count_in_one_pool() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 50;
    let context = machine(2);
    // So little that they are in each other's way.
    let pool = pool_of(&context, 3);
    let buffers: Vec<Buffer> = (0..8).map(|_| pool.buffer(PAGE).unwrap()).collect();
    let patient = AcquireOptions::new().timeout(Duration::from_secs(60));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (context, pool, buffers, patient) = (&context, &pool, &buffers, &patient);
            scope.spawn(move || {
                let device = if thread % 4 == 3 { Device::HOST } else { Device((thread % 2) as u32) };
                let stream = Stream::new(context, device).unwrap();
                for round in 0..ROUNDS {
                    let buffer = &buffers[((thread * 3 + round) % 8) as usize];
                    let mut lease = loop {
                        match pool.acquire_with(&stream, [Use::read_write(buffer)], patient) {
                            Ok(lease) => break lease,
                            Err(Error::LeaseConflict(_)) => std::thread::yield_now(),
                            Err(other) => panic!("{other}"),
                        }
                    };
                    if device == Device::HOST {
                        lease.slice_mut::<u64>(0).unwrap()[0] += 1;
                    } else {
                        lease.host_call(|views| views[0].slice_mut::<u64>().unwrap()[0] += 1).unwrap();
                    }
                }
                stream.synchronize().unwrap();
            });
        }
    });
    let count = |buffer: &Buffer| {
        let mut word = [0u64];
        buffer.read(0, &mut word).unwrap();
        word[0]
    };
    assert_eq!(buffers.iter().map(count).sum::<u64>(), THREADS * ROUNDS);
}

#[test]
fn a_lease_is_released_by_another_thread() {
    let context = machine(1);
    let pool = pool_of(&context, 4);
    let (stream, buffer) = (Stream::new(&context, Device(0)).unwrap(), pool.buffer(PAGE).unwrap());
    std::thread::scope(|scope| {
        let lease = pool.acquire(&stream, [Use::read_write(&buffer)]).unwrap();
        scope.spawn(move || drop(lease)).join().unwrap();
        drop(pool.acquire(&stream, [Use::read_write(&buffer)]).unwrap());
    });
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = TaskContext::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn requests_are_futures() {
    let context = machine(1);
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffers: Vec<Buffer> = (0..2).map(|_| pool.buffer(3 * PAGE).unwrap()).collect();
    let patient = AcquireOptions::new().timeout(Duration::from_secs(60));
    let first = pool.acquire(&stream, [Use::read_write(&buffers[0])]).unwrap();
    let request = pool.acquire_async(&stream, [OwnedUse::read_write(&buffers[1])], &patient).unwrap();
    let waiting = std::thread::spawn(move || {
        block_on(async move {
            let lease = request.await?;
            lease.slice::<u8>(0).map(<[u8]>::len)
        })
    });
    drop(first);
    assert_eq!(waiting.join().unwrap().unwrap() as u64, 3 * PAGE);
}

#[test]
fn a_request_has_one_outcome() {
    let context = machine(1);
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    let polled = || {
        let uses = [OwnedUse::read(&buffer)];
        let mut request = pool.acquire_async(&stream, uses, &AcquireOptions::new()).unwrap();
        drop(block_on(&mut request).unwrap());
        request
    };
    let message = |panic: Box<dyn std::any::Any + Send>| *panic.downcast::<String>().unwrap();
    let request = polled();
    let told = catch_unwind(AssertUnwindSafe(|| drop(request.wait_for(Duration::ZERO)))).unwrap_err();
    assert_eq!(message(told), "a request was waited for after it was ready");
    let request = polled();
    let told = catch_unwind(AssertUnwindSafe(|| drop(request.wait()))).unwrap_err();
    assert_eq!(message(told), "a request was waited for after it was ready");
}

#[test]
fn a_request_keeps_its_pool() {
    let context = machine(1);
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    let mut request = pool.acquire_async(&stream, [OwnedUse::read(&buffer)], &AcquireOptions::new()).unwrap();
    drop(block_on(&mut request).unwrap());
    buffer.close().unwrap();
    assert!(matches!(pool.close(), Err(Error::Busy(_))));
    request.cancel().unwrap();
    drop(request);
    stream.close().unwrap();
    context.close().unwrap();
}

#[test]
fn a_request_that_is_dropped_gives_its_lease_back() {
    let context = machine(1);
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffers: Vec<Buffer> = (0..2).map(|_| pool.buffer(3 * PAGE).unwrap()).collect();
    let patient = AcquireOptions::new().timeout(Duration::from_secs(3600));
    for granted in [false, true] {
        let lease = pool.acquire(&stream, [Use::read_write(&buffers[0])]).unwrap();
        let request = pool.acquire_async(&stream, [OwnedUse::read_write(&buffers[1])], &patient).unwrap();
        if granted {
            drop(lease);
            while !request.is_ended() {
                std::thread::yield_now();
            }
            drop(request);
        } else {
            drop(request);
            drop(lease);
        }
        // Requests run in order, so that the one dropped has ended when this one has.
        let after = pool.acquire_async(&stream, [OwnedUse::read_write(&buffers[1])], &patient).unwrap();
        after.wait().unwrap().release().unwrap();
    }
    let held_by = buffers[1].info().unwrap().leases;
    assert_eq!(held_by, 0);
}
