// SPDX-License-Identifier: Apache-2.0

//! The safe interface is over the whole public one: each function of C is called somewhere in this crate, or stands in a
//! short list with the reason.

/// What the crate does without.
const WITHOUT: [(&str, &str); 2] = [
    ("weir_request_wait", "requests are fulfilled by their callback, so that they can be polled too"),
    ("weir_hold", "weir_hold_as has it as its shared mode"),
];

#[test]
fn every_function_of_c_is_used() {
    let bindings = include_str!("../../weir-sys/src/bindings.rs");
    let functions: Vec<&str> = bindings
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub fn "))
        .filter_map(|rest| rest.split('(').next())
        .collect();
    assert!(functions.len() > 70, "{} functions found", functions.len());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources: String = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    for function in functions {
        let without = WITHOUT.iter().any(|(name, _)| *name == function);
        assert_eq!(sources.contains(&format!("sys::{function}(")), !without, "{function}");
    }
}
