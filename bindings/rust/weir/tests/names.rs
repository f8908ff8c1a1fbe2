// SPDX-License-Identifier: Apache-2.0

//! Names of buffers, and the stacks by which they are found where they have none.

mod common;

use common::{pool_of, site, Site, PAGE};
use weir::*;

#[test]
fn buffers_have_names() {
    let Site { pool, .. } = site(4);
    let buffer = BufferOptions::new(PAGE).name("größe").create(&pool).unwrap();
    assert_eq!(buffer.name().unwrap(), "größe");
    assert!(pool.snapshot().unwrap().contains("größe"));
    buffer.set_name("weights").unwrap();
    assert_eq!(buffer.name().unwrap(), "weights");
    let refused = buffer.set_name("wei\0ghts");
    assert!(matches!(&refused, Err(Error::InvalidArgument(detail)) if detail.message.contains("byte 3")));
    let refused = BufferOptions::new(PAGE).name("\0").create(&pool);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    assert_eq!(buffer.name().unwrap(), "weights");
    // 255 bytes are kept, and no half of a character.
    let long = format!("{}ö{}", "n".repeat(254), "n".repeat(500));
    buffer.set_name(&long).unwrap();
    assert_eq!(buffer.name().unwrap(), long[..254]);
    buffer.set_name("").unwrap();
    assert_eq!(buffer.name().unwrap(), "");
    // What C has named with bytes that are no UTF-8.
    // SAFETY: the handles are live.
    let result =
        unsafe { sys::weir_buffer_set_name(pool.as_raw(), buffer.as_raw(), b"a\xffb\0".as_ptr().cast()) };
    assert_eq!((result, buffer.name().unwrap().as_str()), (0, "a\u{fffd}b"));
    assert_eq!(pool.buffer(PAGE).unwrap().name().unwrap(), "");
    let options = [BufferOptions::new(PAGE).name("placed")];
    assert_eq!(pool.place(&options).unwrap(), [Device(0)]);
}

#[test]
fn stacks_are_kept_where_they_are_asked_for() {
    for asked in [false, true] {
        let options = ContextOptions::new()
            .options("host.memory=64M;host.granule=64K;host.granule_large=0")
            .no_search();
        let options = if asked { options.keep_stacks() } else { options };
        let pool = pool_of(&options.open().unwrap(), 4);
        let _buffer = pool.buffer(PAGE).unwrap();
        assert_eq!(pool.snapshot().unwrap().contains("\"stacks\""), asked);
    }
}
