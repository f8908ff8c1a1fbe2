// SPDX-License-Identifier: Apache-2.0

//! The C ABI of Weir as it is: types, constants and functions of `weir/weir.h`, found by
//! bindgen, and the `*_INIT` macros as [`Init::INIT`]. The crate `weir` has the safe interface.
//!
//! Ownership, units, thread safety and errors are those of the C headers, whose comments stand here too.

#![no_std]
#![allow(missing_docs)]

#[rustfmt::skip]
#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    rustdoc::bare_urls,
    clippy::all
)]
mod bindings;
mod init;

pub use bindings::*;
pub use init::Init;
