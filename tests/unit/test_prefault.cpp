// SPDX-License-Identifier: Apache-2.0
//
// Faulting memory in on several threads: all of it is there afterwards, whatever its size, and what the system has not is left.

#include "core/base/prefault.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "tests/support/cmocka.hpp"

namespace {

using namespace weir;

constexpr uint64_t mib = 1U << 20U, page = 4096;

/// A file's memory, as the HOST tier's.
struct Memory {
  explicit Memory(uint64_t size, uint64_t in_file) : bytes(size) {
    const int file = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, static_cast<off_t>(in_file)), 0);
    address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(address != MAP_FAILED);
    close(file);
  }
  ~Memory() { munmap(address, bytes); }
  uint64_t resident() const {
    std::vector<unsigned char> there(bytes / page);
    assert_int_equal(mincore(address, bytes, there.data()), 0);
    uint64_t count = 0;
    for (const unsigned char each : there) count += each & 1U;
    return count * page;
  }
  uint64_t bytes;
  void *address = nullptr;
};

void all_of_it_is_there(void **) {
  const numa::Nodes nodes;
  for (const uint32_t threads : {0U, 1U, 2U, 3U, 4U, 100U}) {
    for (const uint64_t bytes : {page, 8 * mib - page, 16 * mib, 33 * mib + page, 64 * mib}) {
      const Memory memory(bytes, bytes);
      assert_int_equal(memory.resident(), 0);
      if (!prefault(memory.address, bytes, nodes, numa::unknown, threads)) skip();
      assert_int_equal(memory.resident(), bytes);
    }
  }
}

/// The file ends early, as one does for which the system has no memory: the rest is not there, and nothing ends the program.
void what_is_not_given_is_left(void **) {
  const numa::Nodes nodes;
  const Memory memory(64 * mib, 20 * mib);
  if (!prefault(memory.address, memory.bytes, nodes, numa::unknown, 4)) skip();
  assert_in_range(memory.resident(), 16 * mib, 20 * mib);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(all_of_it_is_there),
      cmocka_unit_test(what_is_not_given_is_left),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
