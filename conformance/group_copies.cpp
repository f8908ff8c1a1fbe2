// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills: all their bytes, and no others.
#include "conformance/fixtures.hpp"

#include <algorithm>

namespace weir::conformance {
namespace {

constexpr Needs batches = needs(WEIR_CAP_BATCH_COPY);
constexpr uint8_t around = 0xC3;  ///< what lies around the bytes that are copied

/// Two pieces of memory and what one copy between them must do to the second.
class Bench {
 public:
  Bench(Test &t, uint64_t bytes)
      : bytes_(bytes), t_(t), device_(t), second_(t), in_(t), out_(t), stream_(t) {}
  Outcome make() {
    TRY(device_.allocate(bytes_));
    TRY(second_.allocate(bytes_));
    TRY(in_.allocate(bytes_));
    TRY(out_.allocate(bytes_));
    return stream_.create();
  }
  uint64_t device() const { return device_.address(); }
  uint64_t second() const { return second_.address(); }
  Stream &stream() { return stream_; }
  std::span<std::byte> in() const { return in_.bytes(); }
  uint64_t host_in() const { return in_.address(); }

  /// Puts the pattern in one place and `around` in another, runs the copy, and looks at all of the second.
  Outcome copied(uint64_t to, uint64_t to_offset, uint64_t from, uint64_t from_offset,
                 uint64_t bytes) {
    make_pattern(in_.bytes(), bytes);
    std::vector<std::byte> wanted(bytes_, std::byte{around});
    std::copy_n(in_.bytes().begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                wanted.begin() + static_cast<std::ptrdiff_t>(to_offset));
    if (from != in_.address()) TRY(stream_.copy(from, in_.address(), bytes_));
    if (to == out_.address()) {
      TRY(stream_.synchronize());
      std::fill(out_.bytes().begin(), out_.bytes().end(), std::byte{around});
    } else {
      TRY(stream_.fill(to, around, bytes_));
    }
    TRY(stream_.copy(to + to_offset, from + from_offset, bytes));
    if (to != out_.address()) TRY(stream_.copy(out_.address(), to, bytes_));
    TRY(stream_.synchronize());
    return check_same(
        out_.bytes(), wanted,
        words("a copy of ", bytes, " bytes to offset ", to_offset, " from offset ", from_offset));
  }
  uint64_t host_out() const { return out_.address(); }
  std::span<std::byte> out() const { return out_.bytes(); }

 private:
  uint64_t bytes_;
  Test &t_;
  Plain device_, second_;
  Pinned in_, out_;
  Stream stream_;
};

/// Sizes from 1 up at odd places, and larger ones about powers of two.
Outcome all_sizes(Bench &bench, uint64_t to, uint64_t from) {
  for (uint64_t bytes = 1; bytes <= 200; ++bytes)
    TRY(bench.copied(to, 1 + bytes % 7, from, 3 + bytes % 5, bytes));
  for (uint64_t power = 256; power <= 16 * kib; power *= 2) {
    for (const uint64_t bytes : {power - 1, power, power + 1})
      TRY(bench.copied(to, bytes % 64, from, bytes % 37, bytes));
  }
  return {};
}

REQUIRE("CP-001", always(),
        "Copies from the host to the device move all of their bytes and no others, whatever size "
        "and offsets.") {
  Bench bench(t, 20 * kib);
  TRY(bench.make());
  return all_sizes(bench, bench.device(), bench.host_in());
}

REQUIRE("CP-002", always(),
        "Copies from the device to the host move all of their bytes and no others.") {
  Bench bench(t, 20 * kib);
  TRY(bench.make());
  return all_sizes(bench, bench.host_out(), bench.device());
}

REQUIRE("CP-003", always(), "Copies within the device move all of their bytes and no others.") {
  Bench bench(t, 20 * kib);
  TRY(bench.make());
  return all_sizes(bench, bench.second(), bench.device());
}

REQUIRE("CP-004", always(),
        "Copies from host memory to host memory move all of their bytes and no others.") {
  Bench bench(t, 20 * kib);
  TRY(bench.make());
  return all_sizes(bench, bench.host_out(), bench.host_in());
}

REQUIRE("CP-005", always(),
        "Copies within one allocation, of ranges that do not overlap, are right.") {
  constexpr uint64_t half = 64 * kib;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(2 * half));
  TRY(mover.make(half));
  TRY(mover.write(plain.address(), half, 1));
  TRY(mover.stream.copy(plain.address() + half, plain.address(), half));
  TRY(mover.check(plain.address() + half, half, 1));
  TRY(mover.write(plain.address() + half, half, 2));
  TRY(mover.stream.copy(plain.address(), plain.address() + half, half));
  return mover.check(plain.address(), half, 2);
}

REQUIRE("CP-006", always(),
        "Large copies, at and about powers of two, move their last byte and not the next.") {
  constexpr uint64_t most = 8 * mib;
  Bench bench(t, most + 4 * kib);
  TRY(bench.make());
  for (uint64_t power = 64 * kib; power <= most; power *= 2) {
    for (const uint64_t bytes : {power - 1, power + 1}) {
      TRY(bench.copied(bench.device(), 5, bench.host_in(), 9, bytes));
      TRY(bench.copied(bench.host_out(), 9, bench.device(), 5, bytes));
    }
  }
  return bench.copied(bench.second(), 1, bench.device(), 2, most);
}

REQUIRE("CP-007", always(), "A copy leaves its source as it was.") {
  Bench bench(t, 64 * kib);
  TRY(bench.make());
  TRY(bench.copied(bench.second(), 0, bench.device(), 0, 64 * kib));
  TRY(check_pattern(bench.in(), 64 * kib, "the host's source"));
  TRY(bench.stream().copy(bench.host_out(), bench.device(), 64 * kib));
  TRY(bench.stream().synchronize());
  return check_pattern(bench.out(), 64 * kib, "the device's source");
}

REQUIRE("CP-008", always(),
        "What describes a copy may be changed as soon as the call has returned.") {
  constexpr uint64_t piece = 4 * kib;
  constexpr uint64_t count = 64;
  Bench bench(t, piece * count);
  TRY(bench.make());
  make_pattern(bench.in(), 1);
  weir_be_copy copy{};
  for (uint64_t i = 0; i < count; ++i) {
    copy = {bench.device() + i * piece, bench.host_in() + i * piece, piece};
    MUST(copy_async, bench.stream().get(), &copy);
    copy = {0, 0, 0};
  }
  TRY(bench.stream().copy(bench.host_out(), bench.device(), piece * count));
  TRY(bench.stream().synchronize());
  return check_pattern(bench.out(), 1, "what was copied in pieces");
}

REQUIRE("CP-009", always(),
        "A fill sets all of its bytes and no others, whatever size and offset.") {
  constexpr uint64_t bytes = 24 * kib;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(bytes));
  TRY(mover.make(bytes));
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1; size <= 140; ++size) sizes.push_back(size);
  for (uint64_t power = 256; power <= 16 * kib; power *= 2)
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  for (const uint64_t size : sizes) {
    const uint64_t offset = 1 + size % 13;
    TRY(mover.stream.fill(plain.address(), around, bytes));
    TRY(mover.stream.fill(plain.address() + offset, 0x5A, size));
    TRY(mover.read(plain.address(), bytes));
    const auto seen = mover.staging.bytes();
    const std::string what = words("a fill of ", size, " bytes at offset ", offset);
    TRY(check_value(seen.first(offset), around, what + ", before it"));
    TRY(check_value(seen.subspan(offset, size), 0x5A, what));
    TRY(check_value(seen.subspan(offset + size, bytes - offset - size), around,
                    what + ", behind it"));
  }
  return {};
}

REQUIRE("CP-010", always(), "A fill fills with any byte.") {
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(kib));
  TRY(mover.make(kib));
  for (uint32_t value = 0; value < 256; ++value) {
    TRY(mover.fill(plain.address(), static_cast<uint8_t>(value), kib));
    TRY(mover.check_filled(plain.address(), kib, static_cast<uint8_t>(value)));
  }
  return {};
}

REQUIRE("CP-011", always(), "A large fill reaches its last byte and not the next.") {
  constexpr uint64_t bytes = 8 * mib;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(bytes + kib));
  TRY(mover.make(bytes + kib));
  TRY(mover.stream.fill(plain.address(), around, bytes + kib));
  TRY(mover.stream.fill(plain.address() + 3, 1, bytes - 1));
  TRY(mover.read(plain.address(), bytes + kib));
  TRY(check_value(mover.staging.bytes().first(3), around, "before the fill"));
  TRY(check_value(mover.staging.bytes().subspan(3, bytes - 1), 1, "the fill"));
  return check_value(mover.staging.bytes().subspan(bytes + 2, kib - 2), around, "behind the fill");
}

REQUIRE(
    "CP-012", always(),
    "Random copies and fills on one stream leave what the same ones leave in ordinary memory.") {
  constexpr uint64_t bytes = 64 * kib;
  Plain plain(t);
  Mover mover(t);
  Pinned source(t);
  TRY(plain.allocate(bytes));
  TRY(mover.make(bytes));
  TRY(source.allocate(bytes));
  make_pattern(source.bytes(), 1);
  std::vector<std::byte> model(bytes, std::byte{0});
  TRY(mover.stream.fill(plain.address(), 0, bytes));
  for (uint32_t step = 0; step < 1500; ++step) {
    const uint64_t size = 1 + t.random.below(bytes / 4);
    const uint64_t to = t.random.below(bytes - size + 1), from = t.random.below(bytes - size + 1);
    const auto at = model.begin() + static_cast<std::ptrdiff_t>(to);
    if (t.random.below(3) == 0) {
      const auto value = static_cast<uint8_t>(t.random.next());
      TRY(mover.stream.fill(plain.address() + to, value, size));
      std::fill_n(at, size, std::byte{value});
    } else {
      TRY(mover.stream.copy(plain.address() + to, source.address() + from, size));
      std::copy_n(source.bytes().begin() + static_cast<std::ptrdiff_t>(from), size, at);
    }
  }
  TRY(mover.read(plain.address(), bytes));
  const std::span<const std::byte> is = mover.staging.bytes().first(bytes);
  return check_same(is, model, "memory after many copies");
}

REQUIRE("CP-013", always(), "Copies in both directions at once, on two streams, are both right.") {
  constexpr uint64_t bytes = 4 * mib;
  Plain up(t), down(t);
  Mover in(t), out(t);
  TRY(up.allocate(bytes));
  TRY(down.allocate(bytes));
  TRY(in.make(bytes));
  TRY(out.make(bytes));
  for (uint64_t i = 0; i < 8; ++i) {
    TRY(out.write(down.address(), bytes, i));
    make_pattern(in.staging.bytes(), 100 + i);
    make_pattern(out.staging.bytes(), 999);
    TRY(in.stream.copy(up.address(), in.staging.address(), bytes));
    TRY(out.stream.copy(out.staging.address(), down.address(), bytes));
    TRY(in.stream.synchronize());
    TRY(out.stream.synchronize());
    TRY(check_pattern(out.staging.bytes(), i, "the copy to the host"));
    TRY(in.check(up.address(), bytes, 100 + i));
  }
  return {};
}

REQUIRE("CP-014", always(), "A copy to or from the address 0 is refused.") {
  Bench bench(t, kib);
  TRY(bench.make());
  const weir_be_copy to{0, bench.host_in(), 64}, from{bench.device(), 0, 64};
  REFUSED(copy_async, bench.stream().get(), &to);
  REFUSED(copy_async, bench.stream().get(), &from);
  return bench.copied(bench.device(), 0, bench.host_in(), 0, kib);
}

REQUIRE("CP-015", needs(WEIR_CAP_VMM),
        "Copies at odd places in mapped granules move all of their bytes and no others.") {
  Mapped mapped(t);
  Mover mover(t);
  const uint64_t bytes = std::min(t.granule, 256 * kib);
  TRY(mapped.make(2 * t.granule, t.granule));
  TRY(mover.make(bytes + 2));
  // About the granule's own middle, which is inside one map.
  const uint64_t start = mapped.address() + t.granule - bytes / 2;
  TRY(mover.fill(start - 1, around, bytes + 2));
  TRY(mover.write(start, bytes, 1));
  TRY(mover.check(start, bytes, 1));
  TRY(mover.check_filled(start - 1, 1, around));
  TRY(mover.check_filled(start + bytes, 1, around));
  TRY(mover.write(mapped.address() + 2 * t.granule - 3, 3, 2));
  TRY(mover.check(mapped.address() + 2 * t.granule - 3, 3, 2));
  TRY(mover.write(mapped.address(), 1, 3));
  return mover.check(mapped.address(), 1, 3);
}

// ---- batches

REQUIRE("CP-016", batches, "A batch does all of its copies, whatever their sizes and directions.") {
  constexpr uint64_t piece = 3 * kib;
  constexpr uint64_t count = 60;
  Bench bench(t, piece * count);
  TRY(bench.make());
  make_pattern(bench.in(), 1);
  TRY(bench.stream().copy(bench.second(), bench.host_in(), piece * count));
  TRY(bench.stream().fill(bench.device(), around, piece * count));
  std::vector<weir_be_copy> copies;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = i * piece, bytes = i % 3 == 0 ? 1 + i : piece - i;
    // From the host, from the device, to the host.
    if (i % 3 == 0) copies.push_back({bench.device() + at, bench.host_in() + at, bytes});
    if (i % 3 == 1) copies.push_back({bench.device() + at, bench.second() + at, bytes});
    if (i % 3 == 2) copies.push_back({bench.host_out() + at, bench.second() + at, bytes});
  }
  std::fill(bench.out().begin(), bench.out().end(), std::byte{around});
  TRY(bench.stream().synchronize());
  MUST(copy_batch_async, bench.stream().get(), copies.data(), static_cast<uint32_t>(copies.size()));
  std::fill(copies.begin(), copies.end(), weir_be_copy{0, 0, 0});
  TRY(bench.stream().synchronize());
  std::vector<std::byte> host(bench.out().begin(), bench.out().end());
  TRY(bench.stream().copy(bench.host_out(), bench.device(), piece * count));
  TRY(bench.stream().synchronize());
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = i * piece, bytes = i % 3 == 0 ? 1 + i : piece - i;
    const std::span<const std::byte> all =
        i % 3 == 2 ? std::span<const std::byte>(host) : bench.out();
    const auto part = all.subspan(at, bytes);
    TRY(check_same(part, bench.in().subspan(at, bytes),
                   words("copy ", i, " of the batch, of ", bytes, " bytes")));
    TRY(check_value(all.subspan(at + bytes, piece - bytes), around, words("behind copy ", i)));
  }
  return {};
}

REQUIRE("CP-017", batches, "A batch of one copy does it.") {
  Bench bench(t, kib);
  TRY(bench.make());
  make_pattern(bench.in(), 1);
  const weir_be_copy copy{bench.device(), bench.host_in(), kib};
  MUST(copy_batch_async, bench.stream().get(), &copy, 1);
  TRY(bench.stream().copy(bench.host_out(), bench.device(), kib));
  TRY(bench.stream().synchronize());
  return check_pattern(bench.out(), 1, "what the batch copied");
}

REQUIRE("CP-018", batches, "A batch with an element that is refused does none of its copies.") {
  constexpr uint64_t piece = 4 * kib;
  Bench bench(t, 8 * piece);
  TRY(bench.make());
  make_pattern(bench.in(), 1);
  for (const size_t bad : {size_t{7}, size_t{3}, size_t{0}}) {
    TRY(bench.stream().fill(bench.device(), around, 8 * piece));
    weir_be_copy copies[8];
    for (uint64_t i = 0; i < 8; ++i)
      copies[i] = {bench.device() + i * piece, bench.host_in() + i * piece, piece};
    copies[bad].destination = 0;
    REFUSED(copy_batch_async, bench.stream().get(), copies, 8);
    TRY(bench.stream().copy(bench.host_out(), bench.device(), 8 * piece));
    TRY(bench.stream().synchronize());
    TRY(check_value(bench.out(), around,
                    words("after a batch whose element ", uint64_t{bad}, " was refused")));
  }
  return {};
}

REQUIRE("CP-019", batches,
        "A batch is in the stream's order: after what was enqueued before it and before what comes "
        "behind.") {
  constexpr uint64_t piece = 16 * kib;
  constexpr uint32_t count = 16;
  Bench bench(t, piece * count);
  TRY(bench.make());
  for (uint64_t round = 0; round < 10; ++round) {
    make_pattern(bench.in(), round);
    std::vector<weir_be_copy> up, over;
    for (uint64_t i = 0; i < count; ++i) {
      up.push_back({bench.device() + i * piece, bench.host_in() + i * piece, piece});
      over.push_back({bench.second() + i * piece, bench.device() + i * piece, piece});
    }
    TRY(bench.stream().fill(bench.device(), 1, piece * count));
    MUST(copy_batch_async, bench.stream().get(), up.data(), count);
    MUST(copy_batch_async, bench.stream().get(), over.data(), count);
    TRY(bench.stream().fill(bench.device(), 2, piece * count));
    TRY(bench.stream().copy(bench.host_out(), bench.second(), piece * count));
    TRY(bench.stream().synchronize());
    TRY(check_pattern(bench.out(), round, words("round ", round)));
  }
  return {};
}

REQUIRE("CP-020", batches,
        "A fence behind a batch has not passed before all of the batch's copies are done.") {
  constexpr uint64_t piece = 64 * kib;
  constexpr uint32_t count = 64;
  Bench bench(t, piece * count);
  TRY(bench.make());
  for (uint8_t round = 1; round < 10; ++round) {
    std::fill(bench.out().begin(), bench.out().end(), std::byte{0xEE});
    std::vector<weir_be_copy> copies;
    for (uint64_t i = 0; i < count; ++i)
      copies.push_back({bench.host_out() + i * piece, bench.device() + i * piece, piece});
    Fence fence(t);
    TRY(bench.stream().fill(bench.device(), round, piece * count));
    MUST(copy_batch_async, bench.stream().get(), copies.data(), count);
    TRY(fence.record(bench.stream()));
    TRY(fence.wait());
    TRY(check_value(bench.out(), round, "when the fence behind the batch passed"));
  }
  return {};
}

REQUIRE("CP-021", always(), "A fill at the address 0 is refused.") {
  Stream stream(t);
  TRY(stream.create());
  REFUSED(fill_async, stream.get(), 0, 1, 64);
  return stream.synchronize();
}

}  // namespace
}  // namespace weir::conformance
