// SPDX-License-Identifier: Apache-2.0
//
// The HIP runtime: its library, its functions, and its errors as results. Nothing of a runtime older than ROCm 6 is
// called but the question for its version, and nothing at all after a failed start.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/common/library.hpp"
#include "backends/hip/abi.hpp"

#include <string>

namespace weir::hip {

using common::refuse;
using common::runtime_failure;
using common::system_failure;

/// The runtime's functions; NULL where the library has none.
struct Functions {
#define WEIR_HIP_MEMBER(name, need) abi::fn::name *name = nullptr;
  WEIR_HIP_ENTRIES(WEIR_HIP_MEMBER)
#undef WEIR_HIP_MEMBER
};

class Runtime {
 public:
  /// Finds and starts the runtime. False: *reason says why in words for a person.
  bool start(std::string *reason);

  const Functions &call() const noexcept { return functions_; }
  /// Whether the library has every function of a group.
  bool has(abi::Need need) const noexcept { return (missing_ & bit(need)) == 0; }
  /// The functions that it lacks, for a person; "" if none.
  const std::string &lacking() const noexcept { return lacking_; }
  uint32_t devices() const noexcept { return devices_; }
  int version() const noexcept { return version_; }
  /// "6.3.42131".
  const std::string &version_text() const noexcept { return version_text_; }

 private:
  static uint32_t bit(abi::Need need) noexcept {
    return uint32_t{1} << static_cast<uint32_t>(need);
  }
  bool ask_version(std::string *reason);
  void find_functions();

  common::Library library_;
  Functions functions_;
  uint32_t missing_ = 0;
  std::string lacking_;
  uint32_t devices_ = 0;
  int version_ = 0;
  std::string version_text_;
};

/// What a code means for the core.
weir_result result_of(abi::Error error) noexcept;
/// A code in words; never nullptr.
const char *words(abi::Error error) noexcept;
/// Notes that the call named `what` failed and returns the result for its code; SUCCESS and NOT_READY note nothing.
weir_result checked(abi::Error error, const char *what) noexcept;
/// The same where the runtime's complaint about a value or a handle is one about what the caller gave.
weir_result checked_argument(abi::Error error, const char *what) noexcept;

/// Makes a call that ends something where no caller can be told of a failure: while taking back, or at the very end. One
/// that failed is tried once more.
template <class Call>
void end_quietly(Call call) noexcept {
  if (call() != abi::success) (void)call();
}

/// Lifts the ban on calls that are unsafe while another thread captures a graph, for the scope. While any thread captures
/// in the global mode, hipMalloc or hipEventQuery on another thread fails; what Weir does belongs in no graph.
class Relaxed {
 public:
  explicit Relaxed(const Runtime &runtime) noexcept
      : runtime_(runtime),
        swapped_(runtime.call().hipThreadExchangeStreamCaptureMode(&mode_) == abi::success) {}
  ~Relaxed() {
    if (swapped_)
      end_quietly([&] { return runtime_.call().hipThreadExchangeStreamCaptureMode(&mode_); });
  }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;

 private:
  const Runtime &runtime_;
  abi::CaptureMode mode_ = abi::capture_mode_relaxed;
  bool swapped_;
};

/// A current device and a relaxed capture mode for a scope; the thread's own are back afterwards.
class OnDevice {
 public:
  OnDevice(const Runtime &runtime, uint32_t device) noexcept;
  ~OnDevice();
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
  /// SUCCESS, or why the device could not be made current.
  weir_result result() const noexcept { return result_; }

 private:
  const Runtime &runtime_;
  const Relaxed relaxed_;
  int before_ = 0;
  bool changed_ = false;
  weir_result result_ = WEIR_SUCCESS;
};

}  // namespace weir::hip

/// Returns early with the result for a runtime's code that is not success. Only for calls that can't be NOT_READY.
#define WEIR_HIP_TRY(expression, what) WEIR_BACKEND_TRY(::weir::hip::checked((expression), what))
