// SPDX-License-Identifier: Apache-2.0

//! Nothing: the tests are what this crate is for.
