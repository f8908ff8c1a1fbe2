// SPDX-License-Identifier: Apache-2.0
//
// The runtime, its devices and what lies between them. What the look-alike pretends to be is read from the
// environment at every call:
//   WEIR_HIP_LOOKALIKE_VERSION   what hipRuntimeGetVersion tells; 60300000
//   WEIR_HIP_LOOKALIKE_LINK      xgmi or pcie, between devices that reach each other; xgmi

#include "tests/drivers/hip/cuda.hpp"
#include "tests/drivers/hip/hip.hpp"

#include <cstdlib>
#include <cstring>

namespace {

namespace abi = weir::hip::abi;
namespace cu = weir::cuda::abi;
using weir::hip_over_cuda::call;
using weir::hip_over_cuda::contexts;
using weir::hip_over_cuda::cuda;
using weir::hip_over_cuda::current_device;
using weir::hip_over_cuda::InContext;

abi::Error check(int device) {
  const abi::Error error = weir::hip_over_cuda::start();
  if (error != abi::success) return error;
  return device >= 0 && static_cast<size_t>(device) < contexts().size() ? abi::success
                                                                        : abi::invalid_device;
}

abi::Error check(const void *out, int device) {
  return out != nullptr ? check(device) : abi::invalid_value;
}

int cuda_attribute(abi::Attribute attribute) {
  switch (attribute) {
    case abi::attribute_pci_bus:
      return cu::attribute::pci_bus_id;
    case abi::attribute_pci_device:
      return cu::attribute::pci_device_id;
    case abi::attribute_pci_domain:
      return cu::attribute::pci_domain_id;
    case abi::attribute_integrated:
      return cu::attribute::integrated;
    case abi::attribute_virtual_memory:
      return cu::attribute::virtual_memory_management_supported;
    case abi::attribute_host_register:
      return cu::attribute::host_register_supported;
    default:
      return 0;
  }
}

}  // namespace

abi::Error hipInit(unsigned flags) {
  return flags == 0 ? weir::hip_over_cuda::start() : abi::invalid_value;
}

abi::Error hipRuntimeGetVersion(int *version) {
  if (version == nullptr) return abi::invalid_value;
  *version = std::atoi(weir::hip_over_cuda::setting("WEIR_HIP_LOOKALIKE_VERSION", "60300000"));
  return abi::success;
}

abi::Error hipGetDeviceCount(int *count) {
  if (count == nullptr) return abi::invalid_value;
  *count = 0;
  const abi::Error error = weir::hip_over_cuda::start();
  if (error == abi::success) *count = static_cast<int>(contexts().size());
  return error;
}

abi::Error hipGetDevice(int *device) {
  const abi::Error error = check(device, 0);
  if (error == abi::success) *device = current_device();
  return error;
}

abi::Error hipSetDevice(int device) {
  const abi::Error error = check(device);
  if (error == abi::success) weir::hip_over_cuda::set_current_device(device);
  return error;
}

abi::Error hipDeviceReset() {
  const abi::Error error = check(current_device());
  return error == abi::success ? weir::hip_over_cuda::reset(current_device()) : error;
}

abi::Error hipDeviceGetName(char *name, int bytes, abi::Device device) {
  const abi::Error error = check(name, device);
  return error == abi::success ? call(cuda().cuDeviceGetName, name, bytes, device) : error;
}

abi::Error hipDeviceGetUuid(abi::Uuid *uuid, abi::Device device) {
  const abi::Error error = check(uuid, device);
  if (error != abi::success) return error;
  cu::Uuid found{};
  const abi::Error asked = call(cuda().cuDeviceGetUuid, &found, device);
  if (asked == abi::success) std::memcpy(uuid, &found, sizeof *uuid);
  return asked;
}

abi::Error hipDeviceGetAttribute(int *value, abi::Attribute attribute, int device) {
  const abi::Error error = check(value, device);
  if (error != abi::success) return error;
  const int wanted = cuda_attribute(attribute);
  return wanted != 0 ? call(cuda().cuDeviceGetAttribute, value, wanted, device)
                     : abi::invalid_value;
}

abi::Error hipDeviceTotalMem(size_t *bytes, abi::Device device) {
  const abi::Error error = check(bytes, device);
  return error == abi::success ? call(cuda().cuDeviceTotalMem, bytes, device) : error;
}

abi::Error hipMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return abi::invalid_value;
  const InContext context(current_device());
  if (context.error() != abi::success) return context.error();
  return call(cuda().cuMemGetInfo, free_bytes, total_bytes);
}

abi::Error hipDeviceCanAccessPeer(int *can, int device, int peer) {
  abi::Error error = check(can, device);
  if (error == abi::success) error = check(peer);
  if (error != abi::success) return error;
  if (device == peer) {
    *can = 0;
    return abi::success;
  }
  return call(cuda().cuDeviceCanAccessPeer, can, device, peer);
}

abi::Error hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return abi::invalid_value;
  const abi::Error error = check(peer);
  if (error != abi::success) return error;
  if (peer == current_device()) return abi::invalid_device;
  const InContext context(current_device());
  if (context.error() != abi::success) return context.error();
  return call(cuda().cuCtxEnablePeerAccess, contexts()[static_cast<size_t>(peer)], 0U);
}

abi::Error hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *type, uint32_t *hops) {
  if (type == nullptr || hops == nullptr || from == to) return abi::invalid_value;
  int reach = 0;
  const abi::Error error = hipDeviceCanAccessPeer(&reach, from, to);
  if (error != abi::success) return error;
  const bool xgmi =
      reach != 0 &&
      std::strcmp(weir::hip_over_cuda::setting("WEIR_HIP_LOOKALIKE_LINK", "xgmi"), "xgmi") == 0;
  *type = xgmi ? abi::link_xgmi : abi::link_pcie;
  *hops = xgmi ? 1 : 2;
  return abi::success;
}
