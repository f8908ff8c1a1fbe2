// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing the structs of weir/opencl.h, whose sizes are the caller's.

#include "backends/opencl/natives.hpp"

#include "backends/common/entry.hpp"
#include "backends/opencl/errors.hpp"

#include <weir/opencl.h>

#include <cstddef>
#include <cstring>

namespace weir::opencl {

std::string read_native(const weir_be_start &desc, Options *options) {
  constexpr size_t since = offsetof(weir_be_start, native) + sizeof desc.native;
  if (desc.struct_size < since || desc.native == nullptr) return {};
  struct Head {
    uint32_t struct_size, kind;
  } head{};
  std::memcpy(&head, desc.native, sizeof head);
  if (head.kind != WEIR_OPENCL_CONTEXT)
    return "natives: kind " + std::to_string(head.kind) +
           " is not known (WEIR_OPENCL_CONTEXT is 1)";
  weir_opencl_context given{};
  if (head.struct_size < sizeof given)
    return "natives: struct_size is " + std::to_string(head.struct_size) +
           ", less than a weir_opencl_context";
  std::memcpy(&given, desc.native, sizeof given);
  if (given.context == nullptr) return "natives: the cl_context is NULL";
  if (options->context != 0) return "natives and the option context both name a cl_context";
  if (options->platform != Options::any)
    return "option platform: the cl_context that natives names has its platform";
  options->context = reinterpret_cast<uintptr_t>(given.context);
  return {};
}

weir_result tell_memory(const Platform &platform, const Memory &memory, uint32_t device,
                        uint64_t address, uint32_t kind, void *out) {
  WEIR_BACKEND_TRY(platform.check_device(device));
  if (kind != WEIR_OPENCL_MEMORY)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "native memory of kind %u", kind);
  if (out == nullptr) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "out is NULL");
  auto *told = static_cast<weir_opencl_memory *>(out);
  weir_opencl_memory full{};
  if (told->struct_size < sizeof full)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "struct_size is %u, less than a weir_opencl_memory",
                  told->struct_size);
  uint64_t base = 0;
  if (!memory.find_plain(device, address, &base, &full.bytes))
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "device %u has no memory at %#llx", device,
                  number(address));
  full.type = platform.usm() ? WEIR_OPENCL_USM : WEIR_OPENCL_SVM;
  full.context = platform.context();
  full.base = reinterpret_cast<void *>(static_cast<uintptr_t>(base));
  full.offset = address - base;
  common::give(full, told);
  return WEIR_SUCCESS;
}

}  // namespace weir::opencl
