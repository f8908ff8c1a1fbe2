// SPDX-License-Identifier: Apache-2.0
//
// Marks: sixteen bytes that nothing but a test's buffers has, and a search for them in all memory of the process and in its
// spill files. The pattern itself lies nowhere: it is made from a masked one each time a byte of it is looked at.
#pragma once

#include "tests/abi/pool_fixture.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weir::test {

inline constexpr uint64_t mark_bytes = 16;
inline constexpr uint64_t mark_every = 64;
/// A copy passes through vector registers, and what saves registers (the dynamic linker as it binds a name, a signal) leaves
/// them on a stack: up to 32 of 64 bytes each, more than once. So few marks in a mapping are no copy; a page has 256.
inline constexpr uint64_t strays = 64;

inline uint8_t mark_at(uint64_t i) {
  static const volatile uint8_t masked[mark_bytes] = {0x11, 0xc4, 0x3b, 0x90, 0x6e, 0x27,
                                                      0xf5, 0x08, 0x5a, 0xbd, 0x72, 0x1c,
                                                      0xe3, 0x84, 0x49, 0xd6};
  static const volatile uint8_t mask = 0xa9;
  return static_cast<uint8_t>(masked[i] ^ mask);
}

/// A mark every so many bytes. Between them what compresses, or does not.
inline void write_marks(uint8_t *to, uint64_t bytes, bool noise) {
  uint32_t state = 7;
  for (uint64_t at = 0; at < bytes; ++at) {
    state = state * 1664525U + 1013904223U;
    const auto other = noise ? static_cast<uint8_t>(state >> 24U) : uint8_t{0};
    to[at] = at % mark_every < mark_bytes ? mark_at(at % mark_every) : other;
  }
}

inline uint64_t marks_in(const uint8_t *bytes, uint64_t count) {
  const uint8_t first = mark_at(0);
  uint64_t found = 0;
  for (uint64_t at = 0; at + mark_bytes <= count; ++at) {
    const void *next = std::memchr(bytes + at, first, count - mark_bytes + 1 - at);
    if (next == nullptr) break;
    at = static_cast<uint64_t>(static_cast<const uint8_t *>(next) - bytes);
    uint64_t same = 1;
    while (same < mark_bytes && bytes[at + same] == mark_at(same)) ++same;
    found += same == mark_bytes ? 1 : 0;
  }
  return found;
}

/// Whether any byte from there on was ever touched: reading what was not would only make memory of it, and be slow. Private
/// memory is told by the process's own page table, what files share by the system's.
inline bool touched(int page_table, uint64_t at, uint64_t bytes) {
  static const auto small = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  constexpr uint64_t present_or_swapped = uint64_t{3} << 62U;
  std::vector<uint64_t> entries((bytes + small - 1) / small);
  std::vector<unsigned char> shared(entries.size());
  const uint64_t size = entries.size() * sizeof(uint64_t);
  const auto where = static_cast<off_t>(at / small * sizeof(uint64_t));
  if (pread(page_table, entries.data(), size, where) != static_cast<ssize_t>(size)) return true;
  if (mincore(reinterpret_cast<void *>(at), bytes, shared.data()) != 0) return true;
  for (size_t i = 0; i < entries.size(); ++i)
    if ((entries[i] & present_or_swapped) != 0 || (shared[i] & 1U) != 0) return true;
  return false;
}

/// In all of the process's memory, as often as it is mapped. What it reads is looked at in a window that is wiped afterwards.
inline uint64_t marks_in_memory(bool tell = false) {
  static std::vector<uint8_t> window(uint64_t{1} << 20U);
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  const int page_table = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::FILE *maps = std::fopen("/proc/self/maps", "re");
  assert_true(memory >= 0);
  assert_non_null(maps);
  const auto own = reinterpret_cast<uint64_t>(window.data());
  uint64_t found = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long begin = 0, end = 0;
    char rights[8] = "";
    if (std::sscanf(line, "%llx-%llx %7s", &begin, &end, rights) != 3 || rights[0] != 'r') continue;
    if (std::strstr(line, "[v") != nullptr || rights[1] != 'w') continue;
    uint64_t here = 0;
    for (uint64_t at = begin; at < end;) {
      const uint64_t want = std::min<uint64_t>(end - at, window.size());
      if (!touched(page_table, at, want)) {
        at += want;
        continue;
      }
      const ssize_t got = pread(memory, window.data(), want, static_cast<off_t>(at));
      if (got <= 0) break;
      const auto bytes = static_cast<uint64_t>(got);
      // Its own window lies in the heap: what it found there it has just put there.
      const bool self = at < own + window.size() && own < at + bytes;
      if (!self) here += marks_in(window.data(), bytes);
      at += bytes;
    }
    if (tell && here != 0)
      print_message("  %llu marks in %s", static_cast<unsigned long long>(here), line);
    if (here > strays) found += here;
  }
  std::fill(window.begin(), window.end(), uint8_t{0});
  std::fclose(maps);
  close(memory);
  if (page_table >= 0) close(page_table);
  return found;
}

/// Visits the bytes of each spill file that is open.
template <class Visit>
void each_spill_file(Visit visit) {
  const char *folder = spill_folder();
  for (int fd = 3; fd < 256; ++fd) {
    char link[64], name[256] = "";
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, name, sizeof name - 1) <= 0) continue;
    if (std::strncmp(name, folder, std::strlen(folder)) != 0) continue;
    struct stat about {};
    const int copy = open(link, O_RDONLY | O_CLOEXEC);
    if (copy < 0 || fstat(copy, &about) != 0) continue;
    std::vector<uint8_t> bytes(static_cast<size_t>(about.st_size));
    assert_int_equal(pread(copy, bytes.data(), bytes.size(), 0), about.st_size);
    close(copy);
    visit(bytes);
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  }
}

inline uint64_t marks_in_files() {
  uint64_t found = 0;
  each_spill_file([&found](const std::vector<uint8_t> &bytes) {
    found += marks_in(bytes.data(), bytes.size());
  });
  return found;
}

}  // namespace weir::test
