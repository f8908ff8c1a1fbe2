// SPDX-License-Identifier: Apache-2.0

//! Views of leases: what they refuse, and that what they allow is the same bytes.

mod common;

use common::{machine, pool_of, site, Site, PAGE};
use weir::*;

#[test]
fn alignment_length_and_mode_are_checked() {
    let Site { pool, cpu, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let uses = [Use::read(&buffer).range(4, 16), Use::read(&buffer).range(0, 12)];
    let mut lease = pool.acquire(&cpu, uses).unwrap();
    assert_eq!(lease.slice::<u32>(0).unwrap(), [0; 4]);
    let message = |result: Result<&[u64]>| result.unwrap_err().message().to_owned();
    assert!(message(lease.slice::<u64>(0)).contains("not aligned"));
    assert!(message(lease.slice::<u64>(1)).contains("12 bytes are no whole number"));
    assert!(message(lease.slice::<u64>(2)).contains("there is no use 2"));
    assert!(lease.slice::<[u8; 0]>(0).is_err());
    assert!(matches!(lease.slice_mut::<u8>(0), Err(Error::InvalidArgument(_))), "it is for reading");
    let [mut first, _] = lease.views().unwrap();
    assert_eq!((first.bytes(), first.mode()), (16, Mode::Read));
    assert!(first.slice_mut::<u8>().is_err());
    assert!(lease.views::<3>().is_err());
}

#[test]
fn what_is_written_is_read() {
    let Site { pool, stream, cpu, .. } = site(4);
    let (a, b) = (pool.buffer(PAGE).unwrap(), pool.buffer(PAGE).unwrap());
    a.write(0, &[1.5f32, -2.5]).unwrap();
    for stream in [&stream, &cpu] {
        let mut lease = pool.acquire(stream, [Use::read(&a), Use::read_write(&b)]).unwrap();
        let [from, to] = lease.views().unwrap();
        let (from, to) = (from.into_slice::<[f32; 2]>().unwrap(), to.into_slice_mut::<[f32; 2]>().unwrap());
        to[0] = [from[0][1], to[0][1] + from[0][0]];
        assert_eq!(lease.slice_mut::<f32>(1).unwrap()[0], -2.5);
        assert_ne!(lease.address(0), lease.address(1));
    }
    let mut both = [0f32; 2];
    b.read(0, &mut both).unwrap();
    assert_eq!(both, [-2.5, 3.0]);
}

#[test]
fn views_go_to_other_threads() {
    let Site { pool, cpu, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let half = PAGE / 2;
    let uses = [Use::discard_write(&buffer).range(0, half), Use::discard_write(&buffer).range(half, half)];
    let mut lease = pool.acquire(&cpu, uses).unwrap();
    std::thread::scope(|scope| {
        for (view, value) in lease.view_list().unwrap().into_iter().zip(1u8..) {
            scope.spawn(move || view.into_slice_mut::<u8>().unwrap().fill(value));
        }
    });
    drop(lease);
    let mut ends = [0u8; 2];
    buffer.read(half - 1, &mut ends).unwrap();
    assert_eq!(ends, [1, 2]);
}

#[test]
fn uses_that_overlap_are_not_viewed_together_if_one_writes() {
    let Site { pool, stream, .. } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let sets = [
        ([Use::read(&buffer), Use::read(&buffer).range(8, 8)], true),
        ([Use::read_write(&buffer), Use::read(&buffer).range(8, 8)], false),
        ([Use::read(&buffer), Use::read_write(&buffer).range(PAGE - 8, 8)], false),
        ([Use::read_write(&buffer).range(0, 8), Use::read_write(&buffer).range(7, 8)], false),
        ([Use::read_write(&buffer).range(0, 8), Use::read_write(&buffer).range(8, 8)], true),
    ];
    for (uses, fine) in sets {
        let mut lease = pool.acquire(&stream, uses).unwrap();
        assert_eq!(lease.views::<2>().is_ok(), fine, "{uses:?}");
        assert_eq!(lease.host_call(|_| {}).is_ok(), fine, "{uses:?}");
        if !fine {
            assert!(matches!(lease.views::<2>(), Err(Error::LeaseConflict(_))));
        }
    }
}

#[test]
fn remote_uses_are_not_viewed() {
    let context = machine(2);
    let pool = pool_of(&context, 4);
    let stream = Stream::new(&context, Device(1)).unwrap();
    let buffer = pool.buffer(PAGE).unwrap();
    buffer.write(0, &[1u8]).unwrap();
    drop(pool.acquire(&Stream::new(&context, Device(0)).unwrap(), [Use::read(&buffer)]).unwrap());
    let mut lease = pool.acquire(&stream, [Use::read(&buffer).allow_remote()]).unwrap();
    assert!(matches!(lease.slice::<u8>(0), Err(Error::NotSupported(_))));
    assert!(matches!(lease.host_call(|_| {}), Err(Error::NotSupported(_))));
    assert_ne!(lease.address(0), 0);
    assert_eq!(lease.mode(0), Mode::Read);
}

#[test]
fn leases_may_be_released_elsewhere() {
    let Site { context, pool, stream, cpu } = site(4);
    let buffer = pool.buffer(PAGE).unwrap();
    let other = Stream::new(&context, Device(0)).unwrap();
    let lease = pool.acquire(&stream, [Use::read_write(&buffer)]).unwrap();
    // SAFETY: there is no work under the lease.
    unsafe { lease.release_on(&other) }.unwrap();
    let lease = pool.acquire(&stream, [Use::read_write(&buffer)]).unwrap();
    // SAFETY: as above. It is of another device, which is refused; the lease is released on its own stream then.
    assert!(unsafe { lease.release_on(&cpu) }.is_err());
    drop(pool.acquire(&stream, [Use::read_write(&buffer)]).unwrap());
}
