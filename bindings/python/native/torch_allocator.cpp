// SPDX-License-Identifier: Apache-2.0
//
// libweir_torch.so: PyTorch's pluggable CUDA allocator on a Weir pool. PyTorch loads it by path and calls
// weir_torch_alloc and weir_torch_free with its own device numbers and native streams; it has no room for a pool in
// those calls, so weir_torch_configure names the one pool of the process. That is the only state here. A mutex guards
// it, and is not held in any call of Weir: such a call may wait for a thread that is about to come here. What is out
// (`live`) keeps the pool and the streams from being changed meanwhile.
//
// It never calls Python: PyTorch calls it on any thread, with the GIL or without. So a free never waits either: memory that
// other streams use (record_stream) and that is freed while they are at work is put aside, and goes back when a later call
// finds them done. Only an allocation that can't be met waits for them.
//
// Native streams are wrapped once each and kept until the library is configured anew, because a wrapper must exist
// when memory is freed on it.

#include <weir/weir.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Lock = std::lock_guard<std::mutex>;

// Memory that PyTorch has, or that it has freed and that `users` may still be at work on.
struct Memory {
  std::uint64_t address = 0;
  weir_device device = 0;
  weir_stream freed_on = nullptr;
  std::vector<weir_stream> users;
};

struct Allocator {
  std::mutex mutex;
  weir_context context = nullptr;
  weir_pool pool = nullptr;
  weir_device first = 0;        // the weir_device of PyTorch's device 0
  std::uint32_t devices = 0;    // how many follow
  bool native_streams = false;  // whether `stream` is a native stream to be wrapped
  std::map<std::pair<weir_device, void *>, weir_stream> streams;
  std::map<std::uint64_t, Memory> out;  // by address
  std::vector<Memory> aside;            // freed, and not given back yet
  std::uint64_t live = 0;               // allocations that are out, aside or about to be made
};

Allocator &allocator() {
  static Allocator one;
  return one;
}

// The wrapper of a native stream; nullptr (ready for any stream) where streams are not wrapped. Something is live.
weir_result stream_of(Allocator &self, weir_device device, void *native, weir_stream *stream) {
  *stream = nullptr;
  if (!self.native_streams) return WEIR_SUCCESS;
  const std::pair<weir_device, void *> key(device, native);
  {
    const Lock lock(self.mutex);
    if (const auto found = self.streams.find(key); found != self.streams.end()) {
      *stream = found->second;
      return WEIR_SUCCESS;
    }
  }
  weir_stream made = nullptr;
  const weir_result result = weir_stream_wrap(self.context, device, native, 0, &made);
  if (result != WEIR_SUCCESS) return result;
  bool taken = false;
  try {
    const Lock lock(self.mutex);
    const auto place = self.streams.emplace(key, made);
    *stream = place.first->second;
    taken = place.second;
  } catch (...) {
    (void)weir_stream_close(made);
    throw;
  }
  if (!taken) (void)weir_stream_close(made);  // another thread was first
  return WEIR_SUCCESS;
}

bool idle(weir_stream stream, bool wait) {
  const weir_result result = wait ? weir_stream_synchronize(stream) : weir_stream_query(stream);
  return result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST;
}

weir_result give_back(Allocator &self, const Memory &memory) {
  const weir_result result = weir_free(self.pool, memory.freed_on, memory.address);
  if (result != WEIR_SUCCESS) {
    std::fprintf(stderr, "weir: freeing memory of PyTorch on device %d: %s\n",
                 static_cast<int>(memory.device), weir_last_error());
    return result;
  }
  const Lock lock(self.mutex);
  self.live--;
  return result;
}

// Gives back what was put aside and is not worked on any more; with `wait`, all of it. Whether there was any.
bool sweep(Allocator &self, bool wait) {
  std::vector<Memory> found;
  {
    const Lock lock(self.mutex);
    found.swap(self.aside);
  }
  const bool any = !found.empty();
  const auto rest = std::partition(found.begin(), found.end(), [wait](const Memory &each) {
    return std::all_of(each.users.begin(), each.users.end(),
                       [wait](weir_stream user) { return idle(user, wait); });
  });
  std::for_each(found.begin(), rest, [&self](const Memory &each) { (void)give_back(self, each); });
  found.erase(found.begin(), rest);
  const Lock lock(self.mutex);
  for (Memory &each : found) self.aside.push_back(std::move(each));
  return any;
}

bool is_full(weir_result result) {
  return result == WEIR_ERROR_OVER_BUDGET || result == WEIR_ERROR_WOULD_BLOCK ||
         result == WEIR_ERROR_DEVICE_OOM;
}

weir_result take(Allocator &self, std::size_t size, weir_device device, void *native,
                 std::uint64_t *address) {
  weir_stream stream = nullptr;
  (void)sweep(self, false);
  weir_result result = stream_of(self, device, native, &stream);
  if (result == WEIR_SUCCESS) result = weir_malloc(self.pool, device, stream, size, address);
  if (is_full(result) && sweep(self, true))
    result = weir_malloc(self.pool, device, stream, size, address);
  if (result != WEIR_SUCCESS) return result;
  try {
    const Lock lock(self.mutex);
    self.out[*address] = Memory{*address, device, nullptr, {}};
  } catch (...) {
    (void)weir_free(self.pool, stream, *address);
    throw;
  }
  return WEIR_SUCCESS;
}

// An allocation that is about to be made; it counts as live for good once it is kept.
class Reservation {
 public:
  explicit Reservation(Allocator &self) : self_(self) {}
  ~Reservation() {
    if (kept_) return;
    const Lock lock(self_.mutex);
    self_.live--;
  }
  Reservation(const Reservation &) = delete;
  Reservation &operator=(const Reservation &) = delete;
  void keep() { kept_ = true; }

 private:
  Allocator &self_;
  bool kept_ = false;
};

weir_result allocate(std::size_t size, int device, void *native, std::uint64_t *address) {
  Allocator &self = allocator();
  weir_device place = 0;
  {
    const Lock lock(self.mutex);
    if (self.pool == nullptr || device < 0 || static_cast<std::uint32_t>(device) >= self.devices)
      return WEIR_ERROR_INVALID_ARGUMENT;
    place = self.first + static_cast<weir_device>(device);
    self.live++;
  }
  Reservation reservation(self);
  const weir_result result = take(self, size, place, native, address);
  if (result == WEIR_SUCCESS) reservation.keep();
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
  (void)sweep(self, true);
  std::map<std::pair<weir_device, void *>, weir_stream> former;
  {
    const Lock lock(self.mutex);
    if (self.live != 0) return WEIR_ERROR_BUSY;
    self.streams.swap(former);
    self.context = context;
    self.pool = pool;
    self.first = first;
    self.devices = devices;
    self.native_streams = native_streams != 0;
  }
  for (const auto &entry : former) (void)weir_stream_close(entry.second);
  return WEIR_SUCCESS;
} catch (...) {
  return WEIR_ERROR_INTERNAL;
}

/// How many allocations are out, with those that wait for a stream.
WEIR_API std::uint64_t weir_torch_live() {
  Allocator &self = allocator();
  const Lock lock(self.mutex);
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

/// Work enqueued so far on `stream` uses the memory, which was allocated for another one: a free waits for it too.
WEIR_API void weir_torch_record_stream(void *memory, void *stream) try {
  Allocator &self = allocator();
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory));
  weir_device device = 0;
  {
    const Lock lock(self.mutex);
    const auto found = self.out.find(address);
    if (found == self.out.end()) return;
    device = found->second.device;
  }
  weir_stream user = nullptr;
  if (stream_of(self, device, stream, &user) != WEIR_SUCCESS) {
    std::fprintf(stderr, "weir: recording a stream on device %d: %s\n", static_cast<int>(device),
                 weir_last_error());
    return;
  }
  if (user == nullptr) return;
  const Lock lock(self.mutex);
  const auto found = self.out.find(address);
  if (found == self.out.end()) return;
  std::vector<weir_stream> &users = found->second.users;
  if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
} catch (...) {
  std::fprintf(stderr, "weir: recording a stream: out of host memory\n");
}

/// Frees after the work enqueued so far on `stream` and on those that were recorded. No caller can be told of an error: it goes
/// to stderr.
WEIR_API void weir_torch_free(void *memory, std::size_t size, int device, void *stream) try {
  if (memory == nullptr) return;
  Allocator &self = allocator();
  Memory freed;
  {
    const Lock lock(self.mutex);
    const auto found =
        self.out.find(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory)));
    if (found == self.out.end()) {
      std::fprintf(stderr, "weir: freeing %zu bytes on device %d: they are not of this allocator\n",
                   size, device);
      return;
    }
    freed = std::move(found->second);
    self.out.erase(found);
  }
  if (stream_of(self, freed.device, stream, &freed.freed_on) != WEIR_SUCCESS) {
    std::fprintf(stderr, "weir: freeing %zu bytes on device %d: %s\n", size, device,
                 weir_last_error());
    return;
  }
  {
    const Lock lock(self.mutex);
    self.aside.push_back(std::move(freed));
  }
  (void)sweep(self, false);
} catch (...) {
  std::fprintf(stderr, "weir: freeing %zu bytes on device %d: out of host memory\n", size, device);
}
}
