// SPDX-License-Identifier: Apache-2.0
//
// Host memory in every shape: how it is ended, what can be registered, and bytes that go from device to device through it.
#include "conformance/registered.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>

namespace weir::conformance {
namespace {

constexpr Needs takes_registration = needs(WEIR_CAP_HOST_REGISTER);
constexpr uint64_t host_page = 4096;

Outcome every_device(Test &t, std::span<std::byte> host, uint64_t seed) {
  for (uint32_t device = 0; device < t.device_count; ++device)
    TRY(round_trip(t, device, host, seed + 2 * device));
  return {};
}

REQUIRE("HM-016", always(),
        "Host memory is freed, and unregistered, as it was made only; else it is refused and can "
        "still be copied to and from.") {
  const bool registering = t.has(WEIR_CAP_HOST_REGISTER);
  constexpr uint64_t apart = 64 * kib;
  for (const uint64_t bytes : {256 * kib, mib, 3 * mib}) {
    Pinned pinned(t);
    TRY(pinned.allocate(bytes));
    std::byte *const memory = pinned.bytes().data();
    REFUSED(host_free, memory, 0);
    REFUSED(host_free, memory, bytes / 2);
    REFUSED(host_free, memory, bytes - apart);
    REFUSED(host_free, memory, bytes + apart);
    REFUSED(host_free, memory + host_page, bytes - host_page);
    REFUSED(host_free, memory + apart, bytes - apart);
    const Pages pages(registering ? bytes : host_page);
    Registered registered(t);
    if (registering) {
      TRY(registered.begin(pages.get(), bytes));
      std::byte *const own = pages.bytes().data();
      REFUSED(host_unregister, memory, bytes);
      REFUSED(host_free, own, bytes);
      REFUSED(host_unregister, own, bytes / 2);
      REFUSED(host_unregister, own, bytes + apart);
      REFUSED(host_unregister, own + host_page, bytes - host_page);
      REFUSED(host_unregister, own + apart, host_page);
      TRY(every_device(t, pages.bytes(), bytes));
    }
    TRY(every_device(t, pinned.bytes(), bytes));
    TRY(registered.end());
    TRY(pinned.free());
  }
  return {};
}

enum class HostKind : uint8_t { touched, never_touched, shared, twice, inside, huge };
const char *name_of(HostKind kind) {
  constexpr std::array names{
      "anonymous memory",     "memory never touched",       "shared memory",
      "a memfd mapped twice", "a part of a larger mapping", "memory that asks for huge pages"};
  return names[static_cast<size_t>(kind)];
}

/// The first and the last byte, and those at the borders of pages, go through each device.
Outcome ends_of(Test &t, std::span<std::byte> bytes, uint64_t seed) {
  const uint64_t size = bytes.size();
  TRY(every_device(t, bytes.first(1), seed));
  TRY(every_device(t, bytes.last(1), seed + 1));
  if (size <= mib) return every_device(t, bytes, seed + 2);
  TRY(every_device(t, bytes.subspan(size / 2 - 5, 10), seed + 3));
  return every_device(t, bytes.last(host_page + 1), seed + 4);
}

Outcome registers_kind(Test &t, HostKind kind, uint64_t bytes) {
  const int fd = kind == HostKind::twice
                     ? static_cast<int>(syscall(SYS_memfd_create, "weir-conformance", 1U))
                     : -1;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) != 0) return {};
  const uint64_t around = kind == HostKind::inside ? 4 * host_page : 0;
  const int flags = kind == HostKind::twice    ? MAP_SHARED
                    : kind == HostKind::shared ? MAP_SHARED | MAP_ANONYMOUS
                                               : MAP_PRIVATE | MAP_ANONYMOUS;
  const Pages pages(bytes + 2 * around, flags, fd),
      second(bytes, fd >= 0 ? flags : MAP_PRIVATE | MAP_ANONYMOUS, fd);
  if (fd >= 0) close(fd);
  CHECK(pages.any() && second.any(), "the system has no memory");
  if (kind == HostKind::huge) (void)madvise(pages.get(), bytes, MADV_HUGEPAGE);
  const auto own = pages.bytes().subspan(around, bytes);
  if (kind == HostKind::touched) make_pattern(own, 9);
  if (around != 0) make_pattern(pages.bytes(), 10);
  const std::vector<std::byte> before(pages.bytes().begin(),
                                      pages.bytes().begin() + static_cast<std::ptrdiff_t>(around));
  Registered registered(t);
  TRY(registered.begin(own.data(), bytes));
  TRY(ends_of(t, own, bytes));
  if (kind == HostKind::twice) {
    make_pattern(second.bytes().first(host_page), 77);
    TRY(check_pattern(own.first(host_page), 77, "the first of two mappings"));
    Plain plain(t);
    Stream stream(t);
    TRY(plain.allocate(host_page));
    TRY(stream.create());
    TRY(stream.copy(plain.address(), reinterpret_cast<uintptr_t>(own.data()), host_page));
    TRY(stream.fill(plain.address(), 0x5E, host_page / 2));
    TRY(stream.copy(reinterpret_cast<uintptr_t>(own.data()), plain.address(), host_page));
    TRY(stream.synchronize());
    TRY(check_value(second.bytes().first(host_page / 2), 0x5E, "the second of two mappings"));
  }
  TRY(registered.end());
  CHECK(std::equal(before.begin(), before.end(), pages.bytes().begin()),
        "what lies before the registered memory changed");
  return {};
}

REQUIRE("HM-017", takes_registration,
        "Memory of any kind and of any number of pages is registered, and copied from its first "
        "byte to its last.") {
  for (const HostKind kind : {HostKind::touched, HostKind::never_touched, HostKind::shared,
                              HostKind::twice, HostKind::inside, HostKind::huge}) {
    for (const uint64_t pages : {1U, 2U, 3U, 511U, 513U, 4096U}) {
      if (const Outcome outcome = registers_kind(t, kind, pages * host_page); !outcome.passed())
        return Outcome::failure(words(name_of(kind), ", ", pages, " pages: ", outcome.text()));
    }
  }
  return {};
}

/// Bytes from one device to another through the host memory, ordered by fences alone.
Outcome hand_over(Test &t, uint32_t from, uint32_t to, uint64_t host, uint64_t bytes,
                  uint64_t seed) {
  Plain source(t, from), target(t, to);
  Mover in(t, from), out(t, to);
  Stream giver(t, from), taker(t, to);
  Fence given(t), taken(t);
  TRY(source.allocate(bytes));
  TRY(target.allocate(bytes));
  TRY(in.make(bytes));
  TRY(out.make(bytes));
  TRY(giver.create());
  TRY(taker.create());
  TRY(in.write(source.address(), bytes, seed));
  TRY(out.fill(target.address(), 0xEE, bytes));
  TRY(giver.copy(host, source.address(), bytes));
  TRY(given.record(giver));
  MUST(stream_wait, taker.get(), given.get());
  TRY(taker.copy(target.address(), host, bytes));
  TRY(taken.record(taker));
  // The giver goes on only when all is taken.
  MUST(stream_wait, giver.get(), taken.get());
  TRY(giver.fill(source.address(), 0x77, bytes));
  TRY(giver.copy(host, source.address(), bytes));
  TRY(giver.synchronize());
  return out.check(target.address(), bytes, seed);
}

REQUIRE("HM-018", needs(0, 2),
        "Host memory hands bytes from one device to another without the CPU, ordered by fences.") {
  constexpr uint64_t most = 4 * mib;
  Pinned pinned(t);
  TRY(pinned.allocate(most));
  const Pages pages(most);
  Registered registered(t);
  const bool registering = t.has(WEIR_CAP_HOST_REGISTER);
  if (registering) TRY(registered.begin(pages.get(), most));
  for (uint32_t from = 0; from < t.device_count; ++from) {
    for (uint32_t to = 0; to < t.device_count; ++to) {
      for (const uint64_t bytes : {uint64_t{1}, 64 * kib + 1, most}) {
        for (const bool own : {false, true}) {
          if (own && !registering) continue;
          const uint64_t host = own ? pages.address() : pinned.address();
          for (uint64_t round = 0; round < (bytes == most ? 1U : 10U); ++round) {
            const Outcome outcome = hand_over(t, from, to, host, bytes, round);
            if (!outcome.passed())
              return Outcome::failure(words("from device ", from, " to ", to, ", ", bytes,
                                            " bytes, ", own ? "registered" : "pinned", ": ",
                                            outcome.text()));
          }
        }
      }
    }
  }
  return {};
}

REQUIRE("HM-019", always(), "Large pieces of host memory are memory to their last byte.") {
  for (const uint64_t bytes : {16 * mib + 1, 64 * mib}) {
    Pinned pinned(t);
    TRY(pinned.allocate(bytes));
    for (uint64_t at = 0; at < bytes; at += host_page)
      pinned.bytes()[at] = static_cast<std::byte>(at / host_page % 251);
    TRY(every_device(t, pinned.bytes().last(host_page + 7), 1));
    TRY(every_device(t, pinned.bytes().subspan(bytes / 2 - 100, 200), 2));
    TRY(every_device(t, pinned.bytes().last(1), 3));
    for (uint64_t at = 0; at < bytes / 2 - host_page; at += host_page)
      CHECK(pinned.bytes()[at] == static_cast<std::byte>(at / host_page % 251), bytes,
            " bytes of host memory: the byte at ", at, " changed");
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
