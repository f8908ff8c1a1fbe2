// SPDX-License-Identifier: Apache-2.0

//! Traces, which stop with their guard, and metrics.

mod common;

use common::{machine, pool_of, site, Site, PAGE};
use weir::*;

struct Files(std::path::PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("weir-rust-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Files(folder)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_trace_stops_with_its_guard() {
    let files = Files::new("trace");
    let Site { context, pool, stream, .. } = site(4);
    let first = context.trace(&TraceOptions::new(&files.path("1.json"))).unwrap();
    assert!(matches!(context.trace(&TraceOptions::new(&files.path("2.json"))), Err(Error::Busy(_))));
    let buffer = pool.buffer(PAGE).unwrap();
    drop(pool.acquire(&stream, [Use::discard_write(&buffer)]).unwrap());
    drop(first);
    let second = context.trace(&TraceOptions::new(&files.path("2.json")).max_bytes(1 << 20)).unwrap();
    second.stop().unwrap();
    for name in ["1.json", "2.json"] {
        let text = std::fs::read_to_string(files.path(name)).unwrap();
        assert!(text.trim_end().ends_with(']') || text.trim_end().ends_with('}'), "{text}");
    }
    let again = context.trace(&TraceOptions::new(&files.path("1.json")));
    assert!(matches!(again, Err(Error::Io(_))), "{again:?}");
    let small = context.trace(&TraceOptions::new(&files.path("3.json")).max_bytes(1));
    assert!(matches!(small, Err(Error::InvalidArgument(_))), "{small:?}");
    let nul = context.trace(&TraceOptions::new("a\0b"));
    assert!(matches!(nul, Err(Error::InvalidArgument(_))), "{nul:?}");
}

#[test]
fn a_recording_begins_before_the_first_pool() {
    let files = Files::new("recording");
    let options = TraceOptions::new(&files.path("1.vmt")).kind(TraceKind::Recording);
    let context = machine(1);
    let recording = context.trace(&options).unwrap();
    let pool = pool_of(&context, 4);
    drop(pool.buffer(PAGE).unwrap());
    recording.stop().unwrap();
    let text = std::fs::read_to_string(files.path("1.vmt")).unwrap();
    assert!(text.starts_with("#vmt 2"), "{text}");
    let late = context.trace(&options);
    assert!(matches!(late, Err(Error::Busy(_))), "{late:?}");
}

#[test]
fn a_trace_keeps_its_context() {
    let files = Files::new("kept");
    let Site { context, pool, stream, cpu } = site(4);
    let trace = context.trace(&TraceOptions::new(&files.path("1.json"))).unwrap();
    drop((pool, stream, cpu));
    assert!(matches!(context.close(), Err(Error::Busy(_))));
    trace.stop().unwrap();
}

#[test]
fn metrics_are_of_all_pools() {
    let Site { context, pool, .. } = site(4);
    let _buffer = pool.buffer(PAGE).unwrap();
    let text = context.metrics_text().unwrap();
    assert!(
        text.contains("# TYPE weir_buffers gauge\nweir_buffers{pool=\"pool\",pool_number=\"0\"} 1\n"),
        "{text}"
    );
    assert!(text.contains("weir_slow_acquire_seconds_bucket{") && text.ends_with('\n'), "{text}");
}
