// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver under the look-alike: its functions, one retained primary context a device, and its results as
// HIP's. The driver is opened by path, from WEIR_HIP_CUDA_LIBRARY, else as libcuda.so.1.
#pragma once

#include "backends/cuda/abi.hpp"
#include "backends/hip/abi.hpp"

#include <vector>

namespace weir::hip_over_cuda {

namespace cu = cuda::abi;
namespace abi = hip::abi;

/// The driver's functions; NULL where it has none of the wanted version.
struct Cuda {
#define WEIR_MEMBER(name, symbol, version) cu::fn::name *name = nullptr;
  WEIR_CUDA_ENTRIES(WEIR_MEMBER)
#undef WEIR_MEMBER
};

/// Opens the driver and its devices, once. Every other function needs it to have succeeded.
abi::Error start();
const Cuda &cuda() noexcept;
/// One a device, NULL where it was reset.
const std::vector<cu::Context> &contexts() noexcept;
/// Gives a device's context back. With the last one the driver is no longer started.
abi::Error reset(int device);

abi::Error from_cuda(cu::Result result) noexcept;

template <class Function, class... Arguments>
abi::Error call(Function *function, Arguments... arguments) {
  return function != nullptr ? from_cuda(function(arguments...)) : abi::not_supported;
}

/// The calling thread's current device, 0 at first.
int current_device() noexcept;
void set_current_device(int device) noexcept;

/// Makes a device's context current for a scope; the thread's own CUDA context is as before afterwards.
class InContext {
 public:
  explicit InContext(int device) noexcept;
  ~InContext();
  InContext(const InContext &) = delete;
  InContext &operator=(const InContext &) = delete;
  abi::Error error() const noexcept { return error_; }

 private:
  abi::Error error_;
};

/// A choice of the test's: the environment variable's text, or `otherwise`. Read at every use.
const char *setting(const char *variable, const char *otherwise) noexcept;
/// The same as a flag: "0" is no, anything else yes.
bool flag(const char *variable, bool otherwise) noexcept;

}  // namespace weir::hip_over_cuda
