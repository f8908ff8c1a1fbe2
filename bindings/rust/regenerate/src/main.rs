// SPDX-License-Identifier: Apache-2.0

//! Writes `weir-sys/src/bindings.rs` from the headers: `regenerate INCLUDE_FOLDER OUTPUT`.
//!
//! The same headers give the same text with every libclang that is new enough, so that scripts/test-rust can compare
//! what it writes with what is checked in. Macros whose value is written with `UINT32_C`, `UINT64_C` or `UINT64_MAX`
//! are nothing that bindgen could evaluate: they are translated here.

use bindgen::callbacks::ParseCallbacks;
use std::path::Path;

/// What the file begins with.
const HEAD: &str = "\
// SPDX-License-Identifier: Apache-2.0
//
// The C ABI of Weir as bindgen reads it from api/include/weir. Not written by hand: scripts/test-rust --regenerate
// writes it anew, and scripts/test-rust fails if it is not what the headers give.
";

/// Takes Doxygen's marks off: "<" of what stands behind a member, "@{" of what begins a group.
#[derive(Debug)]
struct Comments;

impl ParseCallbacks for Comments {
    fn process_comment(&self, comment: &str) -> Option<String> {
        let lines = comment.lines().map(|line| line.trim().trim_start_matches('<').trim());
        let text = lines.collect::<Vec<_>>().join("\n").replace("@{ ", "").replace("@}", "");
        Some(if text.contains('\n') { text } else { format!(" {text}") })
    }
}

/// The Rust constant of a line such as `#define WEIR_WHOLE UINT64_MAX`, if the line is one of that kind.
fn constant(line: &str) -> Option<String> {
    let (name, value) = line.strip_prefix("#define WEIR_")?.split_once(' ')?;
    let value = value.split("/*").next()?.trim();
    let kind = match value {
        _ if name.contains('(') => return None,
        value if value.starts_with("UINT32_C(") => "u32",
        value if value.starts_with("UINT64_C(") || value.contains("UINT64_MAX") => "u64",
        _ => return None,
    };
    let value = value.replace("UINT32_C", "").replace("UINT64_C", "").replace("UINT64_MAX", "u64::MAX");
    let value = value.trim_start_matches('(').trim_end_matches(')');
    Some(format!("pub const WEIR_{name}: {kind} = {value};"))
}

/// The constants of the public headers, in the order of the files' names.
fn constants(include: &Path) -> std::io::Result<Vec<String>> {
    let mut headers = std::fs::read_dir(include.join("weir"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    // The backend ABI is another interface: weir.h does not include it.
    headers.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
    headers.retain(|path| path.file_name().is_some_and(|name| name != "backend.h"));
    headers.sort();
    let mut found = Vec::new();
    for header in headers {
        found.extend(std::fs::read_to_string(header)?.lines().filter_map(constant));
    }
    Ok(found)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, include, output] = arguments.as_slice() else {
        eprintln!("use: weir-regenerate INCLUDE_FOLDER OUTPUT");
        std::process::exit(2);
    };
    let constants = constants(Path::new(include)).unwrap_or_else(|error| panic!("{include}: {error}"));
    let bindings = bindgen::Builder::default()
        .header_contents("weir_rust.h", "#include <weir/weir.h>\n")
        .clang_args([format!("-I{include}"), "-std=c11".into()])
        .allowlist_item("(weir|WEIR)_.*")
        .rust_target(bindgen::RustTarget::stable(75, 0).ok().expect("bindgen knows Rust 1.75"))
        .rust_edition(bindgen::RustEdition::Edition2021)
        .ctypes_prefix("::core::ffi")
        .use_core()
        .size_t_is_usize(true)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .parse_callbacks(Box::new(Comments))
        .formatter(bindgen::Formatter::Prettyplease)
        .disable_header_comment()
        .layout_tests(true)
        .generate()
        .unwrap_or_else(|error| panic!("bindgen: {error}"));
    std::fs::write(output, format!("{HEAD}\n{}\n\n{bindings}", constants.join("\n")))
        .unwrap_or_else(|error| panic!("{output}: {error}"));
}
