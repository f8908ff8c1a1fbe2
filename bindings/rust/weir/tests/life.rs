// SPDX-License-Identifier: Apache-2.0

//! The life of every object, from its making to its end, and what each of its functions is for.

mod common;

use common::{machine, machine_with, pool_of, site, Site, PAGE};
use std::ffi::CString;
use std::time::Duration;
use weir::*;

#[test]
fn contexts_know_backends_devices_and_links() {
    let context = machine_with(2, "host.links=0-1:nvlink:150G:1:700;host.names=left,right");
    assert_eq!(context.device_count().unwrap(), 2);
    assert_eq!(context.backend_count().unwrap() as usize, context.backends().unwrap().len());
    let host = context.backend(0).unwrap();
    assert!(
        host.available && host.name == "host" && host.path == "built-in" && host.device_count == 2,
        "{host:?}"
    );
    let devices = context.devices().unwrap();
    assert_eq!(devices[1].name, "right");
    assert_eq!(context.find_device("gpu, host:1").unwrap(), Device(1));
    let refused = |wish: &str, words: &str| match context.find_device(wish) {
        Err(Error::InvalidArgument(why)) => assert!(why.message.contains(words), "{why:?}"),
        other => panic!("{wish:?}: {other:?}"),
    };
    refused("gpu", "host:0, host:1");
    refused("host\0:1", "wish");
    assert!(
        devices[0].capabilities.has(Capabilities::VMM)
            && devices[0].capabilities.has(Capabilities::HOST_ACCESS)
    );
    assert_eq!(
        (devices[0].memory_total, devices[0].granule, devices[0].partition_count),
        (64 << 20, PAGE, 1)
    );
    let link = context.link(Device(0), Device(1)).unwrap();
    assert_eq!((link.kind, link.bandwidth, link.hops), (LinkKind::Nvlink, 150_000_000_000, 1));
    assert_eq!((link.latency, link.direct), (Duration::from_nanos(700), true));
    assert_eq!((link.kind.to_string(), link.source.to_string()), ("nvlink".into(), "backend".into()));
    assert_eq!(context.link(Device::HOST, Device(0)).unwrap().shared_with, 1);
    context.close().unwrap();
}

#[test]
fn contexts_without_the_host_backend_have_no_device() {
    let context = ContextOptions::new().no_host_backend().no_search().options("").open().unwrap();
    assert_eq!(context.device_count().unwrap(), 0);
}

#[test]
fn topology_is_told_and_measured() {
    let context = machine(1);
    assert!(context.topology(TopologyFormat::Json).unwrap().trim_start().starts_with('{'));
    assert!(context.topology(TopologyFormat::Svg).unwrap().contains("<svg"));
    assert!(!context.topology(TopologyFormat::Text).unwrap().is_empty());
    let options = CalibrateOptions::new().no_cache().max_time(Duration::from_millis(50)).max_bytes(128 << 10);
    let report = context.calibrate(&options).unwrap();
    assert_eq!((report.measured + report.skipped, report.failed, report.saved), (2, 0, 0));
    assert!(report.folder.is_empty() && report.elapsed > Duration::ZERO);
    let none = context.calibrate(&options.max_time(Duration::ZERO)).unwrap();
    assert!(none.skipped > 0, "no time is not the 5 s of a call that names none: {none:?}");
}

#[test]
fn lines_of_the_log_come_to_the_closure() {
    let (send, lines) = std::sync::mpsc::channel();
    let send = std::sync::Mutex::new(send);
    let context = ContextOptions::new()
        .options("host.devices=2;host.memory=64M")
        .no_search()
        .log(move |level, line| drop(send.lock().unwrap().send((level, line.to_owned()))))
        .open()
        .unwrap();
    let pool = pool_of(&context, 64);
    pool.remove_device(Device(1), None).unwrap();
    let lines: Vec<_> = lines.try_iter().collect();
    let told = (LogLevel::Info, "pool \"pool\": device 1 has left the pool".to_owned());
    assert!(lines.contains(&told), "{lines:?}");
    assert_eq!(context.log_panics(), 0);
}

#[test]
fn bytes_go_in_and_come_out_and_are_where_they_are_said_to_be() {
    let Site { pool, stream, .. } = site(4);
    let buffer = BufferOptions::new(2 * PAGE).tag(77).priority(Priority::High).create(&pool).unwrap();
    let info = buffer.info().unwrap();
    assert_eq!((info.size, info.tag, info.pages, info.unwritten_bytes), (2 * PAGE, 77, 2, 2 * PAGE));
    assert_eq!((info.home, info.priority), (Device(0), Priority::High));
    buffer.write(8, &[1u64, 2, 3]).unwrap();
    let mut words = [9u64; 5];
    buffer.read(0, &mut words).unwrap();
    assert_eq!(words, [0, 1, 2, 3, 0]);
    assert_eq!(buffer.info_of(PAGE..).unwrap().unwritten_bytes, PAGE);
    drop(pool.acquire(&stream, [Use::read(&buffer)]).unwrap());
    assert_eq!(buffer.info_of(..PAGE).unwrap().device_bytes, PAGE);
    buffer.discard(..).unwrap();
    buffer.read(0, &mut words).unwrap();
    assert_eq!(words, [0; 5]);
    for advice in [Advice::Cold, Advice::Streaming, Advice::WillNeed, Advice::Normal] {
        buffer.advise(0..=PAGE - 1, advice).unwrap();
    }
    buffer.set_priority(Priority::Lowest).unwrap();
    assert_eq!(buffer.info().unwrap().priority, Priority::Lowest);
    buffer.read::<u8>(0, &mut []).unwrap();
    buffer.write::<u8>(0, &[]).unwrap();
    assert_eq!(buffer.pool().as_raw(), pool.as_raw());
    buffer.close().unwrap();
}

#[test]
fn more_buffers_than_the_device_holds() {
    let Site { pool, stream, cpu, .. } = site(3);
    let buffers: Vec<Buffer> = (0..8).map(|_| pool.buffer(PAGE).unwrap()).collect();
    for (number, buffer) in buffers.iter().enumerate() {
        let mut lease = pool.acquire(&stream, vec![Use::discard_write(buffer)]).unwrap();
        lease.host_call(move |views| views[0].slice_mut::<u32>().unwrap().fill(number as u32)).unwrap();
        lease.release().unwrap();
    }
    for (number, buffer) in buffers.iter().enumerate() {
        let lease = pool.acquire(&cpu, [Use::read(buffer)]).unwrap();
        assert!(lease.slice::<u32>(0).unwrap().iter().all(|&word| word == number as u32));
    }
    let stats = pool.stats().unwrap();
    assert_eq!((stats.buffers, stats.device_budget), (8, 3 * PAGE));
    assert!(stats.demoted_bytes >= 5 * PAGE && stats.device_peak_bytes <= 3 * PAGE, "{stats:?}");
    let device = pool.device_stats(Device(0)).unwrap();
    assert_eq!((device.budget, device.page_size, device.state), (3 * PAGE, PAGE, DeviceState::Present));
    pool.reset_peak(Device(0)).unwrap();
    assert!(pool.snapshot().unwrap().contains("\"buffers\""));
    let pieces = pool.map().unwrap();
    let of_first = |piece: &&Piece| piece.buffer == buffers[0].as_raw() && piece.tier == Tier::Host;
    assert_eq!(pieces.iter().filter(of_first).map(|piece| piece.bytes).sum::<u64>(), PAGE, "{pieces:?}");
    assert!(pool.lost_ranges().unwrap().is_empty());
    assert!(pool.trim(Device(0), Trim::Emergency, u64::MAX).unwrap() > 0);
    assert_eq!(pool.device_stats(Device(0)).unwrap().bytes, 0);
}

#[test]
fn lower_tiers_and_their_codec() {
    let context = machine(1);
    let folder = std::env::temp_dir();
    let pool = PoolOptions::new()
        .device(Device(0), 2 * PAGE)
        .host_budget(8 * PAGE)
        .compressed_budget(1 << 20)
        .storage(4 << 20, &[folder.to_str().unwrap()])
        .compress_threads(1, 100)
        .codec("auto")
        .policy("lru-window")
        .name("tiers")
        .checksum_host()
        .buffered_storage()
        .no_io_uring()
        .watermarks(10, 30)
        .page_size(PAGE)
        .large_page_size(PAGE)
        .evict_wait(Duration::from_secs(5))
        .idle_grace(Duration::from_secs(60))
        .no_recompression()
        .rebalance_rate(NONE)
        .no_peer()
        .create(&context)
        .unwrap();
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffers: Vec<Buffer> = (0..32)
        .map(|_| BufferOptions::new(PAGE).element(Element::F32).scrub().create(&pool).unwrap())
        .collect();
    for (number, buffer) in buffers.iter().enumerate() {
        let mut lease = pool.acquire(&stream, [Use::discard_write(buffer)]).unwrap();
        let values = lease.slice_mut::<f32>(0).unwrap();
        values.iter_mut().enumerate().for_each(|(i, value)| *value = (i % 7) as f32 + number as f32);
    }
    let mut values = vec![0f32; PAGE as usize / 4];
    for (number, buffer) in buffers.iter().enumerate() {
        buffer.read(0, &mut values).unwrap();
        assert!(values.iter().enumerate().all(|(i, &value)| value == (i % 7) as f32 + number as f32));
    }
    let stats = pool.stats().unwrap();
    assert!(
        stats.compressed_in_bytes > 0 && stats.compressed_out_bytes < stats.compressed_in_bytes,
        "{stats:?}"
    );
    let codec = pool.codec_stats().unwrap();
    assert!(codec.element(Element::F32).raw_bytes > 0, "{codec:?}");
    // A method that only a newer library has gets a slot that is there already; others have none.
    for number in [sys::WEIR_CODEC_NARROW + 1, sys::WEIR_CODEC_SLOTS, 99] {
        assert_eq!(codec.method(Method::Unknown(number)), CodecShare::default());
    }
}

#[test]
fn clients_are_charged_and_bounded() {
    let Site { pool, stream, .. } = site(8);
    let options =
        ClientOptions::new("tenant").priority(Priority::Low).device_quota(2 * PAGE).host_quota(4 * PAGE);
    let client = options.compressed_quota(PAGE).storage_quota(PAGE).create(&pool).unwrap();
    let buffer = BufferOptions::new(2 * PAGE).client(&client).create(&pool).unwrap();
    let other = BufferOptions::new(PAGE).client(&client).create(&pool).unwrap();
    let lease = pool.acquire(&stream, [Use::discard_write(&buffer)]).unwrap();
    assert_eq!((client.stats().unwrap().buffers, client.stats().unwrap().device_bytes), (2, 2 * PAGE));
    assert!(pool.acquire(&stream, [Use::discard_write(&other)]).is_err());
    drop(lease);
    assert!(matches!(client.clone().close(), Err(Error::Busy(_))));
    drop((buffer, other));
    stream.synchronize().unwrap();
    client.close().unwrap();
}

#[test]
fn a_quota_of_none_is_nothing_at_all() {
    let Site { pool, stream, cpu, .. } = site(8);
    let charged = |options: ClientOptions| {
        BufferOptions::new(PAGE).client(&options.create(&pool).unwrap()).create(&pool).unwrap()
    };
    let nowhere = charged(ClientOptions::new("nowhere").device_quota(NONE));
    match pool.acquire(&stream, [Use::discard_write(&nowhere)]) {
        Err(Error::OverBudget(detail)) => {
            assert_eq!((detail.asked, detail.available, detail.short_by), (PAGE, 0, PAGE), "{detail:?}");
        }
        other => panic!("it holds memory of the device: {other:?}"),
    }
    // It is its device quota alone that is nothing.
    pool.acquire(&cpu, [Use::discard_write(&nowhere)]).unwrap().slice_mut::<u8>(0).unwrap()[0] = 1;
    let not_in_host = charged(ClientOptions::new("not in host").host_quota(NONE));
    drop(pool.acquire(&stream, [Use::discard_write(&not_in_host)]).unwrap());
    assert!(pool.acquire(&cpu, [Use::read(&not_in_host)]).is_err());
    let unbounded = charged(ClientOptions::new("unbounded").device_quota(0).host_quota(0));
    drop(pool.acquire(&stream, [Use::discard_write(&unbounded)]).unwrap());
    drop(pool.acquire(&cpu, [Use::read(&unbounded)]).unwrap());
}

#[test]
fn homes_are_chosen() {
    let context = machine(2);
    let pool = pool_of(&context, 8);
    let plan: Vec<BufferOptions> =
        (0..2).map(|device| BufferOptions::new(PAGE).home(Device::ANY).users(&[Device(device)])).collect();
    assert_eq!(pool.place(&plan).unwrap(), [Device(0), Device(1)]);
    assert_eq!(plan[1].create(&pool).unwrap().info().unwrap().home, Device(1));
    let aligned =
        BufferOptions::new(PAGE).alignment(4096).stable_address().home(Device(1)).create(&pool).unwrap();
    let stream = Stream::new(&context, Device(1)).unwrap();
    assert_eq!(pool.acquire(&stream, [Use::read(&aligned)]).unwrap().address(0) % 4096, 0);
}

#[test]
fn devices_join_and_leave() {
    let context = machine(2);
    let pool = PoolOptions::new().device(Device(0), 4 * PAGE).host_budget(1 << 20).create(&context).unwrap();
    let before = pool.stats().unwrap().generation;
    pool.add_device(Device(1), 4 * PAGE).unwrap();
    let buffer = BufferOptions::new(PAGE).home(Device(1)).create(&pool).unwrap();
    buffer.write(0, &[5u8]).unwrap();
    assert_eq!(pool.rebalance(PAGE).unwrap(), 0);
    pool.remove_device(Device(1), Some(Duration::from_secs(10))).unwrap();
    assert_eq!(buffer.info().unwrap().home, Device(0));
    let mut byte = [0u8];
    buffer.read(0, &mut byte).unwrap();
    assert_eq!((byte[0], pool.stats().unwrap().generation), (5, before + 2));
}

#[test]
fn holds_in_modes() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let modes = [HoldMode::Read, HoldMode::Shared, HoldMode::Alone];
    for mode in modes {
        let hold = buffer.hold_as(Device(0), mode).unwrap();
        let conflict = |result: weir::Result<()>| matches!(result, Err(Error::LeaseConflict(_)));
        let lease = |wanted: Use| pool.acquire(&stream, [wanted]).map(drop);
        assert_eq!(lease(Use::read_write(&buffer)).is_ok(), mode == HoldMode::Shared);
        assert_eq!(conflict(lease(Use::read(&buffer))), mode == HoldMode::Alone);
        for other in modes {
            let nests = mode == other && mode != HoldMode::Alone;
            assert_eq!(conflict(buffer.hold_as(Device(0), other).map(drop)), !nests);
        }
        hold.release().unwrap();
    }
    assert_eq!(buffer.info().unwrap().held, 0);
}

#[test]
fn holds_and_allocations_stay() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let hold = buffer.hold(Device(0)).unwrap();
    assert_eq!(
        (hold.device(), hold.address(), buffer.info().unwrap().held),
        (Device(0), buffer.info().unwrap().address, 1)
    );
    drop(buffer.hold(Device(0)).unwrap());
    assert_eq!(buffer.info().unwrap().held, 1);
    hold.release().unwrap();
    assert_eq!(buffer.info().unwrap().held, 0);

    let held = || pool.stats().unwrap().device_held_bytes;
    let first = pool.malloc(Device(0), Some(&stream), PAGE).unwrap();
    let second = pool.malloc(Device(0), None, 100).unwrap();
    assert!(first.address() != 0 && second.size() == 100 && held() >= PAGE + 100);
    let address = first.into_raw();
    // SAFETY: it was given away just now, and nothing uses it.
    unsafe { pool.free(Some(&stream), address) }.unwrap();
    second.free(Some(&stream)).unwrap();
    let (third, before) = (pool.malloc(Device(0), None, 2 * PAGE).unwrap(), held());
    let strange = site(4).stream;
    assert!(matches!(third.free(Some(&strange)), Err(Error::InvalidHandle(_))));
    assert_eq!(before - held(), 2 * PAGE, "what was refused is freed as it is dropped");
    drop(pool.malloc(Device(0), Some(&stream), PAGE).unwrap());
    stream.synchronize().unwrap();
    assert!(matches!(pool.close(), Err(Error::Busy(_))), "the buffer is still there");
}

#[test]
fn memory_of_the_callers_own_is_the_home_of_host_copies() {
    let Site { pool, stream, .. } = site(4);
    #[repr(align(4096))]
    struct Mine([u8; PAGE as usize]);
    let mut mine = Box::new(Mine([3; PAGE as usize]));
    let buffer = pool.buffer(PAGE).unwrap();
    // SAFETY: `mine` is aligned, large enough, and untouched until it is unregistered.
    unsafe { buffer.host_register(mine.0.as_mut_ptr(), true) }.unwrap();
    let mut lease = pool.acquire(&stream, [Use::read_write(&buffer)]).unwrap();
    assert_eq!(lease.slice::<u8>(0).unwrap()[100], 3);
    lease.slice_mut::<u8>(0).unwrap()[100] = 4;
    drop(lease);
    // SAFETY: there is no lease.
    unsafe { buffer.host_unregister() }.unwrap();
    assert_eq!((mine.0[99], mine.0[100]), (3, 4));
}

#[test]
fn prefetched_bytes_are_there_and_announcements_are_consumed() {
    let context = machine(1);
    let pool = PoolOptions::new().device(Device(0), 4 * PAGE).host_budget(1 << 20).create(&context).unwrap();
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffers: Vec<Buffer> = (0..2).map(|_| pool.buffer(PAGE).unwrap()).collect();
    buffers[0].write(0, &[1u8]).unwrap();
    pool.prefetch(&stream, &[Use::read(&buffers[0])]).unwrap();
    pool.prefetch(&stream, &[]).unwrap();
    let uses = [Use::read(&buffers[1])];
    let name = std::ffi::CStr::from_bytes_with_nul(b"layer\0").unwrap();
    pool.announce(&stream, &[Operation::new(&uses).named(name), Operation::new(&uses)]).unwrap();
    pool.announce_anew(&stream, &[]).unwrap();
    let options = AcquireOptions::new().timeout(Duration::from_secs(5)).operation(name);
    drop(pool.acquire_with(&stream, [Use::read(&buffers[0])], &options).unwrap());
    drop(pool.acquire_with(&stream, uses, &AcquireOptions::new().as_sole_holder()).unwrap());
}

#[test]
fn operations_have_numbers() {
    let context = machine(1);
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    let name = |text: &str| CString::new(text).unwrap();
    assert_eq!(pool.operation_id(&name("layer")).unwrap(), 1);
    assert_eq!(pool.operation_id(&name("head")).unwrap(), 2);
    assert_eq!(pool.operation_id(&name("layer")).unwrap(), 1);
    assert!(matches!(pool.operation_id(&name("")), Err(Error::InvalidArgument(_))));
    assert!(matches!(pool.operation_id(&name(&"n".repeat(1024))), Err(Error::InvalidArgument(_))));
    let uses = [Use::discard_write(&buffer)];
    pool.announce(&stream, &[Operation::new(&uses).numbered(2)]).unwrap();
    let unknown = pool.announce_anew(&stream, &[Operation::new(&uses).numbered(3)]);
    assert!(matches!(unknown, Err(Error::InvalidArgument(_))));
    drop(pool.acquire_with(&stream, uses, &AcquireOptions::new().operation_id(1)).unwrap());
    let unknown = pool.acquire_with(&stream, uses, &AcquireOptions::new().operation_id(3));
    assert!(matches!(unknown, Err(Error::InvalidArgument(_))));
    // A name that an acquire was given has got a number, and is not looked at beside one.
    drop(pool.acquire_with(&stream, uses, &AcquireOptions::new().operation(&name("third"))).unwrap());
    let both = AcquireOptions::new().operation(&name("not looked at")).operation_id(3);
    drop(pool.acquire_with(&stream, uses, &both).unwrap());
    assert_eq!(pool.operation_id(&name("fourth")).unwrap(), 4);
    assert_eq!(pool.stats().unwrap().shared_operation_ids, 0);
}

#[test]
fn what_was_learned_is_saved_and_loaded() {
    let context = machine_with(1, "host.memory=80M");
    // The least that is learned in, of which next to nothing is taken.
    let pool = PoolOptions::new()
        .host_budget(16 << 20)
        .device(Device(0), 64 << 20)
        .policy("auto")
        .create(&context)
        .unwrap();
    let saved = pool.save_policy().unwrap();
    pool.load_policy(&saved).unwrap();
    assert_eq!(pool.save_policy().unwrap(), saved);
    let mut damaged = saved.clone();
    damaged[40] ^= 1;
    for other in [&[], &saved[1..], &damaged[..]] {
        assert!(matches!(pool.load_policy(other), Err(Error::Corrupt(_))));
    }
    damaged[12] ^= 2; // the version
    assert!(matches!(pool.load_policy(&damaged), Err(Error::NotSupported(_))));
    let stream = Stream::new(&context, Device(0)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    drop(pool.acquire(&stream, [Use::discard_write(&buffer)]).unwrap());
    assert!(matches!(pool.load_policy(&saved), Err(Error::InvalidArgument(_))));
    let other = pool_of(&context, 4);
    assert!(matches!(other.save_policy(), Err(Error::NotSupported(_))));
    assert!(matches!(other.load_policy(&saved), Err(Error::NotSupported(_))));
}

/// The bytes that the matmul example brings to a device of a quarter of the three matrices, each of 6 x 6 tiles of a page.
fn matmul_moves(prefetch: bool) -> u64 {
    const N: usize = 6;
    let context = machine(1);
    let pool = pool_of(&context, 3 * (N * N) as u64 / 4);
    let stream = Stream::new(&context, Device(0)).unwrap();
    let tiles: Vec<Buffer> = (0..3 * N * N).map(|_| pool.buffer(PAGE).unwrap()).collect();
    for tile in &tiles[..2 * N * N] {
        tile.write(0, &[1u8; PAGE as usize]).unwrap();
    }
    let uses = |step: usize| {
        let (i, place, k) = (step / N / N, step / N % N, step % N);
        let j = if i % 2 == 0 { place } else { N - 1 - place };
        let c = &tiles[2 * N * N + i * N + j];
        let c = if k == 0 { Use::discard_write(c) } else { Use::read_write(c) };
        [Use::read(&tiles[i * N + k]), Use::read(&tiles[N * N + k * N + j]), c]
    };
    for step in 0..N * N * N {
        if prefetch && step + 1 < N * N * N {
            pool.prefetch(&stream, &uses(step + 1)).unwrap();
        }
        drop(pool.acquire(&stream, uses(step)).unwrap());
    }
    pool.stats().unwrap().promoted_bytes
}

#[test]
fn prefetch_moves_no_more_than_is_moved_without() {
    let (with, without) = (matmul_moves(true), matmul_moves(false));
    assert!(with <= without, "{with} bytes with prefetch, {without} without");
}

#[test]
fn defragmentation_moves_tenants_together() {
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
    let options = DefragmentOptions::new()
        .device(Device(0))
        .wait()
        .max_bytes(1 << 20)
        .max_moves(1000)
        .max_cost_permille(4000);
    let none = pool.defragment(&options.clone().max_time(Duration::ZERO)).unwrap();
    assert!(!none.finished && none.copy_moves == 0, "no time is not time without end: {none:?}");
    let report = pool.defragment(&options.clone().max_time(Duration::from_secs(5))).unwrap();
    assert!(
        report.finished && report.fragmentation_after_permille < report.fragmentation_before_permille,
        "{report:?}"
    );
    let again = pool.defragment_until(&options.evict(), || true).unwrap();
    assert_eq!(again.copy_moves, 0);
    let background =
        BackgroundDefragmentation { threshold_permille: 100, ..BackgroundDefragmentation::default() };
    assert!(
        matches!(pool.set_defragmentation(&background), Err(Error::NotSupported(_))),
        "made with no_background"
    );
}

#[test]
fn handles_of_c_are_worked_on_without_being_owned() {
    let Site { context, pool, stream, cpu } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    // SAFETY: all handles live longer than what is made of them here.
    unsafe {
        let context = Context::from_raw(context.as_raw());
        let pool = Pool::from_raw(pool.as_raw());
        let stream = Stream::from_raw(&context, stream.as_raw(), Device(0));
        let buffer = Buffer::from_raw(&pool, buffer.as_raw()).unwrap();
        assert!(pool.context().is_none() && buffer.size() == PAGE);
        let mut lease = pool.acquire(&stream, [Use::discard_write(&buffer)]).unwrap();
        lease.slice_mut::<u8>(0).unwrap().fill(9);
    }
    assert_eq!(pool.acquire(&cpu, [Use::read(&buffer)]).unwrap().slice::<u8>(0).unwrap()[7], 9);
    let raw = buffer.into_raw().unwrap();
    // SAFETY: it was given away just now.
    let buffer = unsafe { Buffer::from_raw_owned(&pool, raw) }.unwrap();
    assert_eq!(pool.context().unwrap().as_raw(), context.as_raw());
    drop((buffer, cpu, stream));
    pool.close().unwrap();
    context.close().unwrap();
}

#[test]
fn streams_run_functions_in_order() {
    let Site { context, stream, cpu, .. } = site(4);
    let (send, numbers) = std::sync::mpsc::channel();
    for number in 0..10 {
        let send = send.clone();
        stream.host_call(move || send.send(number).unwrap()).unwrap();
    }
    stream.synchronize().unwrap();
    assert!(stream.is_idle().unwrap());
    assert_eq!(numbers.try_iter().collect::<Vec<i32>>(), (0..10).collect::<Vec<i32>>());
    assert_eq!((stream.device(), cpu.device()), (Device(0), Device::HOST));
    let native = stream.native().unwrap();
    // SAFETY: the native stream outlives the wrapper.
    let wrapped = unsafe { Stream::wrap(&context, Device(0), native) }.unwrap();
    wrapped.host_call(|| {}).unwrap();
    wrapped.synchronize().unwrap();
    wrapped.close().unwrap();
    stream.close().unwrap();
}

#[test]
fn requests_are_waited_for_polled_and_dropped() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let options = AcquireOptions::new().timeout(Duration::from_secs(10));
    let request =
        pool.acquire_async(&stream, [OwnedUse::discard_write(&buffer).range(0, 4096)], &options).unwrap();
    let lease = request.wait().unwrap();
    assert_eq!((lease.len(), lease.mode(0)), (1, Mode::DiscardWrite));
    let request = pool.acquire_async(&stream, [OwnedUse::read(&buffer).range(8192, 64)], &options).unwrap();
    let mut request = request.wait_for(Duration::from_secs(10)).expect("it ends").map(Some).unwrap();
    // It keeps its buffer, stream and pool alive by itself.
    drop((lease, buffer, stream, pool));
    assert_ne!(request.as_ref().unwrap().address(0), 0);
    request.take().unwrap().release().unwrap();
}

#[test]
fn compressed_bytes_come_back() {
    let raw: Vec<u8> = (0..300_000u32).flat_map(|i| (i as f32).sqrt().to_le_bytes()).collect();
    let options = CompressOptions::new().level(Level::Dense).element(Element::F32);
    let blob = compress(&raw, &options).unwrap();
    let info = compressed_info(&blob).unwrap();
    assert!(blob.len() < raw.len() && info.raw_bytes == raw.len() as u64 && info.checksums, "{info:?}");
    assert_eq!(decompress(&blob).unwrap(), raw);
    let plain = compress(&raw, &CompressOptions::new().codec("raw").no_checksum()).unwrap();
    let info = compressed_info(&plain).unwrap();
    assert_eq!((info.method(Method::Raw).raw_bytes, info.checksums), (raw.len() as u64, false));
    assert_eq!(decompress(&compress(&[], &options).unwrap()).unwrap(), b"");
    assert_eq!(compress_bound(u64::MAX), None);
}

#[test]
fn arenas_hand_out_ranges() {
    let mut arena = Arena::with_quantum(1 << 20, 16).unwrap();
    let first = arena.allocate(100, 0).unwrap();
    let second = arena.allocate(1000, 256).unwrap();
    assert_eq!((first.size, second.offset % 256), (112, 0));
    assert_eq!(arena.range(first.allocation).unwrap(), first);
    let mut seen = Vec::new();
    arena
        .walk(|piece| {
            assert_eq!(arena.stats().unwrap().allocations, 2);
            seen.push(piece);
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen.iter().map(|piece| piece.size).sum::<u64>(), 1 << 20);
    assert_eq!(seen.iter().filter(|piece| piece.allocation.is_some()).count(), 2);
    let mut shown = 0;
    arena
        .walk(|_| {
            shown += 1;
            std::ops::ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(shown, 1);
    let report = arena.report().unwrap();
    assert_eq!((report.live_ranges, report.classes.len()), (2, sys::WEIR_ARENA_CLASSES as usize));
    arena.free(first.allocation).unwrap();
    arena.free(second.allocation).unwrap();
    arena.resize(1 << 10).unwrap();
    arena.validate().unwrap();
    assert_eq!(arena.stats().unwrap().size, 1 << 10);
}
