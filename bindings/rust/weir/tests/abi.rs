// SPDX-License-Identifier: Apache-2.0

//! What the crate relies on in the C ABI it runs with: seen by calls of C beside those of the crate.

mod common;

use common::{site, Site, PAGE};
use weir::*;

#[test]
fn what_c_cuts_is_whole_here() {
    let Site { context, pool, stream, .. } = site(4);
    let buffer = pool.buffer(3 * PAGE).unwrap();
    drop(pool.acquire(&stream, [Use::discard_write(&buffer)]).unwrap());
    let mut text = [7; 8];
    let (mut snapshot, mut topology, mut count) = (0, 0, 0);
    // SAFETY: a plain C struct of integers and a pointer.
    let mut piece: sys::weir_piece = unsafe { std::mem::zeroed() };
    // SAFETY: the handles are live, and there is room for as much as is told.
    let answers = unsafe {
        let (raw, json) = (pool.as_raw(), TopologyFormat::Json.as_raw());
        [
            sys::weir_pool_map(raw, &mut piece, 1, &mut count),
            sys::weir_pool_snapshot(raw, text.as_mut_ptr(), text.len(), &mut snapshot),
            sys::weir_topology_export(context.as_raw(), json, text.as_mut_ptr(), text.len(), &mut topology),
        ]
    };
    assert_eq!(answers, [sys::WEIR_INCOMPLETE; 3]);
    assert!(count > 1 && pool.map().unwrap().len() == count, "{count}");
    assert!(pool.snapshot().unwrap().trim_end().ends_with('}') && snapshot > 8);
    let document = context.topology(TopologyFormat::Json).unwrap();
    assert!(document.trim_end().ends_with('}') && document.len() + 1 == topology, "{topology}: {document}");
}

/// No backend here takes objects of the program, so each call says which one was asked.
#[test]
fn natives_reach_the_backend_that_they_are_for() {
    let handles: [u32; 4] = [16, 1, 0, 0];
    let open = |backend: &str| {
        let options = ContextOptions::new().options("host.memory=64M").no_search();
        // SAFETY: no backend here looks at them.
        unsafe { options.native(backend, handles.as_ptr().cast()) }.open().map(|_| ())
    };
    let host = open("host");
    assert!(matches!(&host, Err(Error::NotSupported(e)) if e.message.contains("backend host")), "{host:?}");
    let nobody = open("nobody");
    assert!(
        matches!(&nobody, Err(Error::InvalidArgument(e)) if e.message.contains("\"nobody\"")),
        "{nobody:?}"
    );
    assert!(matches!(open("a\0b"), Err(Error::InvalidArgument(_))));
    let Site { context, .. } = site(4);
    let mut out: [u32; 4] = [16, 0, 0, 0];
    // SAFETY: `out` has its size.
    let told = unsafe { context.native_memory(Device(0), 4096, 1, out.as_mut_ptr().cast()) };
    assert!(matches!(told, Err(Error::NotSupported(_))), "{told:?}");
}

/// A callback that leaves the outcome to the thread that waits.
unsafe extern "C" fn nothing(_: *mut std::ffi::c_void, _: sys::weir_result, _: sys::weir_lease) {}

#[test]
fn who_waits_for_a_request_of_c_has_its_reason() {
    let Site { pool, stream, .. } = site(4);
    let large = pool.buffer(6 * PAGE).unwrap();
    let mut uses = [sys::weir_use { buffer: large.as_raw(), ..sys::Init::INIT }];
    let (mut request, mut ended) = (std::ptr::null_mut(), 0);
    let mut info: sys::weir_error_info = sys::Init::INIT;
    // SAFETY: all handles are live, and the uses stay until the request has been waited for.
    let message = unsafe {
        let (raw_pool, raw_stream, none) = (pool.as_raw(), stream.as_raw(), std::ptr::null_mut());
        let asked = sys::weir_acquire_async(
            raw_pool,
            raw_stream,
            uses.as_mut_ptr(),
            1,
            std::ptr::null(),
            Some(nothing),
            none,
            &mut request,
        );
        assert_eq!(asked, sys::WEIR_SUCCESS);
        assert_eq!(sys::weir_request_wait(request, &mut ended), sys::WEIR_SUCCESS);
        let message = std::ffi::CStr::from_ptr(sys::weir_last_error()).to_str().unwrap().to_owned();
        assert_eq!(sys::weir_last_error_info(&mut info), sys::WEIR_SUCCESS);
        sys::weir_request_close(request);
        message
    };
    assert_eq!((ended, info.result), (sys::WEIR_ERROR_OVER_BUDGET, sys::WEIR_ERROR_OVER_BUDGET));
    let at_once = pool.acquire(&stream, [Use::read(&large)]).map(drop).unwrap_err();
    assert_eq!((message, info.short_by), (at_once.message().to_owned(), at_once.detail().short_by));
}

#[test]
fn the_version_is_not_older_than_the_headers() {
    let number = version_number();
    assert!(number >= sys::WEIR_VERSION_NUMBER && number / 1_000_000 == sys::WEIR_VERSION_MAJOR, "{number}");
    assert_eq!(version(), format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000));
}
