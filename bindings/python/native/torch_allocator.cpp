// SPDX-License-Identifier: Apache-2.0
//
// libweir_torch.so: PyTorch's pluggable CUDA allocator on a Weir pool. PyTorch loads it by path and calls
// weir_torch_alloc and weir_torch_free with its own device numbers and native streams; it has no room for a pool in
// those calls, so weir_torch_configure names the one pool of the process. That is the only state here, and a mutex
// guards it. It never calls Python: PyTorch calls it on any thread, with the GIL or without.
//
// Native streams are wrapped once each and kept until the library is configured anew, because a wrapper must exist
// when memory is freed on it.

#include <weir/weir.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

struct Allocator {
  std::mutex mutex;
  weir_context context = nullptr;
  weir_pool pool = nullptr;
  weir_device first = 0;        // the weir_device of PyTorch's device 0
  std::uint32_t devices = 0;    // how many follow
  bool native_streams = false;  // whether `stream` is a native stream to be wrapped
  std::map<std::pair<weir_device, void *>, weir_stream> streams;
  std::uint64_t live = 0;
};

Allocator &allocator() {
  static Allocator one;
  return one;
}

// The wrapper of a native stream; nullptr (ready for any stream) where streams are not wrapped. Called locked.
weir_result stream_of(Allocator &self, weir_device device, void *native, weir_stream *stream) {
  *stream = nullptr;
  if (!self.native_streams) return WEIR_SUCCESS;
  const std::pair<weir_device, void *> key(device, native);
  if (const auto found = self.streams.find(key); found != self.streams.end()) {
    *stream = found->second;
    return WEIR_SUCCESS;
  }
  const auto place = self.streams.emplace(key, nullptr).first;
  const weir_result result = weir_stream_wrap(self.context, device, native, 0, &place->second);
  if (result != WEIR_SUCCESS) {
    self.streams.erase(place);
    return result;
  }
  *stream = place->second;
  return WEIR_SUCCESS;
}

weir_result allocate(std::size_t size, int device, void *native, std::uint64_t *address) {
  Allocator &self = allocator();
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (self.pool == nullptr || device < 0 || static_cast<std::uint32_t>(device) >= self.devices)
    return WEIR_ERROR_INVALID_ARGUMENT;
  const weir_device place = self.first + static_cast<weir_device>(device);
  weir_stream stream = nullptr;
  weir_result result = stream_of(self, place, native, &stream);
  if (result == WEIR_SUCCESS) result = weir_malloc(self.pool, place, stream, size, address);
  if (result == WEIR_SUCCESS) self.live++;
  return result;
}

std::string refusal(std::size_t size, int device, weir_result result) {
  const char *words = weir_last_error();
  return "out of memory: Weir could not give " + std::to_string(size) + " bytes on device " +
         std::to_string(device) + " (" + weir_result_string(result) +
         "): " + (words[0] != '\0' ? words : "no pool has been set for this device");
}

}  // namespace

extern "C" {

/// What the pool is. Fails with BUSY while memory is out, and changes nothing then. A NULL pool ends the use of the former one.
WEIR_API weir_result weir_torch_configure(weir_context context, weir_pool pool, weir_device first,
                                          std::uint32_t devices, int native_streams) try {
  Allocator &self = allocator();
  const std::lock_guard<std::mutex> lock(self.mutex);
  if (self.live != 0) return WEIR_ERROR_BUSY;
  for (const auto &entry : self.streams) (void)weir_stream_close(entry.second);
  self.streams.clear();
  self.context = context;
  self.pool = pool;
  self.first = first;
  self.devices = devices;
  self.native_streams = native_streams != 0;
  return WEIR_SUCCESS;
} catch (...) {
  return WEIR_ERROR_INTERNAL;
}

/// How many allocations are out.
WEIR_API std::uint64_t weir_torch_live() {
  Allocator &self = allocator();
  const std::lock_guard<std::mutex> lock(self.mutex);
  return self.live;
}

/// NULL if it can't be had; size 0 is NULL too.
WEIR_API void *weir_torch_alloc(std::size_t size, int device, void *stream) try {
  std::uint64_t address = 0;
  if (size == 0 || allocate(size, device, stream, &address) != WEIR_SUCCESS) return nullptr;
  return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address));
} catch (...) {
  return nullptr;
}

/// What PyTorch is given: it does not look for NULL, but passes a C++ exception on as a RuntimeError of Python.
WEIR_API void *weir_torch_alloc_or_throw(std::size_t size, int device, void *stream) {
  if (size == 0) return nullptr;
  std::uint64_t address = 0;
  const weir_result result = allocate(size, device, stream, &address);
  if (result != WEIR_SUCCESS) throw std::runtime_error(refusal(size, device, result));
  return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address));
}

/// Frees after the work enqueued so far on `stream`. There is nobody to tell of an error: it goes to stderr.
WEIR_API void weir_torch_free(void *memory, std::size_t size, int device, void *stream) try {
  if (memory == nullptr) return;
  Allocator &self = allocator();
  const std::lock_guard<std::mutex> lock(self.mutex);
  weir_stream wrapped = nullptr;
  weir_result result =
      stream_of(self, self.first + static_cast<weir_device>(device), stream, &wrapped);
  if (result == WEIR_SUCCESS)
    result = weir_free(self.pool, wrapped,
                       static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory)));
  if (result == WEIR_SUCCESS)
    self.live--;
  else
    std::fprintf(stderr, "weir: freeing %zu bytes on device %d: %s\n", size, device,
                 weir_last_error());
} catch (...) {
  std::fprintf(stderr, "weir: freeing %zu bytes on device %d: out of host memory\n", size, device);
}
}
