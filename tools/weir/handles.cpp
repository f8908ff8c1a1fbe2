// SPDX-License-Identifier: Apache-2.0
//
// Opening of handles and the wording of failures.
#include "handles.hpp"

#include "error.hpp"
#include "usage.hpp"

namespace weir::tool {

void require(weir_result result, const std::string &doing) {
  if (result == WEIR_SUCCESS) return;
  const std::string detail = weir_last_error();
  throw ToolError(doing + ": " + weir_result_string(result) +
                  (detail.empty() ? "" : ": " + detail));
}

Context open_context(const std::string &options, uint64_t flags) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = flags;
  if (!options.empty()) desc.options = options.c_str();
  weir_context context = nullptr;
  require(weir_context_create(&desc, &context),
          options.empty() ? std::string("cannot start Weir")
                          : "cannot start Weir with the options '" + options + "'");
  return Context(context);
}

Stream open_stream(weir_context context, weir_device device) {
  weir_stream stream = nullptr;
  require(weir_stream_create(context, device, 0, &stream),
          "cannot create a stream on device " + std::to_string(device));
  return Stream(stream);
}

weir_device find_device(weir_context context, const std::string &backend) {
  uint32_t count = 0;
  require(weir_backend_count(context, &count), "cannot list the backends");
  Choices known;
  for (uint32_t i = 0; i < count; ++i) {
    weir_backend_info info = WEIR_BACKEND_INFO_INIT;
    require(weir_backend_info_get(context, i, &info),
            "cannot ask about backend " + std::to_string(i));
    if (backend == info.name) {
      if (info.available == 0)
        throw ToolError("backend '" + backend + "' is not available: " + info.reason);
      if (info.device_count == 0) throw ToolError("backend '" + backend + "' has no device");
      return info.first_device;
    }
    known.emplace_back(info.name);
  }
  if (known.empty()) throw ToolError("--backend: '" + backend + "' is not there, nor any other");
  throw ToolError(no_such_value("--backend", backend, known));
}

}  // namespace weir::tool
