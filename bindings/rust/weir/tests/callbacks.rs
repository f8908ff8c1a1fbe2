// SPDX-License-Identifier: Apache-2.0

//! A panic in a callback ends there: in each callback that C can be given. (That for lost devices has its test beside its
//! code: the host backend loses none.)

mod common;

use common::{pool_of, site, Site, PAGE};
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;
use weir::*;

/// A panic whose payload panics again when it is dropped.
struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        panic!("again");
    }
}

fn panicked<T: std::fmt::Debug>(result: Result<T>, text: &str) {
    match result {
        Err(error @ Error::Panicked(_)) => {
            assert_eq!((error.message(), error.code()), (text, 0));
            assert_eq!(error.to_string(), format!("a callback has panicked: {text}"));
        }
        other => panic!("no panic: {other:?}"),
    }
}

#[test]
fn in_the_log() {
    let context = ContextOptions::new()
        .options("host.devices=2;host.memory=64M")
        .no_search()
        .log(|_, line| panic!("{line}"))
        .open()
        .unwrap();
    pool_of(&context, 64).remove_device(Device(1), None).unwrap();
    assert!(context.log_panics() > 0);
}

#[test]
fn in_a_function_of_a_stream() {
    let Site { stream, .. } = site(4);
    stream.host_call(|| panic!("in the stream")).unwrap();
    panicked(stream.synchronize(), "in the stream");
    stream.synchronize().unwrap();
    stream.host_call(|| std::panic::panic_any(Twice)).unwrap();
    panicked(stream.synchronize(), "a panic without a text");
    let number = 5;
    stream.host_call(move || panic!("number {number}")).unwrap();
    while !matches!(stream.is_idle(), Err(Error::Panicked(_))) {
        std::thread::yield_now();
    }
}

#[test]
fn in_the_drop_of_what_a_function_owns() {
    let Site { stream, .. } = site(4);
    let owned = Twice;
    stream.host_call(move || drop(owned)).unwrap();
    panicked(stream.synchronize(), "again");
}

#[test]
fn in_a_function_on_the_bytes_of_a_lease() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let mut lease = pool.acquire(&stream, [Use::discard_write(&buffer)]).unwrap();
    lease.host_call(|views| views[0].slice_mut::<u8>().unwrap()[PAGE as usize] = 1).unwrap();
    assert!(matches!(lease.slice::<u8>(0), Err(Error::Panicked(_))), "it waits for the stream, which tells");
    lease.slice_mut::<u8>(0).unwrap()[0] = 1;
    lease.release().unwrap();
}

#[test]
fn in_what_an_acquire_calls() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let options = AcquireOptions::new();
    pool.acquire_then(&stream, [OwnedUse::read_write(&buffer)], &options, |_| panic!("granted")).unwrap();
    // Requests run in order: when this one has ended, so has the other, and its lease is released.
    let lease =
        pool.acquire_async(&stream, [OwnedUse::read_write(&buffer)], &options).unwrap().wait().unwrap();
    assert_eq!(pool.callback_panics(), 1);
    drop(lease);
}

#[test]
fn in_what_defragmentation_asks() {
    let Site { pool, stream, .. } = site(32);
    let mut small: Vec<Buffer> = (0..128).map(|_| pool.buffer(8000).unwrap()).collect();
    for buffer in &small {
        drop(pool.acquire(&stream, [Use::discard_write(buffer)]).unwrap());
    }
    stream.synchronize().unwrap();
    let mut number = 0;
    small.retain(|_| {
        number += 1;
        number % 4 == 0
    });
    panicked(
        pool.defragment_until(&DefragmentOptions::new().max_cost_permille(4000), || panic!("stop")),
        "stop",
    );
    pool.defragment(&DefragmentOptions::new()).unwrap();
}

#[test]
fn in_a_walk() {
    let mut arena = Arena::new(64).unwrap();
    panicked(arena.walk(|_| panic!("walked")), "walked");
    arena.allocate(1, 0).unwrap();
    arena.walk(|_| ControlFlow::Continue(())).unwrap();
}

#[test]
fn the_last_handle_may_go_in_a_callback() {
    // Of the log's closure: it goes when the context has ended, which is after the pool.
    let alive = Arc::new(());
    let logs = Arc::clone(&alive);
    let options =
        ContextOptions::new().options("host.memory=64M;host.granule=64K;host.granule_large=0").no_search();
    let context = options.log(move |_, _| assert!(Arc::strong_count(&logs) > 0)).open().unwrap();
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    let (go, wait) = channel::<()>();
    let then = move |lease: Result<OwnedLease>| {
        wait.recv().unwrap();
        drop(lease.unwrap()); // with it the last of buffer, stream, pool and context
    };
    pool.acquire_then(&stream, [OwnedUse::read(&buffer)], &AcquireOptions::new(), then).unwrap();
    drop((buffer, stream, pool, context));
    assert_eq!(Arc::strong_count(&alive), 2);
    go.send(()).unwrap();
    until_it_ends(&alive);
}

/// The end is left to another thread: waits for the log's closure to go, which is the last to.
fn until_it_ends(alive: &Arc<()>) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(alive) > 1 {
        assert!(std::time::Instant::now() < deadline, "the pool has not ended");
        std::thread::yield_now();
    }
}

#[test]
fn a_pool_is_not_closed_by_a_thread_of_its_own() {
    let alive = Arc::new(());
    let logs = Arc::clone(&alive);
    let context = ContextOptions::new()
        .options("host.memory=64M;host.granule=64K;host.granule_large=0")
        .no_search()
        .log(move |_, _| assert!(Arc::strong_count(&logs) > 0))
        .open()
        .unwrap();
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    let (go, wait) = channel::<Pool>();
    let (tell, told) = channel();
    let then = move |lease: Result<OwnedLease>| {
        let pool = wait.recv().unwrap();
        drop(lease.unwrap()); // now there is no other handle of the pool
        tell.send(pool.close()).unwrap();
    };
    pool.acquire_then(&stream, [OwnedUse::read(&buffer)], &AcquireOptions::new(), then).unwrap();
    drop((buffer, stream, context));
    go.send(pool).unwrap();
    match told.recv().unwrap() {
        Err(Error::Busy(detail)) => assert!(detail.message.contains("callback"), "{}", detail.message),
        other => panic!("not busy: {other:?}"),
    }
    until_it_ends(&alive);
}

#[test]
fn what_is_told_of_a_failure_has_nothing_left_of_the_uses() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(8 * PAGE).unwrap();
    let (go, wait) = channel::<Buffer>();
    let (tell, told) = channel();
    let then = move |lease: Result<OwnedLease>| {
        let refused = lease.map(drop);
        tell.send((refused, wait.recv().unwrap().close())).unwrap();
    };
    pool.acquire_then(&stream, [OwnedUse::read(&buffer)], &AcquireOptions::new(), then).unwrap();
    go.send(buffer).unwrap();
    let (refused, closed) = told.recv().unwrap();
    assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
    closed.unwrap();
}

#[test]
fn what_a_callback_owns_is_dropped_with_it() {
    let owned = Arc::new(());
    {
        let Site { pool, stream, .. } = site(4);
        let (in_loss, in_host_call) = (Arc::clone(&owned), Arc::clone(&owned));
        pool.on_device_loss(move |loss| println!("{loss:?} {in_loss:?}")).unwrap();
        let another = Arc::clone(&owned);
        pool.on_device_loss(move |loss| println!("{loss:?} {another:?}")).unwrap();
        stream.host_call(move || drop(in_host_call)).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(Arc::strong_count(&owned), 2, "the second of the callbacks for losses has the other one");
        pool.no_device_loss_callback().unwrap();
        assert_eq!(Arc::strong_count(&owned), 1);
        let third = Arc::clone(&owned);
        pool.on_device_loss(move |loss| println!("{loss:?} {third:?}")).unwrap();
        let cpu = Stream::new(&pool.context().unwrap(), Device::HOST).unwrap();
        let not_enqueued = Arc::clone(&owned);
        assert!(cpu.host_call(move || drop(not_enqueued)).is_err());
    }
    assert_eq!(Arc::strong_count(&owned), 1);
}
