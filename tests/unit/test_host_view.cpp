// SPDX-License-Identifier: Apache-2.0
//
// The CPU's view of a buffer's slots in HOST, under host leases that are out: a lease maps only what no other has mapped, and
// one that fails at any mmap leaves the view of the others, and everything else, as it was. mmap is this program's own, to
// count the mappings of slots and to refuse any of them.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/interleaving.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> until_refusal{INT64_MAX};
std::atomic<int> slots_mapped{0};
thread_local bool mine =
    false;  ///< of the test's own thread: the background's mappings are not counted

}  // namespace

extern "C" void *mmap(void *address, size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  if (counting && mine) {
    if (until_refusal.fetch_sub(1) == 1) {
      errno = ENOMEM;
      return MAP_FAILED;
    }
    if (file >= 0 && (flags & MAP_FIXED) != 0) ++slots_mapped;
  }
  const long place = syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
  return place == -1 ? MAP_FAILED : reinterpret_cast<void *>(place);
}

namespace {

using namespace weir::test;

constexpr uint64_t pages = 6;

struct View : World {
  weir_stream cpu = nullptr;
  weir_buffer buffer = nullptr;

  View() : World({.device_pages = 8, .host_pages = 16}) {
    mine = true;
    ok(weir_stream_create(context, WEIR_DEVICE_HOST, 0, &cpu));
    buffer = this->World::buffer(pages * page_bytes);
    fill(buffer, pages * page_bytes, 1);
  }
  weir_result lease(uint64_t first, uint64_t count, uint32_t mode, weir_lease *out,
                    uint64_t *address) {
    weir_use use = WEIR_USE(buffer, mode);
    use.offset = first * page_bytes;
    use.length = count * page_bytes;
    use.address = 1;
    const weir_result result = weir_acquire(pool, cpu, &use, 1, nullptr, out);
    *address = use.address;
    return result;
  }
  /// The pattern as it is in the buffer from that page on.
  void look(uint64_t address, uint64_t first, uint64_t count, uint32_t seed = 1) const {
    const auto *bytes = reinterpret_cast<const uint8_t *>(address);
    for (uint64_t i = 0; i < count * page_bytes; ++i)
      if (bytes[i] != pattern(seed, first * page_bytes + i)) fail_msg("byte %lu differs", i);
  }
  void end() {
    ok(weir_stream_close(cpu));
    close();
  }
};

void begin_to_count(int64_t refused = INT64_MAX) {
  slots_mapped = 0;
  until_refusal = refused;
  counting = true;
}
int count_no_more() {
  counting = false;
  return slots_mapped;
}

void what_is_mapped_stays_mapped(void **) {
  View view;
  weir_lease first = nullptr, second = nullptr, third = nullptr;
  uint64_t address = 0, again = 0, rest = 0;
  begin_to_count();
  ok(view.lease(1, 3, WEIR_READ, &first, &address));
  assert_int_equal(count_no_more(), 3);
  begin_to_count();
  ok(view.lease(2, 2, WEIR_READ, &second, &again));
  assert_int_equal(count_no_more(), 0);
  assert_int_equal(again, address + page_bytes);
  begin_to_count();
  ok(view.lease(0, pages, WEIR_READ, &third, &rest));
  assert_int_equal(count_no_more(), pages - 3);
  assert_int_equal(rest, address - page_bytes);
  view.look(address, 1, 3);
  view.look(rest, 0, pages);
  for (const weir_lease each : {first, second, third}) ok(weir_release(each, view.cpu));
  validate(view);
  // Once no lease looks and the slots are given up, they are mapped again where they are then.
  view.fill(view.buffer, pages * page_bytes, 2);
  ok(view.lease(0, pages, WEIR_READ, &first, &address));
  view.look(address, 0, pages, 2);
  ok(weir_release(first, view.cpu));
  view.end();
}

/// Refuses each mmap of an acquire in turn, with and without another lease that is out.
void a_refused_mapping_takes_nothing_away(void **) {
  for (const bool other : {false, true}) {
    bool granted = false;
    int refusals = 0;
    for (int64_t at = 1; !granted; ++at) {
      View view;
      weir_lease standing = nullptr, lease = nullptr;
      uint64_t shown = 0, address = 0;
      if (other) ok(view.lease(0, 2, WEIR_READ, &standing, &shown));
      begin_to_count(at);
      const weir_result result = view.lease(0, pages, WEIR_READ, &lease, &address);
      (void)count_no_more();
      granted = until_refusal > 0;
      if (!granted) {
        ++refusals;
        // Not every mapping is needed: without huge pages, say, there are others.
        if (result != WEIR_SUCCESS) {
          assert_int_equal(result, WEIR_ERROR_OUT_OF_HOST_MEMORY);
          assert_null(lease);
          assert_int_equal(address, 1);
        }
      }
      validate(view);
      if (other) {
        view.look(shown, 0, 2);
        ok(weir_release(standing, view.cpu));
      }
      if (result == WEIR_SUCCESS) ok(weir_release(lease, view.cpu));
      ok(view.lease(0, pages, WEIR_READ_WRITE, &lease, &address));
      view.look(address, 0, pages);
      ok(weir_release(lease, view.cpu));
      view.check(view.buffer, pages * page_bytes, 1);
      view.end();
    }
    assert_true(refusals >= (other ? 4 : 7));  // each slot's, and the view's own place
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_is_mapped_stays_mapped),
      cmocka_unit_test(a_refused_mapping_takes_nothing_away),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
