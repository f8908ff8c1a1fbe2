// SPDX-License-Identifier: Apache-2.0

//! Every struct has the size, the alignment and the initial bytes that the C compiler gives it, and every function is
//! there to be linked. bindgen's own layout tests, beside the types, know the offsets of the members.

use std::fmt::Write as _;
use std::process::Command;
use weir_sys::*;

/// A struct: its C name, the macro that initialises it, and what Rust has.
struct Known {
    name: &'static str,
    init: Option<String>,
    size: usize,
    align: usize,
    bytes: Vec<u8>,
}

/// The bytes of a value that has no padding.
fn bytes<T>(value: &T) -> Vec<u8> {
    let start = (value as *const T).cast::<u8>();
    // SAFETY: the structs have no padding, so that every byte is initialised; the C side prints the same bytes.
    unsafe { std::slice::from_raw_parts(start, std::mem::size_of::<T>()) }.to_vec()
}

macro_rules! with_init {
    ($($name:ident),* $(,)?) => {
        vec![$(Known {
            name: stringify!($name),
            init: Some(format!("{}_INIT", stringify!($name).to_uppercase())),
            size: std::mem::size_of::<$name>(),
            align: std::mem::align_of::<$name>(),
            bytes: bytes(&<$name as Init>::INIT),
        }),*]
    };
}

macro_rules! without_init {
    ($($name:ident),* $(,)?) => {
        vec![$(Known {
            name: stringify!($name),
            init: None,
            size: std::mem::size_of::<$name>(),
            align: std::mem::align_of::<$name>(),
            bytes: Vec::new(),
        }),*]
    };
}

fn known() -> Vec<Known> {
    let mut all = with_init![
        weir_acquire_options,
        weir_arena_desc,
        weir_arena_report,
        weir_arena_stats,
        weir_backend_info,
        weir_buffer_desc,
        weir_buffer_info,
        weir_calibrate_desc,
        weir_calibrate_report,
        weir_client_desc,
        weir_client_stats,
        weir_codec_stats,
        weir_compress_desc,
        weir_compressed_info,
        weir_context_desc,
        weir_defragment_desc,
        weir_defragment_report,
        weir_defragmentation_desc,
        weir_device_info,
        weir_device_loss,
        weir_error_info,
        weir_link_info,
        weir_operation,
        weir_pool_desc,
        weir_pool_device,
        weir_pool_device_stats,
        weir_pool_stats,
        weir_shard_desc,
        weir_trace_desc,
        weir_use,
    ];
    all.extend(without_init![
        weir_allocator,
        weir_arena_class,
        weir_arena_range,
        weir_codec_share,
        weir_lost_range,
        weir_native,
        weir_piece,
        weir_shard,
    ]);
    all
}

/// A line for each struct: name, size, alignment, initial bytes. A pointer to an empty text counts as 0: where it is
/// differs.
fn expected(all: &[Known]) -> String {
    let mut text = String::new();
    for known in all {
        write!(text, "{} {} {} ", known.name, known.size, known.align).unwrap();
        let shown = if known.name == "weir_calibrate_report" { known.size - 8 } else { known.size };
        for byte in known.bytes.iter().take(shown) {
            write!(text, "{byte:02x}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn program(all: &[Known]) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <weir/weir.h>\n\
         static void show(const void *value, size_t size) {\n\
         for (size_t i = 0; i < size; i++) printf(\"%02x\", ((const unsigned char *)value)[i]);\n}\n\
         int main(void) {\n",
    );
    for Known { name, init, .. } in all {
        writeln!(text, "printf(\"{name} %zu %zu \", sizeof({name}), _Alignof({name}));").unwrap();
        if let Some(init) = init {
            let less = if *name == "weir_calibrate_report" { 8 } else { 0 };
            writeln!(text, "{{ static {name} value = {init}; show(&value, sizeof value - {less}); }}")
                .unwrap();
        }
        writeln!(text, "printf(\"\\n\");").unwrap();
    }
    text + "return 0;\n}\n"
}

#[test]
fn structs_are_what_the_c_compiler_makes_of_them() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    let all = known();
    std::fs::write(&source, program(&all)).unwrap();
    let flags = Command::new("pkg-config").args(["--cflags", "weir"]).output().expect("pkg-config runs");
    let flags = String::from_utf8(flags.stdout).unwrap();
    let built = Command::new("cc")
        .args(flags.split_whitespace())
        .args(["-std=c11", "-o"])
        .args([&binary, &source])
        .status()
        .expect("cc runs");
    assert!(built.success());
    let said = Command::new(&binary).output().unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), expected(&all));
}

#[test]
fn every_struct_of_the_bindings_is_known_here() {
    let bindings = include_str!("../src/bindings.rs");
    let mut structs: Vec<&str> = bindings
        .lines()
        .filter_map(|line| line.strip_prefix("pub struct ")?.strip_suffix(" {"))
        .filter(|name| !name.ends_with("_s") && *name != "weir_backend_table")
        .collect();
    structs.sort_unstable();
    let mut names: Vec<&str> = known().iter().map(|known| known.name).collect();
    names.sort_unstable();
    assert_eq!(structs, names);
}

#[test]
fn the_library_and_the_crate_are_of_the_bindings_version() {
    // Any library of the same major version that is not older will do.
    // SAFETY: it is a constant.
    let library = unsafe { weir_version_number() };
    assert_eq!(library / 1_000_000, WEIR_VERSION_MAJOR);
    assert!(library >= WEIR_VERSION_NUMBER, "{library} is older than {WEIR_VERSION_NUMBER}");
    // SAFETY: it returns a constant text.
    let text = unsafe { std::ffi::CStr::from_ptr(weir_version_string()) }.to_str().unwrap();
    let (major, minor, patch) = (library / 1_000_000, library / 1000 % 1000, library % 1000);
    assert_eq!(text, format!("{major}.{minor}.{patch}"));
    // build.rs asks for a library of the crate's own version.
    let of_crate = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let (major, minor) = (WEIR_VERSION_MAJOR.to_string(), WEIR_VERSION_MINOR.to_string());
    assert_eq!(of_crate, (major.as_str(), minor.as_str()));
}

#[test]
fn structs_of_a_fixed_size_have_it() {
    // Elements of the caller's arrays: no version of the library may come to think otherwise.
    assert_eq!(std::mem::size_of::<weir_lost_range>(), 64);
    assert_eq!(std::mem::size_of::<weir_piece>(), 96);
    assert_eq!(std::mem::size_of::<weir_shard>(), 32);
    let (codec, blob) = (weir_codec_stats::INIT, weir_compressed_info::INIT);
    assert_eq!((codec.methods.len(), codec.elements.len(), blob.methods.len()), (32, 32, 32));
    assert_eq!(weir_arena_report::INIT.classes.len(), 64);
}
