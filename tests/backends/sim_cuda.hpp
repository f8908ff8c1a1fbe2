// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUDA driver as its tests see it: loaded by path, its functions found by the vendor's look-up, one machine
// for each test. Helpers fail the test when the driver refuses; tests of refusals call the functions themselves.
#pragma once

#include "tests/support/cmocka.hpp"

#include "backends/cuda/abi.hpp"
#include "tests/drivers/cuda/symbols.hpp"
#include "tests/drivers/sim/control.h"

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace weir::test {

namespace abi = cuda::abi;
namespace result = cuda::abi::result;

#define OK(call) assert_int_equal((call), ::weir::cuda::abi::result::success)
#define IS(call, code) assert_int_equal((call), ::weir::cuda::abi::result::code)

inline constexpr uint64_t kib64 = uint64_t{64} << 10;

/// The library, and the functions of the newest version.
class Library {
 public:
  Library() {
    const char *folder = std::getenv("WEIR_LIB_DIR");
    const std::string path =
        std::string(folder != nullptr ? folder : "lib") + "/drivers/libweir_sim_cuda.so";
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) fail_msg("%s", dlerror());
    find(&get_proc, "cuGetProcAddress_v2");
#define WEIR_LOAD(space, type, exported, name, since, until) find(&exported, #exported);
    WEIR_SIM_CUDA_FUNCTIONS(WEIR_LOAD)
#undef WEIR_LOAD
    find(&configure, "weir_sim_configure");
    find(&complaint, "weir_sim_complaint");
    find(&fail_call, "weir_sim_fail");
    find(&calls, "weir_sim_calls");
    find(&misuse, "weir_sim_misuse");
    find(&lose_device, "weir_sim_lose_device");
    find(&alive, "weir_sim_alive");
    find(&resume, "weir_sim_resume");
  }

#define WEIR_MEMBER(space, type, exported, name, since, until) \
  sim_cuda::space::type *exported = nullptr;
  WEIR_SIM_CUDA_FUNCTIONS(WEIR_MEMBER)
#undef WEIR_MEMBER
  abi::fn::cuGetProcAddress_v2 *get_proc = nullptr;
  int (*configure)(const char *) = nullptr;
  const char *(*complaint)() = nullptr;
  void (*fail_call)(const char *, uint64_t, int64_t) = nullptr;
  uint64_t (*calls)(const char *) = nullptr;
  uint64_t (*misuse)(const char **) = nullptr;
  void (*lose_device)(uint32_t) = nullptr;
  uint64_t (*alive)(const char **) = nullptr;
  void (*resume)() = nullptr;

  void *symbol(const char *name) const { return dlsym(handle_, name); }

 private:
  template <class Function>
  void find(Function **function, const char *name) {
    void *found = dlsym(handle_, name);
    if (found == nullptr) fail_msg("the library has no %s", name);
    std::memcpy(function, &found, sizeof found);
  }
  void *handle_ = nullptr;
};

inline Library &library() {
  static Library one;
  return one;
}

inline unsigned char *bytes_at(uint64_t address) {
  return reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
}
inline uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// Host functions that wait at a gate: work behind it is pending for as long as the test likes.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;
  /// A lost device's stream is waited for by nobody: who stands here must have gone before the gate does.
  ~Gate() {
    std::unique_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return inside_ == 0; });
  }
  void open() {
    const std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// For cuLaunchHostFunc.
  static void pass(void *gate) { static_cast<Gate *>(gate)->wait(); }
  bool passed() {
    const std::lock_guard hold(mutex_);
    return passed_;
  }
  /// Until somebody stands at the gate.
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return visited_; });
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    visited_ = true;
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    passed_ = true;
    --inside_;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, passed_ = false, visited_ = false;
  uint32_t inside_ = 0;
};

/// A machine of its own with the primary context of device 0 current. Its end checks that nothing is left over.
class Sim {
 public:
  explicit Sim(const std::string &options = "") {
    const std::string all = "memory=4M;granule=64K;mode=strict;" + options;
    if (cu.configure(all.c_str()) != 0) fail_msg("configure: %s", cu.complaint());
    OK(cu.cuInit(0));
    use(0);
  }
  ~Sim() {
    abi::Context current = nullptr;
    while (cu.cuCtxPopCurrent_v2(&current) == result::success) {
    }
    for (size_t i = retained_.size(); i-- > 0;) OK(cu.cuDevicePrimaryCtxRelease_v2(retained_[i]));
    const char *text = "";
    if (cu.alive(&text) != 0) fail_msg("left over: %s", text);
  }
  Sim(const Sim &) = delete;
  Sim &operator=(const Sim &) = delete;

  /// Retains the device's primary context and makes it current.
  abi::Context use(int device) {
    abi::Context context = nullptr;
    OK(cu.cuDevicePrimaryCtxRetain(&context, device));
    retained_.push_back(device);
    OK(cu.cuCtxSetCurrent(context));
    return context;
  }
  /// Takes back one use() of the device.
  void release(int device) {
    retained_.erase(std::find(retained_.begin(), retained_.end(), device));
    OK(cu.cuDevicePrimaryCtxRelease_v2(device));
  }
  static abi::AllocationProperties properties(int device = 0, int types = abi::handle_none) {
    abi::AllocationProperties p{};
    p.type = abi::allocation_pinned;
    p.handle_types = types;
    p.location = {abi::location_device, device};
    return p;
  }
  abi::GranuleHandle granule(uint64_t bytes = kib64, int device = 0,
                             int types = abi::handle_none) const {
    abi::GranuleHandle made = 0;
    const auto p = properties(device, types);
    OK(cu.cuMemCreate(&made, bytes, &p, 0));
    return made;
  }
  abi::DevicePointer range(uint64_t bytes = kib64) const {
    abi::DevicePointer made = 0;
    OK(cu.cuMemAddressReserve(&made, bytes, 0, 0, 0));
    return made;
  }
  int access(uint64_t address, uint64_t bytes = kib64, int device = 0,
             int flags = abi::access_read_write) const {
    const abi::AccessDescription who{{abi::location_device, device}, flags};
    return cu.cuMemSetAccess(address, bytes, &who, 1);
  }
  /// A granule mapped in a range of its own; the handle is released at once.
  abi::DevicePointer mapped(uint64_t bytes = kib64, int device = 0) const {
    const abi::GranuleHandle memory = granule(bytes, device);
    const abi::DevicePointer address = range(bytes);
    OK(cu.cuMemMap(address, bytes, 0, memory, 0));
    OK(access(address, bytes, device));
    OK(cu.cuMemRelease(memory));
    return address;
  }
  void unmapped(uint64_t address, uint64_t bytes = kib64) const {
    OK(cu.cuMemUnmap(address, bytes));
    OK(cu.cuMemAddressFree(address, bytes));
  }
  abi::Stream stream(unsigned flags = abi::stream_non_blocking) const {
    abi::Stream made = nullptr;
    OK(cu.cuStreamCreate(&made, flags));
    return made;
  }
  abi::Event event() const {
    abi::Event made = nullptr;
    OK(cu.cuEventCreate(&made, abi::event_disable_timing));
    return made;
  }
  unsigned char *pinned(uint64_t bytes = kib64) const {
    void *made = nullptr;
    OK(cu.cuMemHostAlloc(&made, bytes, abi::host_allocate_portable));
    return static_cast<unsigned char *>(made);
  }
  abi::DevicePointer plain(uint64_t bytes = kib64) const {
    abi::DevicePointer made = 0;
    OK(cu.cuMemAlloc_v2(&made, bytes));
    return made;
  }
  uint64_t available() const {
    size_t free_bytes = 0;
    size_t total = 0;
    OK(cu.cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
  }
  /// The bytes at a device address, through the driver.
  std::vector<unsigned char> read(uint64_t address, uint64_t bytes = kib64) const {
    std::vector<unsigned char> content(bytes);
    OK(cu.cuMemcpyDtoH_v2(content.data(), address, bytes));
    return content;
  }
  bool all(uint64_t address, unsigned char value, uint64_t bytes = kib64) const {
    for (const unsigned char each : read(address, bytes)) {
      if (each != value) return false;
    }
    return true;
  }
  uint64_t misuses() const { return cu.misuse(nullptr); }

  Library &cu = library();

 private:
  std::vector<int> retained_;
};

}  // namespace weir::test
