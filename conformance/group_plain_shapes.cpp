// SPDX-License-Identifier: Apache-2.0
//
// Plain memory in every shape: how it is freed, its sizes and alignments, and that it has no other owner when it comes again.
#include "conformance/refusals.hpp"

#include <array>
#include <cstring>
#include <memory>

namespace weir::conformance {
namespace {

/// Plain memory of some size and a stream; what is wrong is tried, then it is freed.
Outcome freed_as_allocated(Test &t, uint32_t device, uint64_t bytes) {
  constexpr uint64_t apart = 64 * kib;  // sizes that differ by less may be taken as the same
  Plain plain(t, device), neighbour(t, device);
  Mover mover(t, device);
  TRY(plain.allocate(bytes));
  TRY(neighbour.allocate(bytes));
  TRY(mover.make(bytes));
  TRY(mover.write(plain.address(), bytes, 1));
  TRY(mover.write(neighbour.address(), bytes, 2));
  const uint64_t at = plain.address();
  REFUSED(plain_free, device, at, 0);
  REFUSED(plain_free, device, at, bytes + apart);
  if (bytes > 2 * apart) {
    REFUSED(plain_free, device, at, 2 * bytes);
    REFUSED(plain_free, device, at, bytes / 2);
    REFUSED(plain_free, device, at, bytes - apart);
    REFUSED(plain_free, device, at + apart, bytes - apart);
    REFUSED(plain_free, device, at + apart, bytes);
  }
  for (uint32_t i = 0; i < t.device_count; ++i)
    if (i != device) REFUSED(plain_free, i, at, bytes);
  TRY(mover.check(at, bytes, 1));
  TRY(mover.check(neighbour.address(), bytes, 2));
  TRY(plain.free());
  return mover.check(neighbour.address(), bytes, 2);
}

REQUIRE("PL-015", always(),
        "Plain memory is freed as it was allocated only: with another size, address or device it "
        "is refused, and stays.") {
  for (uint32_t device = 0; device < t.device_count; ++device) {
    for (const uint64_t bytes : {4 * kib, mib, 3 * mib + 1}) {
      if (const Outcome outcome = freed_as_allocated(t, device, bytes); !outcome.passed())
        return Outcome::failure(words("device ", device, ", ", bytes, " bytes: ", outcome.text()));
    }
  }
  return {};
}

REQUIRE("PL-016", always(), "An alignment of more than 2 MiB is refused.") {
  for (uint32_t device = 0; device < t.device_count; ++device) {
    for (const uint64_t alignment : {4 * mib, 1024 * mib, uint64_t{1} << 63U}) {
      uint64_t address = untouched;
      REFUSED(plain_allocate, device, mib, alignment, &address);
      CHECK(address == untouched, "the refused call wrote ", address, " as an address");
    }
  }
  return {};
}

Outcome whole_to_its_ends(Test &t, uint32_t device, Mover &mover, uint64_t bytes,
                          uint64_t alignment) {
  constexpr uint64_t near = 4097;
  Plain before(t, device), plain(t, device), behind(t, device);
  TRY(before.allocate(near, 1));
  TRY(plain.allocate(bytes, alignment));
  TRY(behind.allocate(near, 1));
  CHECK(plain.address() % alignment == 0, plain.address(), " is not aligned");
  TRY(mover.fill(before.address(), 0x11, near));
  TRY(mover.fill(behind.address(), 0x22, near));
  TRY(mover.write(plain.address(), bytes, bytes));
  TRY(mover.check_filled(before.address(), near, 0x11));
  TRY(mover.check_filled(behind.address(), near, 0x22));
  TRY(mover.fill(before.address(), 0x33, near));
  TRY(mover.fill(behind.address(), 0x44, near));
  return mover.check(plain.address(), bytes, bytes);
}

REQUIRE("PL-017", always(),
        "Memory of every size at every alignment is used to its last byte, and its neighbours "
        "stay as they are.") {
  constexpr std::array<uint64_t, 5> alignments{1, 64, 4 * kib, 64 * kib, 2 * mib};
  constexpr std::array<uint64_t, 8> sizes{
      1, 3, 255, 4095, 4 * kib + 1, 64 * kib + 1, 2 * mib - 1, 2 * mib + 1};
  for (uint32_t device = 0; device < t.device_count; ++device) {
    Mover mover(t, device);
    TRY(mover.make(8 * mib));
    for (const uint64_t bytes : sizes) {
      for (const uint64_t alignment : alignments) {
        const Outcome outcome = whole_to_its_ends(t, device, mover, bytes, alignment);
        if (!outcome.passed())
          return Outcome::failure(words("device ", device, ", ", bytes, " bytes, alignment ",
                                        alignment, ": ", outcome.text()));
      }
    }
    const uint64_t large = std::min(t.budget / 2, 8 * mib - 1);
    const Outcome outcome = whole_to_its_ends(t, device, mover, large, 64);
    if (!outcome.passed())
      return Outcome::failure(words("device ", device, ", ", large, " bytes: ", outcome.text()));
  }
  return {};
}

REQUIRE("PL-018", always(),
        "Memory that is freed after its own stream was waited for, and comes again, is nobody "
        "else's, whatever other streams do.") {
  constexpr uint64_t bytes = 192 * kib;
  for (uint32_t device = 0; device < t.device_count; ++device) {
    std::array<Stream, 4> streams{Stream(t, device), Stream(t, device), Stream(t, device),
                                  Stream(t, device)};
    Plain others[2] = {Plain(t, device), Plain(t, device)};
    Pinned out(t);
    TRY(out.allocate(bytes));
    for (Stream &stream : streams) TRY(stream.create());
    for (Plain &other : others) TRY(other.allocate(mib));
    for (uint32_t round = 0; round < 150; ++round) {
      // Two of the four are at work elsewhere meanwhile, each time others.
      for (uint32_t i = 0; i < 2; ++i)
        TRY(streams[(round + 2 + i) % 4].fill(others[i].address(), static_cast<uint8_t>(round),
                                              mib));
      const auto first = static_cast<uint8_t>(2 * round + 1),
                 second = static_cast<uint8_t>(first + 1);
      {
        Plain piece(t, device);
        TRY(piece.allocate(bytes));
        TRY(streams[round % 4].fill(piece.address(), first, bytes));
        TRY(streams[round % 4].synchronize());
      }
      Plain piece(t, device);
      TRY(piece.allocate(bytes));
      Stream &user = streams[(round + 1) % 4];
      TRY(user.fill(piece.address(), second, bytes));
      TRY(user.copy(out.address(), piece.address(), bytes));
      TRY(user.synchronize());
      TRY(check_value(out.bytes(), second, words("device ", device, ", round ", round)));
    }
    for (Stream &stream : streams) TRY(stream.synchronize());
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
