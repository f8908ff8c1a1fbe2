// SPDX-License-Identifier: Apache-2.0
//
// Memory of cl_intel_unified_shared_memory, of shared virtual memory, and of the system. The first two take alignments up
// to that of the largest type only (128 bytes as a rule): where more is wanted and does not come by itself, a larger
// piece is taken and the address lies inside it.

#include "backends/opencl/memory.hpp"

#include "backends/opencl/errors.hpp"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <utility>

namespace weir::opencl {
namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t largest_alignment = uint64_t{2} << 20U;

void *pointer(uint64_t address) noexcept {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}
uint64_t address_of(const void *memory) noexcept { return reinterpret_cast<uintptr_t>(memory); }

uint64_t up_to(uint64_t address, uint64_t alignment) noexcept {
  return (address + alignment - 1) / alignment * alignment;
}

}  // namespace

Memory::~Memory() {
  for (const auto &[address, range] : ranges_) {
    twice([&, each = range] { return release(each.kind, each.base, each.held); });
  }
}

/// nullptr with the code why.
void *Memory::allocate(uint32_t device, Kind kind, uint64_t bytes, cl_int *code) const noexcept {
  const Api &api = platform_.api();
  *code = CL_SUCCESS;
  void *made = nullptr;
  if (kind == Kind::plain) {
    const cl_device_id handle = platform_.devices()[device].handle;
    made = platform_.usm()
               ? api.clDeviceMemAllocINTEL(platform_.context(), handle, nullptr, bytes, 0, code)
               : api.clSVMAlloc(platform_.context(), CL_MEM_READ_WRITE, bytes, 0);
  } else if (platform_.host_usm()) {
    made = api.clHostMemAllocINTEL(platform_.context(), nullptr, bytes, 0, code);
  } else {
    made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) made = nullptr;
    if (made == nullptr) *code = CL_OUT_OF_HOST_MEMORY;
  }
  if (*code != CL_SUCCESS) return nullptr;
  // Shared virtual memory that is refused has no code.
  if (made == nullptr) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return made;
}

cl_int Memory::release(Kind kind, uint64_t base, uint64_t held) const noexcept {
  const Api &api = platform_.api();
  if (kind == Kind::registered) return CL_SUCCESS;
  if (kind == Kind::plain && !platform_.usm()) {
    api.clSVMFree(platform_.context(), pointer(base));
    return CL_SUCCESS;
  }
  if (kind == Kind::pinned && !platform_.host_usm())
    return munmap(pointer(base), held) == 0 ? CL_SUCCESS : CL_INVALID_VALUE;
  return api.clMemFreeINTEL(platform_.context(), pointer(base));
}

/// Asks for the bytes as they are first: most come aligned.
weir_result Memory::allocate_aligned(uint64_t alignment, Range *range, Charge *charge,
                                     uint64_t *address) const noexcept {
  const bool plain = range->kind == Kind::plain;
  const char *what = plain ? "device memory" : "host memory";
  for (const uint64_t more : {uint64_t{0}, alignment}) {
    if (more > UINT64_MAX - range->bytes)
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=%llu", number(range->bytes));
    range->held = range->bytes + more;
    if (charge != nullptr) WEIR_BACKEND_TRY(charge->add(more == 0 ? range->bytes : more));
    cl_int code = CL_SUCCESS;
    void *made = allocate(range->device, range->kind, range->held, &code);
    if (made == nullptr) {
      // A fault that was not noticed yet looks like a shortage.
      if (plain && (means_loss(code) || code == CL_OUT_OF_RESOURCES)) {
        const weir_result told = platform_.call_failed(range->device, code, what);
        if (told == WEIR_ERROR_DEVICE_LOST) return told;
      }
      weir_result result = memory_result_of(code);
      if (!plain && result == WEIR_ERROR_DEVICE_OOM) result = WEIR_ERROR_OUT_OF_HOST_MEMORY;
      return runtime_refusal(result, code, "%llu bytes of %s", number(range->held), what);
    }
    range->base = address_of(made);
    *address = up_to(range->base, alignment);
    if (*address == range->base || more != 0) return WEIR_SUCCESS;
    twice([&] { return release(range->kind, range->base, range->held); });
  }
  return WEIR_SUCCESS;
}

void Memory::add(uint64_t address, const Range &range, Ranges::node_type node) {
  node.key() = address;
  node.mapped() = range;
  const std::lock_guard hold(mutex_);
  ranges_.insert(std::move(node));
}

weir_result Memory::take(uint64_t address, const Range &range, const char *call,
                         Ranges::node_type *node) {
  const std::lock_guard hold(mutex_);
  const auto it = ranges_.find(address);
  if (it == ranges_.end() || it->second.bytes != range.bytes || it->second.device != range.device ||
      it->second.kind != range.kind) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s: nothing of %llu bytes was made at %#llx", call,
                  number(range.bytes), number(address));
  }
  // Out of the table at once: what the runtime has freed it may give to another thread.
  *node = ranges_.extract(it);
  return WEIR_SUCCESS;
}

weir_result Memory::finish_free(Ranges::node_type node, const char *call) {
  const Range range = node.mapped();
  const uint64_t address = node.key();
  const cl_int code = release(range.kind, range.base, range.held);
  if (code == CL_SUCCESS) return WEIR_SUCCESS;
  {
    const std::lock_guard hold(mutex_);
    ranges_.insert(std::move(node));
  }
  return runtime_refusal(result_of(code), code, "%s of %llu bytes at %#llx", call,
                         number(range.bytes), number(address));
}

weir_result Memory::allocate_plain(uint32_t device, uint64_t bytes, uint64_t alignment,
                                   uint64_t *address) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (bytes == 0 || !std::has_single_bit(alignment) || alignment > largest_alignment) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=%llu, alignment=%llu", number(bytes),
                  number(alignment));
  }
  if (platform_.lost(device)) return platform_.refuse_lost(device);
  const uint64_t largest = platform_.devices()[device].largest;
  if (bytes > largest) {
    return refuse(WEIR_ERROR_DEVICE_OOM,
                  "%llu bytes: device %u has no more than %llu in one piece "
                  "(CL_DEVICE_MAX_MEM_ALLOC_SIZE)",
                  number(bytes), device, number(largest));
  }
  Ranges room;
  room.emplace();
  Charge charge(usage_, device);
  Range range;
  range.bytes = bytes;
  range.device = device;
  uint64_t made = 0;
  WEIR_BACKEND_TRY(allocate_aligned(alignment, &range, &charge, &made));
  charge.keep();
  add(made, range, room.extract(room.begin()));
  *address = made;
  return WEIR_SUCCESS;
}

weir_result Memory::free_plain(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  Range range;
  range.bytes = bytes;
  range.device = device;
  Ranges::node_type node;
  WEIR_BACKEND_TRY(take(address, range, "plain_free", &node));
  const uint64_t held = node.mapped().held;
  WEIR_BACKEND_TRY(finish_free(std::move(node), "plain_free"));
  usage_.give_back(device, held);
  return WEIR_SUCCESS;
}

weir_result Memory::allocate_host(uint64_t bytes, void **memory) {
  if (bytes == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_allocate: 0 bytes");
  Ranges room;
  room.emplace();
  Range range;
  range.bytes = bytes;
  range.device = WEIR_DEVICE_HOST;
  range.kind = Kind::pinned;
  uint64_t made = 0;
  WEIR_BACKEND_TRY(allocate_aligned(page, &range, nullptr, &made));
  add(made, range, room.extract(room.begin()));
  *memory = pointer(made);
  return WEIR_SUCCESS;
}

weir_result Memory::free_host(void *memory, uint64_t bytes) {
  Range range;
  range.bytes = bytes;
  range.device = WEIR_DEVICE_HOST;
  range.kind = Kind::pinned;
  Ranges::node_type node;
  WEIR_BACKEND_TRY(take(address_of(memory), range, "host_free", &node));
  return finish_free(std::move(node), "host_free");
}

weir_result Memory::enroll(void *memory, uint64_t bytes) {
  if (!platform_.options().host_register)
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "registering host memory is off (register=0)");
  const uint64_t address = address_of(memory);
  if (memory == nullptr || bytes == 0 || address % page != 0 || bytes > UINT64_MAX - address) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "host_register: [%p, +%llu) is no page-aligned range", memory, number(bytes));
  }
  // The kernel is asked whether the memory is there at all: a copy from what is not would end the process.
  const uint64_t pages = up_to(address + bytes, page) - address;
  if (msync(memory, pages, MS_ASYNC) != 0 && errno == ENOMEM) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_register: [%p, +%llu) is not all mapped",
                  memory, number(bytes));
  }
  const std::lock_guard hold(mutex_);
  const auto next = ranges_.lower_bound(address);
  const bool hits_next = next != ranges_.end() && next->first - address < bytes;
  const auto before = next != ranges_.begin() ? std::prev(next) : ranges_.end();
  if (hits_next || (before != ranges_.end() && address - before->first < before->second.bytes)) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "host_register: [%p, +%llu) is known already",
                  memory, number(bytes));
  }
  ranges_.emplace_hint(next, address,
                       Range{bytes, WEIR_DEVICE_HOST, Kind::registered, address, bytes});
  return WEIR_SUCCESS;
}

weir_result Memory::dismiss(void *memory, uint64_t bytes) {
  if (!platform_.options().host_register)
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "registering host memory is off (register=0)");
  Range range;
  range.bytes = bytes;
  range.device = WEIR_DEVICE_HOST;
  range.kind = Kind::registered;
  Ranges::node_type node;
  return take(address_of(memory), range, "host_unregister", &node);
}

bool Memory::find_plain(uint32_t device, uint64_t address, uint64_t *base, uint64_t *bytes) const {
  const std::shared_lock hold(mutex_);
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return false;
  --it;
  const Range &range = it->second;
  if (range.kind != Kind::plain || range.device != device || address - it->first >= range.bytes)
    return false;
  *base = range.base;
  *bytes = range.held;
  return true;
}

bool Memory::contains(uint64_t address, uint64_t bytes, uint32_t *device) const {
  const std::shared_lock hold(mutex_);
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return false;
  --it;
  const uint64_t offset = address - it->first;
  if (offset > it->second.bytes || bytes > it->second.bytes - offset) return false;
  *device = it->second.device;
  return true;
}

}  // namespace weir::opencl
