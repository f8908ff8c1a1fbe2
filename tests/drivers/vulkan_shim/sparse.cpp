// SPDX-License-Identifier: Apache-2.0
//
// Sparse buffers over a driver without them that computes on the CPU and imports host memory. Memory is a file in memory; a
// sparse buffer is a range of addresses, and a bind maps pages of the file there. What is bound nowhere reads as zeros. Binds are
// made at once, whatever they should wait for: nobody may use what is being bound.

#include "tests/drivers/vulkan_shim/shim.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace weir::vulkan_shim {
namespace {

constexpr VkBufferCreateFlags sparse_flags = VK_BUFFER_CREATE_SPARSE_BINDING_BIT |
                                             VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT |
                                             VK_BUFFER_CREATE_SPARSE_ALIASED_BIT;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }
uint64_t page() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

struct File {
  int descriptor = -1;
  void *pages = nullptr;
  uint64_t bytes = 0;
  uint64_t begin = 0;  ///< where in the file the memory is
};
struct Place {
  void *whole = nullptr;
  uint64_t whole_bytes = 0;
  char *start = nullptr;
  uint64_t bytes = 0;
  VkDeviceMemory memory = VK_NULL_HANDLE;
};

/// What there is, by handle.
class Book {
 public:
  static Book &get() {
    static Book book;
    return book;
  }
  std::mutex mutex;
  std::map<VkDeviceMemory, File> files;
  std::map<VkBuffer, Place> places;
};

template <class Key, class Value>
bool take(std::map<Key, Value> *all, Key key, Value *value) {
  const std::lock_guard hold(Book::get().mutex);
  const auto at = all->find(key);
  if (at == all->end()) return false;
  *value = at->second;
  all->erase(at);
  return true;
}
template <class Key, class Value>
bool look(const std::map<Key, Value> &all, Key key, Value *value) {
  const std::lock_guard hold(Book::get().mutex);
  const auto at = all.find(key);
  if (at == all.end()) return false;
  *value = at->second;
  return true;
}

template <class Struct>
const Struct *chained(const void *next, VkStructureType type) {
  for (auto *each = static_cast<const VkBaseInStructure *>(next); each != nullptr;
       each = each->pNext)
    if (each->sType == type) return reinterpret_cast<const Struct *>(each);
  return nullptr;
}
bool has_chained(const void *next, VkStructureType type) {
  return chained<VkBaseInStructure>(next, type) != nullptr;
}
bool crosses_processes(const void *next) {
  return has_chained(next, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR) ||
         has_chained(next, VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
}
bool is_the_callers(const void *next) {
  return has_chained(next, VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
}

VkResult import(VkDevice device, const VkMemoryAllocateInfo &asked, void *pages, uint64_t bytes,
                VkDeviceMemory *memory) {
  VkImportMemoryHostPointerInfoEXT from{};
  from.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  from.pNext = asked.pNext;
  from.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  from.pHostPointer = pages;
  VkMemoryAllocateInfo info = asked;
  info.pNext = &from;
  info.allocationSize = bytes;
  return Shim::get().real().AllocateMemory.load()(device, &info, nullptr, memory);
}

void end(const File &file) {
  if (file.pages != nullptr) munmap(file.pages, file.bytes);
  if (file.descriptor >= 0) close(file.descriptor);
}

VkResult make_file(VkDevice device, const VkMemoryAllocateInfo &asked, VkDeviceMemory *memory) {
  File file;
  file.bytes = round_up(asked.allocationSize, page());
  file.descriptor = memfd_create("weir-shim", MFD_CLOEXEC);
  VkResult result = VK_ERROR_OUT_OF_HOST_MEMORY;
  if (file.descriptor >= 0 && ftruncate(file.descriptor, static_cast<off_t>(file.bytes)) == 0) {
    void *pages = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
    if (pages != MAP_FAILED) {
      file.pages = pages;
      result = import(device, asked, pages, file.bytes, memory);
    }
  }
  if (result != VK_SUCCESS) {
    end(file);
    return result;
  }
  const std::lock_guard hold(Book::get().mutex);
  Book::get().files[*memory] = file;
  return VK_SUCCESS;
}

/// Where the memory lies in a descriptor of the driver's: Mesa writes its size and this at the file's beginning.
bool find_begin(File *file) {
  uint64_t header[2] = {};
  if (pread(file->descriptor, header, sizeof header, 0) != sizeof header) return false;
  file->begin = header[1];
  return header[1] % page() == 0 && header[0] > header[1] && header[0] - header[1] >= file->bytes;
}

/// The driver's own memory, for export or of a descriptor. Mesa closes a descriptor that it refuses, which is the caller's still: it
/// gets one of the shim's.
VkResult make_shared(VkDevice device, const VkMemoryAllocateInfo &asked, VkDeviceMemory *memory) {
  const Functions &real = Shim::get().real();
  const auto *comes =
      chained<VkImportMemoryFdInfoKHR>(asked.pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
  const auto *flags =
      chained<VkMemoryAllocateFlagsInfo>(asked.pNext, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  VkMemoryAllocateInfo info = asked;
  VkImportMemoryFdInfoKHR from{};
  VkMemoryAllocateFlagsInfo with{};
  if (comes != nullptr) {
    from = *comes;
    from.pNext = nullptr;
    from.fd = fcntl(comes->fd, F_DUPFD_CLOEXEC, 0);
    if (from.fd < 0) return VK_ERROR_OUT_OF_HOST_MEMORY;
    info.pNext = &from;
    if (flags != nullptr) {
      with = *flags;
      with.pNext = &from;
      info.pNext = &with;
    }
  }
  VkResult result = real.AllocateMemory.load()(device, &info, nullptr, memory);
  if (result != VK_SUCCESS) return result;
  File file;
  file.bytes = round_up(asked.allocationSize, page());
  if (comes != nullptr) {
    file.descriptor = comes->fd;
  } else {
    VkMemoryGetFdInfoKHR whose{};
    whose.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
    whose.memory = *memory;
    whose.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    result = real.GetMemoryFdKHR.load()(device, &whose, &file.descriptor);
  }
  if (result == VK_SUCCESS && !find_begin(&file)) {
    Shim::get().misused("a descriptor that is not as Mesa makes them");
    result = VK_ERROR_INVALID_EXTERNAL_HANDLE;
  }
  if (result != VK_SUCCESS) {
    real.FreeMemory.load()(device, *memory, nullptr);
    if (comes == nullptr) end(file);
    return result;
  }
  const std::lock_guard hold(Book::get().mutex);
  Book::get().files[*memory] = file;
  return VK_SUCCESS;
}

/// The pages of a sparse buffer, with nothing bound.
bool make_place(uint64_t bytes, uint64_t grain, Place *place) {
  place->bytes = round_up(bytes, grain);
  place->whole_bytes = place->bytes + grain;
  place->whole = mmap(nullptr, place->whole_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place->whole == MAP_FAILED) return false;
  const uint64_t at = reinterpret_cast<uintptr_t>(place->whole);
  place->start = static_cast<char *>(place->whole) + (round_up(at, grain) - at);
  return true;
}

bool bind_one(const Place &place, const VkSparseMemoryBind &bind) {
  char *at = place.start + bind.resourceOffset;
  if (bind.resourceOffset + bind.size > place.bytes) {
    Shim::get().misused("a bind beyond its buffer");
    return true;
  }
  if (bind.memory == VK_NULL_HANDLE)
    return mmap(at, bind.size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  File file;
  if (!look(Book::get().files, bind.memory, &file) ||
      bind.memoryOffset + bind.size > round_up(file.bytes, page())) {
    Shim::get().misused("a bind of memory that is not there");
    return true;
  }
  return mmap(at, bind.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.descriptor,
              static_cast<off_t>(file.begin + bind.memoryOffset)) != MAP_FAILED;
}

}  // namespace

VkResult Pretended::CreateBuffer(VkDevice device, const VkBufferCreateInfo *info,
                                 const VkAllocationCallbacks *allocator, VkBuffer *buffer) {
  const Functions &real = Shim::get().real();
  const Pretence pretence = Shim::get().pretence();
  VkBufferCreateInfo own = *info;
  if (pretence.transfer > 0 || pretence.queues >= 0) own.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  const bool sparse = pretence.sparse == 1 && (info->flags & sparse_flags) != 0;
  own.flags &= sparse ? ~sparse_flags : ~VkBufferCreateFlags{0};
  // All memory is imported then.
  VkExternalMemoryBufferCreateInfo imported{};
  imported.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  imported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  if (sparse || (pretence.sparse == 1 && own.pNext == nullptr)) own.pNext = &imported;
  VkResult result = real.CreateBuffer.load()(device, &own, allocator, buffer);
  if (result != VK_SUCCESS || !sparse) return result;
  Place place;
  VkMemoryRequirements needs{};
  real.GetBufferMemoryRequirements.load()(device, *buffer, &needs);
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo asked{};
  asked.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  asked.pNext = &flags;
  result = VK_ERROR_OUT_OF_HOST_MEMORY;
  if (make_place(needs.size, static_cast<uint64_t>(pretence.grain), &place)) {
    result = import(device, asked, place.start, place.bytes, &place.memory);
    if (result == VK_SUCCESS)
      result = real.BindBufferMemory.load()(device, *buffer, place.memory, 0);
    const std::lock_guard hold(Book::get().mutex);
    Book::get().places[*buffer] = place;
  }
  if (result != VK_SUCCESS) DestroyBuffer(device, *buffer, allocator);
  return result;
}

void Pretended::DestroyBuffer(VkDevice device, VkBuffer buffer,
                              const VkAllocationCallbacks *allocator) {
  Place place;
  const bool sparse = take(&Book::get().places, buffer, &place);
  Through::DestroyBuffer(device, buffer, allocator);
  if (!sparse) return;
  if (place.memory != VK_NULL_HANDLE)
    Shim::get().real().FreeMemory.load()(device, place.memory, nullptr);
  munmap(place.whole, place.whole_bytes);
}

void Pretended::GetBufferMemoryRequirements(VkDevice device, VkBuffer buffer,
                                            VkMemoryRequirements *needs) {
  Through::GetBufferMemoryRequirements(device, buffer, needs);
  Place place;
  if (!look(Book::get().places, buffer, &place)) return;
  needs->size = place.bytes;
  needs->alignment = static_cast<uint64_t>(Shim::get().pretence().grain);
}

VkResult Pretended::AllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
                                   const VkAllocationCallbacks *allocator, VkDeviceMemory *memory) {
  const Pretence pretence = Shim::get().pretence();
  if (pretence.allocation >= 0 && info->allocationSize > static_cast<uint64_t>(pretence.allocation))
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (pretence.allocations >= 0 &&
      Shim::get().count(memories) >= static_cast<uint64_t>(pretence.allocations))
    return VK_ERROR_TOO_MANY_OBJECTS;
  const bool shared = crosses_processes(info->pNext);
  if (pretence.sparse == 1 && pretence.exports == 1 && shared)
    return make_shared(device, *info, memory);
  if (pretence.sparse == 1 && !shared && !is_the_callers(info->pNext))
    return make_file(device, *info, memory);
  return Through::AllocateMemory(device, info, allocator, memory);
}

void Pretended::FreeMemory(VkDevice device, VkDeviceMemory memory,
                           const VkAllocationCallbacks *allocator) {
  File file;
  const bool own = take(&Book::get().files, memory, &file);
  Through::FreeMemory(device, memory, allocator);
  if (own) end(file);
}

VkResult Pretended::QueueBindSparse(VkQueue queue, uint32_t count, const VkBindSparseInfo *binds,
                                    VkFence fence) {
  if (Shim::get().pretence().sparse != 1)
    return Through::QueueBindSparse(queue, count, binds, fence);
  std::vector<VkSubmitInfo> submits(count);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t b = 0; b < binds[i].bufferBindCount; ++b) {
      const VkSparseBufferMemoryBindInfo &of = binds[i].pBufferBinds[b];
      Place place;
      if (!look(Book::get().places, of.buffer, &place)) {
        Shim::get().misused("a bind to a buffer that is not there");
        continue;
      }
      for (uint32_t k = 0; k < of.bindCount; ++k)
        if (!bind_one(place, of.pBinds[k])) return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    submits[i].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submits[i].pNext = binds[i].pNext;
    submits[i].signalSemaphoreCount = binds[i].signalSemaphoreCount;
    submits[i].pSignalSemaphores = binds[i].pSignalSemaphores;
  }
  return QueueSubmit(queue, count, submits.data(), fence);
}

}  // namespace weir::vulkan_shim
