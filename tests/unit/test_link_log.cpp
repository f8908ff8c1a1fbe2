// SPDX-License-Identifier: Apache-2.0
//
// What the host backend's links tell of when they were busy (host.link_log): stretches of time, and the file that they are written to.
#include "backends/host/link.hpp"
#include "tests/unit/host_streams.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

using namespace weir::test;
using weir::host::LinkMeter;
using weir::host::now_ns;

uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// What follows without a pause is one stretch, in whichever order two threads tell of it.
void a_log_has_stretches_of_time(void **) {
  weir::host::LinkLog log;
  LinkMeter meter;
  meter.configure(1'000'000'000, 500);  // a byte a nanosecond
  meter.note_in(&log);
  const uint64_t first = meter.book(1000, 10'000, true) - 500;
  const uint64_t second = meter.book(1000, 10'500, false);  // waits for the first
  const uint64_t third = meter.book(50, 20'000, false);
  log.note(30'100, 30'200, 100);
  log.note(30'000, 30'100, 100);
  std::string text;
  log.print("h", "0", &text);
  const auto line = [](uint64_t begin, uint64_t end, uint64_t bytes) {
    return "h 0 " + std::to_string(begin) + " " + std::to_string(end) + " " +
           std::to_string(bytes) + "\n";
  };
  const std::string expected =
      line(10'000, second, 2000) + line(20'000, third, 50) + line(30'000, 30'200, 200);
  assert_true(first < second);
  assert_string_equal(text.c_str(), expected.c_str());
}

/// The file of host.link_log has what copies took of each link, each way, once the backend has stopped.
void links_tell_when_they_were_busy(void **) {
  const int file = memfd_create("links", MFD_CLOEXEC);
  assert_true(file >= 0);
  const uint64_t start = now_ns();
  {
    HostBackend backend("devices=2;link_bandwidth=1G;link_log=" + std::to_string(file));
    const weir_be_stream stream = backend.stream(1);
    const uint64_t there = backend.plain(100'000, 1), beside = backend.plain(100'000, 1);
    std::vector<unsigned char> host(100'000);
    const weir_be_copy copies[] = {{there, address_of(host.data()), 100'000},
                                   {address_of(host.data()), there, 30'000},
                                   {beside, there, 100'000}};  // on no link
    for (const weir_be_copy &copy : copies)
      backend.check(backend->copy_async(backend.state(), stream, &copy));
    backend.check(backend->stream_synchronize(backend.state(), stream));
    char none = 0;
    assert_int_equal(pread(file, &none, 1, 0), 0);
  }
  char text[4096] = {};
  assert_true(pread(file, text, sizeof text - 1, 0) > 0);
  close(file);
  unsigned long long up[3] = {}, down[3] = {};
  int end = 0;
  // By the path's number: what comes from device 1 stands before what comes from the host.
  assert_int_equal(std::sscanf(text, "1 h %llu %llu %llu\nh 1 %llu %llu %llu\nend\n%n", &down[0],
                               &down[1], &down[2], &up[0], &up[1], &up[2], &end),
                   6);
  assert_int_equal(end, std::strlen(text));
  assert_int_equal(up[2], 100'000);
  assert_int_equal(down[2], 30'000);
  assert_true(up[0] >= start && up[1] <= down[0]);
  assert_in_range(up[1] - up[0], 100'000, 100'010);
  assert_in_range(down[1] - down[0], 30'000, 30'010);
}

void a_log_needs_a_file(void **) {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "memory=32M;link_log=987654";
  weir_be_state *state = nullptr;
  const char *reason = "";
  const weir_backend_table *table = weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR);
  assert_int_equal(table->start(&desc, &state, &reason), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(state);
  assert_non_null(std::strstr(reason, "link_log=987654"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_log_has_stretches_of_time),
      cmocka_unit_test(links_tell_when_they_were_busy),
      cmocka_unit_test(a_log_needs_a_file),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
