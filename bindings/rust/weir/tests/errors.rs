// SPDX-License-Identifier: Apache-2.0

//! Every error that the host backend can be made to give, with its numbers. It loses no device and records no graph, so
//! that DEVICE_LOST, DATA_LOST and STREAM_CAPTURING, and INTERNAL, are not to be had here.

mod common;

use common::{machine, machine_with, pool_of, site, Site, PAGE};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir::*;

/// The error of a call that must fail as the pattern says.
macro_rules! refused {
    ($call:expr, $variant:ident) => {{
        match $call {
            Err(Error::$variant(detail)) => {
                assert!(!detail.message.is_empty());
                *detail
            }
            other => panic!("not {}: {other:?}", stringify!($variant)),
        }
    }};
}

#[test]
fn invalid_arguments_are_named() {
    let Site { pool, stream, .. } = site(4);
    let none = refused!(pool.buffer(0), InvalidArgument);
    assert!(none.message.contains("size") && none.device == Device::HOST, "{none:?}");
    assert!(refused!(ContextOptions::new().options("host.nonsense=1").open(), InvalidArgument)
        .message
        .contains("nonsense"));
    let detail = refused!(PoolOptions::new().create(&machine(1)), InvalidArgument);
    assert_eq!(detail.code, sys::WEIR_ERROR_INVALID_ARGUMENT);
    let buffer = pool.buffer(PAGE).unwrap();
    refused!(buffer.read(PAGE, &mut [0u8]), InvalidArgument);
    refused!(buffer.info_of(..=PAGE), InvalidArgument);
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 5..4;
    assert!(refused!(buffer.discard(backwards), InvalidArgument).message.contains("5..4"));
    refused!(pool.acquire(&stream, [Use::read(&buffer).range(0, PAGE + 1)]), InvalidArgument);
    refused!(pool.acquire(&stream, Vec::new()), InvalidArgument);
    refused!(pool.device_stats(Device(9)), InvalidArgument);
    refused!(compress(&[1], &CompressOptions::new().codec("nonsense")), InvalidArgument);
    // What C would cut short.
    let cut = refused!(ContextOptions::new().options("a\0b").open(), InvalidArgument);
    assert!(cut.message.contains("byte 1") && cut.device == Device::HOST, "{cut:?}");
    refused!(ClientOptions::new("\0").create(&pool), InvalidArgument);
}

#[test]
fn handles_of_another_pool_or_context_are_recognised() {
    let (here, there) = (site(4), site(4));
    let buffer = here.pool.buffer(PAGE).unwrap();
    refused!(there.pool.acquire(&there.stream, [Use::read(&buffer)]), InvalidHandle);
    refused!(here.pool.acquire(&there.stream, [Use::read(&buffer)]), InvalidHandle);
    let client = ClientOptions::new("c").create(&here.pool).unwrap();
    refused!(BufferOptions::new(PAGE).client(&client).create(&there.pool), InvalidArgument);
    refused!(Arena::new(10).unwrap().free(ArenaAllocation(12345)), InvalidHandle);
}

#[test]
fn what_is_not_possible_says_why() {
    let context = machine_with(1, "host.vmm=0");
    let options = PoolOptions::new().device(Device(0), 8 << 20).host_budget(1 << 20).page_size(PAGE);
    let pool = options.create(&context).unwrap();
    refused!(BufferOptions::new(PAGE).stable_address().create(&pool), NotSupported);
    let cpu = Stream::new(&context, Device::HOST).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    refused!(pool.prefetch(&cpu, &[Use::read(&buffer)]), NotSupported);
    refused!(cpu.native(), NotSupported);
    refused!(cpu.host_call(|| {}), NotSupported);
}

#[test]
fn a_set_that_never_fits_tells_the_bytes_short() {
    let Site { pool, stream, .. } = site(4);
    let buffers: Vec<Buffer> = (0..2).map(|_| pool.buffer(3 * PAGE).unwrap()).collect();
    let detail =
        refused!(pool.acquire(&stream, [Use::read(&buffers[0]), Use::read(&buffers[1])]), OverBudget);
    assert_eq!((detail.asked, detail.available, detail.short_by), (6 * PAGE, 4 * PAGE, 2 * PAGE));
    assert_eq!((detail.tier, detail.device), (Tier::Device, Device(0)));
    let detail = refused!(Arena::new(64).unwrap().allocate(65, 0), OverBudget);
    assert_eq!((detail.asked, detail.available), (65, 64));
}

#[test]
fn a_report_names_who_has_the_memory() {
    let Site { pool, stream, .. } = site(4);
    let named = |name: &str, pages: u64| BufferOptions::new(pages * PAGE).name(name).create(&pool).unwrap();
    let (first, second, large) = (named("first", 3), named("second", 2), named("large", 5));
    let lease = pool.acquire(&stream, [Use::read_write(&first)]).unwrap();
    let error = refused!(pool.acquire(&stream, [Use::read(&second)]), WouldBlock);
    let report = last_error_report();
    assert!(report.starts_with(&error.message) && report.contains("\"first\""), "{report}");
    assert!(report.contains("leased (1)") && report.contains("What to do: "), "{report}");
    assert_eq!(last_error_report(), report, "asking changes nothing");
    let soon = AcquireOptions::new().timeout(Duration::from_millis(1));
    refused!(pool.acquire_with(&stream, [Use::read(&second)], &soon), Timeout);
    assert!(last_error_report().contains("\"first\""));
    refused!(pool.acquire(&stream, [Use::read(&first)]), LeaseConflict);
    assert!(last_error_report().contains("\"first\""));
    drop(lease);
    let error = refused!(pool.acquire(&stream, [Use::read(&large)]), OverBudget);
    let report = last_error_report();
    assert!(report.starts_with(&error.message) && report.contains("\"first\""), "{report}");
    // Each thread has its own; that of a request is in its closure.
    assert_eq!(std::thread::spawn(last_error_report).join().unwrap(), "");
    let (tell, told) = std::sync::mpsc::channel();
    let then =
        move |outcome: Result<OwnedLease>| tell.send((outcome.map(drop), last_error_report())).unwrap();
    pool.acquire_then(&stream, [OwnedUse::read(&large)], &AcquireOptions::new(), then).unwrap();
    let (outcome, report) = told.recv().unwrap();
    assert!(
        report.starts_with(&refused!(outcome, OverBudget).message) && report.contains("\"first\""),
        "{report}"
    );
    // What no pool has refused is the sentence.
    let error = refused!(Arena::new(0), InvalidArgument);
    assert_eq!(last_error_report(), error.message + "\n");
}

#[test]
fn a_report_of_any_length_is_whole() {
    let Site { pool, stream, .. } = site(8);
    // Five lines of names of 255 bytes, each of them four as it is shown.
    let name = "\u{1}".repeat(255);
    let large = pool.buffer(9 * PAGE).unwrap();
    let buffers: Vec<Buffer> =
        (0..6).map(|_| BufferOptions::new(PAGE).name(&name).create(&pool).unwrap()).collect();
    for buffer in &buffers {
        drop(pool.acquire(&stream, [Use::discard_write(buffer)]).unwrap());
    }
    refused!(pool.acquire(&stream, [Use::read(&large)]), OverBudget);
    let report = last_error_report();
    assert!(report.len() > 5 * 4 * 255 && report.ends_with('\n'), "{report}");
    assert_eq!(report.matches("\\x01").count(), 5 * 255);
}

#[test]
fn waiting_ends_as_asked() {
    let Site { pool, stream, .. } = site(4);
    let buffers: Vec<Buffer> = (0..2).map(|_| pool.buffer(3 * PAGE).unwrap()).collect();
    let _lease = pool.acquire(&stream, [Use::read_write(&buffers[0])]).unwrap();
    refused!(pool.acquire(&stream, [Use::read(&buffers[1])]), WouldBlock);
    let soon = AcquireOptions::new().timeout(Duration::from_millis(1));
    refused!(pool.acquire_with(&stream, [Use::read(&buffers[1])], &soon), Timeout);
    let late = AcquireOptions::new().timeout(Duration::from_secs(3600));
    let request = pool.acquire_async(&stream, [OwnedUse::read(&buffers[1])], &late).unwrap();
    let request = request.wait_for(Duration::ZERO).expect_err("it waits for the lease");
    assert!(!request.is_ended());
    request.cancel().unwrap();
    refused!(request.wait(), Cancelled);
}

#[test]
fn a_request_that_failed_tells_what_the_call_would_have() {
    let Site { pool, stream, .. } = site(4);
    let small = pool.buffer(PAGE).unwrap();
    let large = pool.buffer(6 * PAGE).unwrap();
    let options = AcquireOptions::new();
    let at_once =
        refused!(pool.acquire_with(&stream, [Use::read(&small), Use::read(&large)], &options), OverBudget);
    let uses = || [OwnedUse::read(&small), OwnedUse::read(&large)];
    let waited = refused!(pool.acquire_async(&stream, uses(), &options).unwrap().wait(), OverBudget);
    assert_eq!(waited, at_once);
    assert_eq!((waited.asked, waited.short_by), (7 * PAGE, 3 * PAGE));
    let (tell, told) = std::sync::mpsc::channel();
    let then = move |outcome: Result<OwnedLease>| tell.send(outcome.map(drop)).unwrap();
    pool.acquire_then(&stream, uses(), &options, then).unwrap();
    assert_eq!(refused!(told.recv().unwrap(), OverBudget), at_once);

    let _reading = pool.acquire(&stream, [Use::read(&small)]).unwrap();
    let uses = [OwnedUse::read_write(&small)];
    let conflict = refused!(pool.acquire_async(&stream, uses, &options).unwrap().wait(), LeaseConflict);
    assert_eq!(conflict.use_index, Some(0));
    assert_eq!(conflict, refused!(pool.acquire(&stream, [Use::read_write(&small)]), LeaseConflict));
}

#[test]
fn conflicts_name_the_use() {
    let Site { pool, stream, .. } = site(8);
    let buffers: Vec<Buffer> = (0..2).map(|_| pool.buffer(PAGE).unwrap()).collect();
    let lease = pool.acquire(&stream, [Use::read(&buffers[1])]).unwrap();
    let uses = [Use::read(&buffers[0]), Use::read_write(&buffers[1])];
    assert_eq!(refused!(pool.acquire(&stream, uses), LeaseConflict).use_index, Some(1));
    refused!(buffers[1].write(0, &[1u8]), LeaseConflict);
    drop(lease);
    drop(pool.acquire(&stream, uses).unwrap());
}

#[test]
fn what_is_in_use_is_busy() {
    let context = machine(2);
    let pool = pool_of(&context, 8);
    let memory = pool.malloc(Device(1), None, PAGE).unwrap();
    refused!(pool.remove_device(Device(1), None), Busy);
    drop(memory);
    let stream = Stream::new(&context, Device(1)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    std::mem::forget(pool.acquire(&stream, [Use::read(&buffer)]).unwrap());
    refused!(buffer.close(), Busy);
    refused!(stream.close(), Busy);
    refused!(pool.close(), Busy);
    refused!(context.close(), Busy);
}

#[test]
fn a_refusal_of_the_runtime_is_told_as_one() {
    let context = ContextOptions::new()
        .options("host.memory=256K;host.granule=64K;host.granule_large=0")
        .no_search()
        .open()
        .unwrap();
    let pool =
        PoolOptions::new().device(Device(0), 64 * PAGE).host_budget(16 << 20).create(&context).unwrap();
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(16 * PAGE).unwrap();
    let detail = refused!(pool.acquire(&stream, [Use::discard_write(&buffer)]), DeviceOom);
    assert_eq!(detail.device, Device(0));
}

#[test]
fn devices_that_are_leaving_are_refused() {
    let context = machine(2);
    let pool = pool_of(&context, 8);
    let stream = Stream::new(&context, Device(1)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    refused!(pool.cancel_remove(Device(1)), InvalidArgument);
    let lease = pool.acquire(&stream, [Use::read(&buffer)]).unwrap();
    refused!(pool.remove_device(Device(1), Some(Duration::ZERO)), Timeout);
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| pool.remove_device(Device(1), None));
        while pool.device_stats(Device(1)).unwrap().state != DeviceState::Leaving {
            std::thread::yield_now();
        }
        refused!(pool.acquire(&stream, [Use::read(&buffer)]), DeviceRemoved);
        pool.cancel_remove(Device(1)).unwrap();
        refused!(removal.join().unwrap(), Cancelled);
    });
    drop(lease);
    drop(pool.acquire(&stream, [Use::read(&buffer)]).unwrap());
}

#[test]
fn corrupt_blobs_are_recognised() {
    let mut blob = compress(&[7; 100_000], &CompressOptions::new()).unwrap();
    let last = blob.len() - 1;
    blob[last] ^= 1;
    refused!(decompress(&blob), Corrupt);
    refused!(compressed_info(&blob[..10]), Corrupt);
}

#[test]
fn files_that_can_not_be_made_tell_errno() {
    let options = PoolOptions::new().device(Device(0), 8 * PAGE).host_budget(1 << 20);
    let detail = refused!(options.storage(1 << 20, &["/nowhere/at/all"]).create(&machine(1)), Io);
    assert_eq!(detail.native_code, 2, "ENOENT");
}

#[test]
fn a_library_that_is_no_backend_is_refused() {
    refused!(ContextOptions::new().no_search().backend_path("/nowhere/libnothing.so").open(), Backend);
}

static REFUSE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn allocate(_: *mut std::ffi::c_void, size: usize, align: usize) -> *mut std::ffi::c_void {
    if REFUSE.load(Ordering::SeqCst) {
        return std::ptr::null_mut();
    }
    // SAFETY: sizes and alignments are Weir's, and the size is not 0.
    unsafe { std::alloc::alloc(std::alloc::Layout::from_size_align(size.max(1), align).unwrap()).cast() }
}

unsafe extern "C" fn deallocate(
    _: *mut std::ffi::c_void,
    memory: *mut std::ffi::c_void,
    size: usize,
    align: usize,
) {
    // SAFETY: it is of `allocate`, with this size and alignment.
    unsafe {
        std::alloc::dealloc(memory.cast(), std::alloc::Layout::from_size_align(size.max(1), align).unwrap());
    }
}

#[test]
fn an_allocator_that_refuses_is_told() {
    let allocator = sys::weir_allocator {
        allocate: Some(allocate),
        deallocate: Some(deallocate),
        user: std::ptr::null_mut(),
        reserved: [std::ptr::null_mut(); 3],
    };
    let options =
        ContextOptions::new().options("host.memory=64M;host.granule=64K;host.granule_large=0").no_search();
    // SAFETY: both functions may be called from any thread, and do not call Weir.
    let context = unsafe { options.allocator(allocator) }.open().unwrap();
    let pool = pool_of(&context, 8);
    REFUSE.store(true, Ordering::SeqCst);
    let refused = (0..100_000).map(|_| pool.buffer(PAGE)).find(Result::is_err);
    REFUSE.store(false, Ordering::SeqCst);
    refused!(refused.expect("it runs out of records"), OutOfHostMemory);
    pool.buffer(PAGE).unwrap();
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[test]
fn a_child_of_fork_is_refused() {
    let Site { pool, .. } = site(4);
    // SAFETY: the child makes one call, allocates for its error at most, and exits without running anything of the parent's.
    unsafe {
        let child = fork();
        if child == 0 {
            // The number alone: another thread may hold the allocator's lock, so that an `Error` can't be made here.
            let mut stats: sys::weir_pool_stats = sys::Init::INIT;
            let result = sys::weir_pool_stats_get(pool.as_raw(), &mut stats);
            _exit(if result == sys::WEIR_ERROR_FORKED { 42 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &mut status, 0), child);
        assert_eq!(status >> 8, 42);
    }
}

#[test]
fn errors_are_errors() {
    fn is_error<T: std::error::Error + Send + Sync + 'static>(_: &T) {}
    let error = Arena::new(0).unwrap_err();
    is_error(&error);
    assert_eq!(error.code(), sys::WEIR_ERROR_INVALID_ARGUMENT);
    assert!(error.to_string().starts_with("invalid argument: "), "{error}");
    assert_eq!(error.detail().message, error.message());
    assert_eq!(error.clone(), error);
    assert_eq!(std::mem::size_of::<Result<(), Error>>(), 16);
}

#[test]
fn an_error_is_that_of_its_own_call() {
    let Site { pool, .. } = site(4);
    let first = pool.buffer(0).unwrap_err();
    let elsewhere = std::thread::spawn(|| Arena::new(0).unwrap_err()).join().unwrap();
    let second = Arena::new(64).unwrap().allocate(65, 0).unwrap_err();
    assert!(
        first.message().contains("size") && elsewhere.code() == first.code() && second.code() != first.code()
    );
    assert_eq!(first.detail().use_index, None);
}
