// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's state in a vendor's runtime, where there is one that can be asked: the library that the
// backend has loaded is looked up, never loaded here. Elsewhere these requirements have nothing to look at, and
// say so.
#include "conformance/fixtures.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace weir::conformance {
namespace {

/// The function of a library that is in the process already; nullptr if there is none.
template <class Function>
bool find_loaded(const char *variable, const char *name, const char *symbol, Function **function) {
  const char *path = std::getenv(variable);
  void *library = dlopen(path != nullptr && *path != '\0' ? path : name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  void *found = dlsym(library, symbol);
  std::memcpy(function, &found, sizeof found);
  return found != nullptr;
}

/// What the thread has chosen in its runtime: a context, or a device. All vendors' calls return 0 for success.
class Choice {
 public:
  Choice() {
    const bool cuda =
        find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuCtxGetCurrent", &get_context_) &&
        find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuCtxSetCurrent", &set_context_) &&
        find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuDevicePrimaryCtxRetain", &retain_);
    if (!cuda) get_context_ = nullptr;
    bool hip = false;
    for (const char *name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
      hip = hip || (find_loaded("WEIR_HIP_LIBRARY", name, "hipGetDevice", &get_device_) &&
                    find_loaded("WEIR_HIP_LIBRARY", name, "hipSetDevice", &set_device_));
    }
    if (!hip) get_device_ = nullptr;
  }
  bool any() const noexcept { return get_context_ != nullptr || get_device_ != nullptr; }
  /// Makes the thread choose something of the first device.
  void choose() const {
    void *context = nullptr;
    if (get_context_ != nullptr && retain_(&context, 0) == 0) (void)set_context_(context);
    if (get_device_ != nullptr) (void)set_device_(0);
  }
  /// Fails if the thread's choice is not what it was when note() was called.
  void note() { get(&context_, &device_); }
  Outcome same(const char *after) const {
    void *context = nullptr;
    int device = -1;
    get(&context, &device);
    CHECK(context == context_, "after ", after, " the thread's current context is ", context,
          ", and was ", context_);
    CHECK(device == device_, "after ", after, " the thread's current device is ", device,
          ", and was ", device_);
    return {};
  }

 private:
  void get(void **context, int *device) const {
    if (get_context_ != nullptr) (void)get_context_(context);
    if (get_device_ != nullptr) (void)get_device_(device);
  }
  int (*get_context_)(void **) = nullptr;
  int (*set_context_)(void *) = nullptr;
  int (*retain_)(void **, int) = nullptr;
  int (*get_device_)(int *) = nullptr;
  int (*set_device_)(int) = nullptr;
  void *context_ = nullptr;
  int device_ = -1;
};

/// Calls of every group on one device, with a look after each.
Outcome walk(Test &t, uint32_t device, const Choice &choice) {
  uint64_t address = 0;
  {
    weir_be_device about;
    TRY(t.describe(device, &about));
    TRY(choice.same("device_describe"));
    uint64_t free_bytes = 0, total = 0;
    MUST(device_memory, device, &free_bytes, &total);
    TRY(choice.same("device_memory"));
    Plain plain(t, device);
    Pinned pinned(t);
    Stream stream(t, device);
    Fence fence(t);
    TRY(plain.allocate(4096));
    TRY(choice.same("plain_allocate"));
    TRY(pinned.allocate(4096));
    TRY(choice.same("host_allocate"));
    TRY(stream.create());
    TRY(choice.same("stream_create"));
    TRY(stream.fill(plain.address(), 1, 4096));
    TRY(choice.same("fill_async"));
    TRY(stream.copy(pinned.address(), plain.address(), 4096));
    TRY(choice.same("copy_async"));
    TRY(fence.record(stream));
    TRY(choice.same("fence_record"));
    MUST(stream_wait, stream.get(), fence.get());
    TRY(choice.same("stream_wait"));
    TRY(fence.wait());
    TRY(choice.same("fence_wait"));
    TRY(stream.synchronize());
    TRY(choice.same("stream_synchronize"));
    REFUSED(plain_allocate, device, t.about.memory_total * 2, 4096, &address);
    TRY(choice.same("a plain_allocate that is refused"));
    TRY(fence.destroy());
    TRY(choice.same("fence_destroy"));
    TRY(stream.destroy());
    TRY(choice.same("stream_destroy"));
    TRY(pinned.free());
    TRY(choice.same("host_free"));
  }
  TRY(choice.same("plain_free"));
  if (t.granule == 0) return {};
  {
    Mapped mapped(t, device);
    TRY(mapped.make(t.granule, t.granule));
    TRY(choice.same("map"));
    TRY(mapped.mapping.unmap());
    TRY(choice.same("unmap"));
  }
  return choice.same("granule_destroy");
}

REQUIRE(
    "RT-017", always(),
    "Entries leave the thread's current context or device of the runtime as they found it: none.") {
  return in_threads(1, [&](uint32_t) -> Outcome {
    Choice choice;
    if (!choice.any()) {
      t.note("no runtime that has such a state");
      return {};
    }
    choice.note();
    for (uint32_t device = t.device_count; device-- > 0;) TRY(walk(t, device, choice));
    return {};
  });
}

REQUIRE("RT-018", always(),
        "Entries leave the thread's current context or device of the runtime as they found it: one "
        "of another device.") {
  return in_threads(1, [&](uint32_t) -> Outcome {
    Choice choice;
    if (!choice.any()) {
      t.note("no runtime that has such a state");
      return {};
    }
    choice.choose();
    choice.note();
    for (uint32_t device = t.device_count; device-- > 0;) TRY(walk(t, device, choice));
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
