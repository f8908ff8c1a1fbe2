// SPDX-License-Identifier: Apache-2.0
//
// Handles: RAII over the C API, and the one way a failed call becomes a ToolError: what was done,
// the result's text, and weir_last_error(). Every destructor leaves nothing behind as long as
// handles die in reverse order.
#pragma once

#include <weir/weir.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace weir::tool {

/// Throws ToolError unless the result is WEIR_SUCCESS.
void require(weir_result result, const std::string &doing);

struct ContextClose {
  void operator()(weir_context context) const noexcept { weir_context_destroy(context); }
};
struct StreamClose {
  void operator()(weir_stream stream) const noexcept { weir_stream_close(stream); }
};
struct PoolClose {
  void operator()(weir_pool pool) const noexcept { weir_pool_destroy(pool); }
};
using Context = std::unique_ptr<std::remove_pointer_t<weir_context>, ContextClose>;
using Stream = std::unique_ptr<std::remove_pointer_t<weir_stream>, StreamClose>;
using Pool = std::unique_ptr<std::remove_pointer_t<weir_pool>, PoolClose>;

/// `options` empty: what WEIR_OPTIONS says.
Context open_context(const std::string &options, uint64_t flags = 0);
Stream open_stream(weir_context context, weir_device device);

/// The first device of the backend. ToolError if there is none, with the backend's own reason.
weir_device find_device(weir_context context, const std::string &backend);

}  // namespace weir::tool
