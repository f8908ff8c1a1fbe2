// SPDX-License-Identifier: Apache-2.0
//
// Host memory for copies: the backend's own, and the caller's when it is registered.
#include "conformance/fixtures.hpp"
#include "conformance/registered.hpp"

#include <cstring>
#include <fstream>
#include <memory>

namespace weir::conformance {
namespace {

constexpr Needs registers = needs(WEIR_CAP_HOST_REGISTER);
constexpr uint64_t page = 4096;

REQUIRE("HM-001", always(),
        "Host memory is page-aligned, and the CPU reads and writes it to its last byte.") {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, page, page + 1, mib - 1, 4 * mib}) {
    Pinned pinned(t);
    TRY(pinned.allocate(bytes));
    CHECK(pinned.address() != 0 && pinned.address() % page == 0, "host memory of ", bytes,
          " bytes lies at ", pinned.address());
    make_pattern(pinned.bytes(), bytes);
    TRY(check_pattern(pinned.bytes(), bytes, "host memory"));
  }
  return {};
}

REQUIRE("HM-002", always(), "Every device copies to and from host memory, at any offset in it.") {
  Pinned pinned(t);
  TRY(pinned.allocate(mib));
  for (uint32_t device = 0; device < t.device_count; ++device) {
    TRY(round_trip(t, device, pinned.bytes(), device));
    TRY(round_trip(t, device, pinned.bytes().subspan(1, 1000), device));
    TRY(round_trip(t, device, pinned.bytes().subspan(mib - 77), device));
  }
  return {};
}

REQUIRE("HM-003", always(), "Host memory of no bytes is refused.") {
  void *const as_before = &t;
  void *memory = as_before;
  REFUSED(host_allocate, 0, &memory);
  CHECK(memory == as_before, "the refused call wrote an address");
  return {};
}

REQUIRE("HM-004", always(), "An absurd amount of host memory is refused.") {
  void *const as_before = &t;
  for (const uint64_t bytes : {UINT64_MAX, uint64_t{1} << 62U}) {
    void *memory = as_before;
    REFUSED_AS(no_host_memory(), host_allocate, bytes, &memory);
    CHECK(memory == as_before, "the refused call wrote an address");
  }
  Pinned after(t);
  return after.allocate(mib);
}

REQUIRE("HM-005", always(), "Pieces of host memory do not overlap.") {
  std::vector<std::unique_ptr<Pinned>> all;
  for (uint64_t i = 0; i < 32; ++i) {
    all.push_back(std::make_unique<Pinned>(t));
    TRY(all.back()->allocate(1 + t.random.below(64 << 10U)));
    make_pattern(all.back()->bytes(), i);
  }
  for (uint64_t i = 0; i < all.size(); ++i)
    TRY(check_pattern(all[i]->bytes(), i, words("piece ", i)));
  return {};
}

REQUIRE("HM-006", always(), "Host memory can be made and freed any number of times.") {
  for (int i = 0; i < 200; ++i) {
    Pinned pinned(t);
    TRY(pinned.allocate(mib));
    pinned.bytes()[0] = std::byte{1};
    TRY(pinned.free());
  }
  return {};
}

REQUIRE("HM-007", registers,
        "The caller's memory, once registered, is copied to and from by every device.") {
  const Pages pages(mib);
  Registered registered(t);
  TRY(registered.begin(pages.get(), mib));
  for (uint32_t device = 0; device < t.device_count; ++device) {
    TRY(round_trip(t, device, pages.bytes(), device));
    TRY(round_trip(t, device, pages.bytes().subspan(3, 5000), device));
    TRY(round_trip(t, device, pages.bytes().subspan(mib - 1), device));
  }
  return {};
}

REQUIRE("HM-008", registers,
        "Registering and unregistering leave the caller's bytes as they are, and his.") {
  const Pages pages(mib);
  make_pattern(pages.bytes(), 1);
  Registered registered(t);
  TRY(registered.begin(pages.get(), mib));
  TRY(check_pattern(pages.bytes(), 1, "registered memory"));
  TRY(registered.end());
  TRY(check_pattern(pages.bytes(), 1, "memory that was registered"));
  make_pattern(pages.bytes(), 2);
  return check_pattern(pages.bytes(), 2, "memory that was registered");
}

REQUIRE("HM-009", registers,
        "Memory that is registered is not registered again, in whole or in part, and stays "
        "registered.") {
  const Pages pages(mib);
  Registered registered(t);
  TRY(registered.begin(pages.get(), mib));
  REFUSED(host_register, pages.get(), mib);
  REFUSED(host_register, pages.bytes().data() + page, page);
  return round_trip(t, t.device, pages.bytes(), 1);
}

REQUIRE("HM-010", registers, "Memory that is not registered is not unregistered.") {
  const Pages pages(mib);
  REFUSED(host_unregister, pages.get(), mib);
  Registered registered(t);
  TRY(registered.begin(pages.get(), mib));
  TRY(registered.end());
  REFUSED(host_unregister, pages.get(), mib);
  return {};
}

REQUIRE("HM-011", registers,
        "Memory can be registered again after it was unregistered, any number of times.") {
  const Pages pages(mib);
  for (uint64_t i = 0; i < 50; ++i) {
    Registered registered(t);
    TRY(registered.begin(pages.get(), mib));
    if (i % 10 == 0) TRY(round_trip(t, t.device, pages.bytes(), i));
    TRY(registered.end());
  }
  return {};
}

REQUIRE("HM-012", registers, "Nothing, and what is not page-aligned, is not registered.") {
  const Pages pages(mib);
  REFUSED(host_register, pages.get(), 0);
  REFUSED(host_register, pages.bytes().data() + 1, page);
  REFUSED(host_register, nullptr, page);
  Registered registered(t);
  return registered.begin(pages.get(), mib);
}

REQUIRE("HM-013", registers, "Pieces of memory side by side are registered each for itself.") {
  const Pages pages(4 * page);
  Registered first(t), second(t), third(t);
  TRY(first.begin(pages.get(), page));
  TRY(third.begin(pages.bytes().data() + 3 * page, page));
  TRY(second.begin(pages.bytes().data() + page, 2 * page));
  TRY(second.end());
  TRY(round_trip(t, t.device, pages.bytes().first(page), 1));
  return round_trip(t, t.device, pages.bytes().last(page), 2);
}

REQUIRE("HM-014", registers,
        "Memory that is registered is copied straight to host memory of the backend, and back.") {
  const Pages pages(mib);
  Registered registered(t);
  Pinned pinned(t);
  Stream stream(t);
  TRY(registered.begin(pages.get(), mib));
  TRY(pinned.allocate(mib));
  TRY(stream.create());
  make_pattern(pages.bytes(), 1);
  TRY(stream.copy(pinned.address(), pages.address(), mib));
  TRY(stream.synchronize());
  TRY(check_pattern(pinned.bytes(), 1, "host memory"));
  make_pattern(pinned.bytes(), 2);
  TRY(stream.copy(pages.address(), pinned.address(), mib));
  TRY(stream.synchronize());
  return check_pattern(pages.bytes(), 2, "registered memory");
}

/// Bytes of the process that are in memory.
uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, pages = 0;
  file >> size >> pages;
  return pages * page;
}

REQUIRE("HM-015", alone(), "Host memory that is freed goes back to the system.") {
  constexpr uint64_t bytes = 8 * mib;
  constexpr int rounds = 60;
  // What a runtime, or a sanitizer, keeps for the next allocation is less.
  constexpr uint64_t allowed = 352 * mib;
  uint64_t before = 0;
  for (int i = 0; i < 4 + rounds; ++i) {
    if (i == 4) before = resident();
    Pinned pinned(t);
    TRY(pinned.allocate(bytes));
    std::memset(pinned.bytes().data(), i, pinned.bytes().size());
  }
  const uint64_t after = resident();
  CHECK(after < before + allowed, "the process grew from ", before, " to ", after, " bytes while ",
        rounds, " times ", bytes, " bytes were allocated and freed");
  return {};
}

}  // namespace
}  // namespace weir::conformance
