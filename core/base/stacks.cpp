// SPDX-License-Identifier: Apache-2.0
//
// Taking stacks, and saying where they lead.

#include "core/base/stacks.hpp"

#include "core/base/build_id.hpp"
#include "core/base/grow.hpp"
#include "core/base/name.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>

namespace weir {
namespace {

/// FNV-1a, over the addresses as bytes.
uint64_t hash_of(std::span<void *const> frames) noexcept {
  uint64_t hash = 0xcbf29ce484222325U;
  for (void *const frame : frames) {
    const auto address = reinterpret_cast<uintptr_t>(frame);
    for (unsigned shift = 0; shift < 8 * sizeof address; shift += 8)
      hash = (hash ^ ((address >> shift) & 0xffU)) * 0x100000001b3U;
  }
  return hash;
}

/// A library may have been found by a path that is not whole.
std::string path_of(const char *name) {
  std::array<char, PATH_MAX> whole;
  return name[0] != '/' && realpath(name, whole.data()) != nullptr ? whole.data() : name;
}

/// Of the program itself, which the loader has no name for but the first argument.
std::string own_path(const char *otherwise) {
  std::array<char, PATH_MAX> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 && static_cast<size_t>(length) < path.size()
             ? std::string(path.data(), static_cast<size_t>(length))
             : otherwise;
}

struct WantedModule {
  uintptr_t begin;  ///< of the file's first mapped byte
  std::string *build_id;
};

/// One file that is loaded.
int look_for(dl_phdr_info *file, size_t /*size*/, void *data) {
  auto &wanted = *static_cast<WantedModule *>(data);
  bool is_it = false;
  for (ElfW(Half) i = 0; i < file->dlpi_phnum; ++i) {
    const ElfW(Phdr) &part = file->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    // The first one's, rounded down to a page, is where the file begins.
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    is_it = ((file->dlpi_addr + part.p_vaddr) & ~(page - 1)) == wanted.begin;
    break;
  }
  if (!is_it) return 0;
  for (ElfW(Half) i = 0; i < file->dlpi_phnum && wanted.build_id->empty(); ++i) {
    const ElfW(Phdr) &part = file->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    *wanted.build_id = build_id_of_notes(
        {reinterpret_cast<const std::byte *>(file->dlpi_addr + part.p_vaddr), part.p_memsz});
  }
  return 1;
}

std::string build_id_at(uintptr_t begin) {
  std::string build_id;
  WantedModule wanted{begin, &build_id};
  (void)dl_iterate_phdr(look_for, &wanted);
  return build_id;
}

}  // namespace

Stacks::Stacks(std::pmr::memory_resource *memory, uint64_t most)
    : most_(most), frames_(memory), stacks_(memory), numbers_(memory) {
  // The first backtrace() loads a library and allocates: done here, not in the midst of a call that takes a stack.
  void *none = nullptr;
  (void)backtrace(&none, 1);
}

uint32_t Stacks::take(const void *caller) noexcept {
  constexpr size_t most_own = 16;  // calls of Weir's, which are left out
  std::array<void *, most_frames + most_own> found;
  const int count = backtrace(found.data(), static_cast<int>(found.size()));
  if (count <= 0) return 0;
  const std::span<void *const> all(found.data(), static_cast<size_t>(count));
  const auto outer = std::ranges::find(all, caller);
  const size_t skipped = outer != all.end() ? static_cast<size_t>(outer - all.begin()) : 0;
  return keep(all.subspan(skipped, std::min(all.size() - skipped, most_frames)));
}

uint32_t Stacks::keep(std::span<void *const> frames) noexcept {
  const uint64_t hash = hash_of(frames);
  const Guard hold(mutex_);
  const auto [first, last] = numbers_.equal_range(hash);
  for (auto each = first; each != last; ++each)
    if (std::ranges::equal(frames_of(each->second), frames)) return each->second;
  if (bytes_ + bytes_of(frames.size()) > most_) return ++dropped_, 0;
  try {
    grow_by(frames_, frames.size());
    grow_by(stacks_);
    const auto number = static_cast<uint32_t>(stacks_.size() + 1);
    numbers_.emplace(hash, number);
    stacks_.push_back(
        {static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size()), 0});
    frames_.insert(frames_.end(), frames.begin(), frames.end());
    bytes_ += bytes_of(frames.size());
    return number;
  } catch (const std::bad_alloc &) {
    return ++dropped_, 0;
  }
}

std::vector<void *> Stacks::frames(uint32_t number) const {
  if (number == 0) return {};
  const Guard hold(mutex_);
  const auto found = frames_of(number);
  return {found.begin(), found.end()};
}

uint64_t Stacks::count() const noexcept {
  const Guard hold(mutex_);
  return stacks_.size();
}

uint64_t Stacks::dropped() const noexcept {
  const Guard hold(mutex_);
  return dropped_;
}

bool Stacks::told(uint32_t number, uint32_t telling) const noexcept {
  const Guard hold(mutex_);
  return number == 0 || stacks_[number - 1].told == telling;
}

void Stacks::set_told(uint32_t number, uint32_t telling) noexcept {
  const Guard hold(mutex_);
  if (number != 0) stacks_[number - 1].told = telling;
}

FrameSight look_up_frame(void *frame) {
  // A call may be the last instruction of its function.
  const auto address = reinterpret_cast<uintptr_t>(frame) - 1;
  FrameSight sight;
  sight.offset = address;
  Dl_info info{};
  link_map *module = nullptr;
  char text[64];
  if (dladdr1(reinterpret_cast<void *>(address), &info, reinterpret_cast<void **>(&module),
              RTLD_DL_LINKMAP) == 0 ||
      module == nullptr || info.dli_fname == nullptr) {
    (void)std::snprintf(text, sizeof text, "%#zx", address);
    sight.line = text;
    return sight;
  }
  sight.file = module->l_name[0] != '\0' ? path_of(module->l_name) : own_path(info.dli_fname);
  sight.offset = address - module->l_addr;  // what it was moved by: 0 if it is where it was linked
  sight.build_id = build_id_at(reinterpret_cast<uintptr_t>(info.dli_fbase));
  sight.line = sight.file.substr(sight.file.rfind('/') + 1);
  if (info.dli_sname != nullptr) {
    sight.function = info.dli_sname;
    (void)std::snprintf(text, sizeof text, "+%#zx)",
                        address - reinterpret_cast<uintptr_t>(info.dli_saddr));
    sight.line += '(' + sight.function + text;
  }
  (void)std::snprintf(text, sizeof text, " [+%#llx]",
                      static_cast<unsigned long long>(sight.offset));
  sight.line += text;
  return sight;
}

std::string describe_frame(void *frame) { return look_up_frame(frame).line; }

std::string StackedText::whole() const {
  constexpr size_t most_lines = 8;
  std::string whole;
  size_t done = 0;
  for (const auto &[at, frames] : stacks_) {
    whole.append(text_, done, at - done);
    done = at;
    for (size_t i = 0; i < std::min(frames.size(), most_lines); ++i)
      whole += "      " + shown(describe_frame(frames[i])) + '\n';
  }
  return whole.append(text_, done, text_.npos);
}

}  // namespace weir
