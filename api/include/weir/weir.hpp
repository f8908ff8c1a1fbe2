// SPDX-License-Identifier: Apache-2.0
//
// weir/weir.hpp - the C ABI for C++17 and later, in headers alone: handles that end what they own, results or exceptions,
// leases with spans, option structs with defaults. Everything here becomes calls of the C functions in the program itself, so
// nothing of it is part of the library's ABI. docs/cpp.md is the guide; the rules of each call are those of its C function.
//
//     auto context = weir::context::create({});
//     auto pool = weir::pool::create(context, desc);
//     pool.run(stream, {weir::read(a), weir::discard_write(b)}, [&](const weir::lease &lease) { launch(...); });
//
// The ways in which a translation unit may choose (exceptions, spans, RTTI) are in weir/cpp/config.hpp.
#ifndef WEIR_WEIR_HPP
#define WEIR_WEIR_HPP

#include <weir/cpp/buffer.hpp>
#include <weir/cpp/config.hpp>
#include <weir/cpp/context.hpp>
#include <weir/cpp/error.hpp>
#include <weir/cpp/host_resource.hpp>
#include <weir/cpp/lease.hpp>
#include <weir/cpp/memory.hpp>
#include <weir/cpp/options.hpp>
#include <weir/cpp/pool.hpp>
#include <weir/cpp/span.hpp>
#include <weir/cpp/stream.hpp>

#endif  // WEIR_WEIR_HPP
