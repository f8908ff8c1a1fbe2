// SPDX-License-Identifier: Apache-2.0

//! Sharded buffers: the layout is the one asked for, all devices see the same bytes at one address, and what can't be laid out
//! is refused.

mod common;

use common::{machine_with, pool_of, site, PAGE};
use weir::*;

const BOTH: [Device; 2] = [Device(0), Device(1)];

/// Two devices that reach each other.
fn pair(more: &str) -> Context {
    machine_with(2, &format!("host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G;{more}"))
}

fn run(first_page: u64, pages: u64, device: u32) -> Shard {
    Shard { offset: first_page * PAGE, length: pages * PAGE, device: Device(device) }
}

#[test]
fn all_devices_use_one_memory_that_is_larger_than_one_of_them() {
    let context = pair("");
    assert!(context
        .devices()
        .unwrap()
        .iter()
        .all(|device| device.capabilities.has(Capabilities::SHARED_RANGE)));
    let pool = pool_of(&context, 6);
    let layout = ShardLayout::striped(&BOTH);
    let buffer = BufferOptions::new(10 * PAGE).shards(&layout).create(&pool).unwrap();
    let streams = BOTH.map(|device| Stream::new(&context, device).unwrap());
    let mut lease = pool.acquire(&streams[0], [Use::discard_write(&buffer)]).unwrap();
    let address = lease.address(0);
    lease
        .host_call(|views| {
            let words = views[0].slice_mut::<u32>().unwrap();
            words.iter_mut().zip(7..).for_each(|(word, value)| *word = value);
        })
        .unwrap();
    lease.release().unwrap();
    streams[0].synchronize().unwrap();
    for stream in &streams {
        let lease = pool.acquire(stream, [Use::read(&buffer)]).unwrap();
        assert_eq!(lease.address(0), address);
        assert!(lease.slice::<u32>(0).unwrap().iter().zip(7..).all(|(&word, value)| word == value));
    }
    let info = buffer.info().unwrap();
    assert_eq!((info.home, info.device_bytes, info.peer_bytes), (Device(0), 10 * PAGE, 0));
    for device in BOTH {
        let stats = pool.device_stats(device).unwrap();
        assert_eq!(stats.bytes - stats.free_bytes, 5 * PAGE, "{device:?}");
    }
}

#[test]
fn layouts_are_told_in_runs() {
    let context = pair("");
    let pool = pool_of(&context, 8);
    let made =
        |pages, layout: &ShardLayout| BufferOptions::new(pages * PAGE).shards(layout).create(&pool).unwrap();

    let striped = made(200, &ShardLayout::striped(&BOTH)); // more runs than there is room for at first
    let runs = striped.shards().unwrap();
    assert_eq!(runs, (0..200).map(|page| run(page, 1, page as u32 % 2)).collect::<Vec<_>>());
    let part = striped.shards_of(PAGE + 5..3 * PAGE).unwrap();
    assert_eq!(part, [Shard { offset: PAGE + 5, length: PAGE - 5, device: Device(1) }, run(2, 1, 0)]);
    // Cut by the library at first, but not before the range ends; and after it, with what is left.
    assert_eq!(striped.shards_of(..64 * PAGE).unwrap(), runs[..64]);
    assert_eq!(
        striped.shards_of(..64 * PAGE + 1).unwrap()[63..],
        [runs[63], Shard { length: 1, ..runs[64] }]
    );
    assert_eq!(striped.shards_of(150 * PAGE..).unwrap(), runs[150..]);
    assert!(striped.shards_of(PAGE..PAGE).unwrap().is_empty());
    assert!(matches!(striped.shards_of(199 * PAGE..201 * PAGE), Err(Error::InvalidArgument(_))));

    let wide = made(8, &ShardLayout::striped(&BOTH).stripe(2 * PAGE));
    assert_eq!(wide.shards().unwrap(), [run(0, 2, 0), run(2, 2, 1), run(4, 2, 0), run(6, 2, 1)]);
    let blocks = made(4, &ShardLayout::blocked(&[Device(1), Device(0)]).weights(&[3, 1]));
    assert_eq!(blocks.shards().unwrap(), [run(0, 3, 1), run(3, 1, 0)]);
    assert_eq!(blocks.info().unwrap().home, Device(1));

    let small = BufferOptions::new(100).shards(&ShardLayout::striped(&BOTH)).create(&pool).unwrap();
    assert_eq!(small.shards().unwrap(), [Shard { offset: 0, length: 100, device: Device(0) }]);
    let plain = BufferOptions::new(3 * PAGE).home(Device(1)).create(&pool).unwrap();
    assert_eq!(plain.shards().unwrap(), [run(0, 3, 1)]);
}

#[test]
fn a_device_that_leaves_hands_its_pages_on() {
    let context = pair("");
    let pool = pool_of(&context, 8);
    let buffer = BufferOptions::new(4 * PAGE).shards(&ShardLayout::striped(&BOTH)).create(&pool).unwrap();
    buffer.write(3 * PAGE, &[5u8]).unwrap();
    pool.remove_device(Device(1), None).unwrap();
    assert_eq!(buffer.shards().unwrap(), [run(0, 4, 0)]);
    let mut byte = [0u8];
    buffer.read(3 * PAGE, &mut byte).unwrap();
    assert_eq!(byte, [5]);
}

#[test]
fn what_can_not_be_laid_out_is_refused() {
    let context = pair("");
    let pool = pool_of(&context, 8);
    let both = ShardLayout::striped(&BOTH);
    let refused = |options: BufferOptions, words: &str| match options.create(&pool) {
        Err(Error::InvalidArgument(detail)) => assert!(detail.message.contains(words), "{}", detail.message),
        other => panic!("{words}: {other:?}"),
    };
    let with = |layout: ShardLayout| BufferOptions::new(4 * PAGE).shards(&layout);
    refused(with(both.clone().weights(&[1])), "1 weights for 2 devices");
    refused(with(both.clone().weights(&[1, 2, 3])), "3 weights for 2 devices");
    refused(with(both.clone().weights(&[1, 0])), "weights[1]");
    refused(with(both.clone().stripe(PAGE + 1)), "stripe");
    refused(with(ShardLayout::striped(&[])), "device_count");
    refused(with(ShardLayout::striped(&[Device(0), Device(0)])), "device 0 once more");
    refused(with(ShardLayout::striped(&[Device(0), Device(7)])), "7");
    refused(with(ShardLayout::blocked(&BOTH).stripe(PAGE)), "stripe");
    refused(with(ShardLayout::new(ShardPolicy::Unknown(9), &BOTH)), "9");
    refused(with(both.clone()).home(Device(1)), "home is device 1");
    refused(with(both.clone()).users(&[Device(0)]), "user_count is 1");
    let placed = pool.place(&[BufferOptions::new(PAGE), with(both.clone())]).unwrap_err();
    assert!(placed.detail().message.contains("buffer 1 has shards"), "{placed}");
    with(both).home(Device(0)).create(&pool).unwrap().close().unwrap();
}

#[test]
fn devices_without_shared_ranges_can_not_share_a_buffer() {
    let context = pair("host.shared_range=0");
    let pool = pool_of(&context, 8);
    let refused = BufferOptions::new(4 * PAGE).shards(&ShardLayout::striped(&BOTH)).create(&pool);
    assert!(matches!(refused, Err(Error::NotSupported(_))), "{refused:?}");
    // One device alone is an ordinary buffer, there as everywhere.
    let site = site(4);
    let alone = ShardLayout::striped(&[Device(0)]);
    let buffer = BufferOptions::new(4 * PAGE).shards(&alone).create(&site.pool).unwrap();
    assert_eq!(buffer.shards().unwrap(), [run(0, 4, 0)]);
}
