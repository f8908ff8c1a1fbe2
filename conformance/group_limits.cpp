// SPDX-License-Identifier: Apache-2.0
//
// Many of everything. The numbers are what the core may ask of a backend, not what a backend can do at most.
#include "conformance/fixtures.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

REQUIRE("LI-001", always(), "10,000 fences are outstanding on one stream at once; all pass.") {
  Stream stream(t);
  Plain plain(t);
  TRY(stream.create());
  TRY(plain.allocate(4 * kib));
  std::vector<Fence> fences;
  fences.reserve(10000);
  for (int i = 0; i < 10000; ++i) {
    if (i % 100 == 0) TRY(stream.fill(plain.address(), 1, 4 * kib));
    fences.emplace_back(t);
    TRY(fences.back().record(stream));
  }
  TRY(fences.back().wait());
  for (const Fence &fence : fences) MUST(fence_poll, fence.get());
  return {};
}

REQUIRE("LI-002", always(),
        "A million fences one after the other are recorded, polled and destroyed.") {
  Stream stream(t);
  TRY(stream.create());
  constexpr uint64_t most_ns = 20'000'000'000;
  const uint64_t began = now_ns();
  uint64_t i = 0;
  for (; i < 1'000'000 && (i % 1000 != 0 || now_ns() - began < most_ns / 4); ++i) {
    Fence fence(t);
    TRY(fence.record(stream));
    ANSWERS_EITHER(WEIR_SUCCESS, WEIR_NOT_READY, fence_poll, fence.get());
    if (i % 10'000 == 0) TRY(fence.wait());
  }
  if (i < 1'000'000) t.note(words("only ", i, " in the time there is"));
  return stream.synchronize();
}

REQUIRE("LI-003", always(), "64 streams exist at once, and each does its own work.") {
  constexpr uint64_t bytes = 16 * kib;
  std::vector<std::unique_ptr<Stream>> streams;
  Plain plain(t);
  Pinned in(t), out(t);
  TRY(plain.allocate(64 * bytes));
  TRY(in.allocate(64 * bytes));
  TRY(out.allocate(64 * bytes));
  make_pattern(in.bytes(), 1);
  for (uint64_t i = 0; i < 64; ++i) {
    streams.push_back(std::make_unique<Stream>(t));
    TRY(streams.back()->create());
    const uint64_t at = i * bytes;
    TRY(streams.back()->copy(plain.address() + at, in.address() + at, bytes));
    TRY(streams.back()->copy(out.address() + at, plain.address() + at, bytes));
  }
  for (const auto &stream : streams) TRY(stream->synchronize());
  return check_pattern(out.bytes(), 1, "what 64 streams copied");
}

REQUIRE("LI-004", needs(WEIR_CAP_BATCH_COPY), "A batch of 4096 copies does all of them.") {
  constexpr uint64_t piece = 512;
  constexpr uint32_t count = 4096;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(piece * count));
  TRY(mover.make(piece * count));
  make_pattern(mover.staging.bytes(), 1);
  std::vector<weir_be_copy> copies;
  for (uint64_t i = 0; i < count; ++i)
    copies.push_back({plain.address() + i * piece, mover.staging.address() + i * piece, piece});
  for (uint32_t i = count; i > 1; --i) std::swap(copies[i - 1], copies[t.random.below(i)]);
  MUST(copy_batch_async, mover.stream.get(), copies.data(), count);
  TRY(mover.stream.synchronize());
  return mover.check(plain.address(), piece * count, 1);
}

REQUIRE("LI-005", needs(WEIR_CAP_VMM),
        "Hundreds of granules live at once, each mapped, each with its own bytes.") {
  const uint64_t count = std::max<uint64_t>(std::min<uint64_t>(t.budget / t.granule, 512), 2);
  const uint64_t bytes = 4 * kib;
  Range range(t);
  std::vector<std::unique_ptr<Granule>> granules;
  std::vector<std::unique_ptr<Map>> maps;
  Mover mover(t);
  TRY(range.reserve(count * t.granule, t.granule));
  TRY(mover.make(bytes));
  for (uint64_t i = 0; i < count; ++i) {
    granules.push_back(std::make_unique<Granule>(t));
    maps.push_back(std::make_unique<Map>(t));
    TRY(granules[i]->create(t.granule));
    TRY(maps[i]->map(range.address() + i * t.granule, t.granule, *granules[i]));
    TRY(mover.write(maps[i]->address(), bytes, i));
  }
  for (uint64_t i = 0; i < count; ++i) TRY(mover.check(maps[i]->address(), bytes, i));
  return {};
}

REQUIRE("LI-006", needs(WEIR_CAP_VMM), "256 ranges of addresses are reserved at once.") {
  std::vector<std::unique_ptr<Range>> ranges;
  for (int i = 0; i < 256; ++i) {
    ranges.push_back(std::make_unique<Range>(t));
    TRY(ranges.back()->reserve(16 * t.granule, t.granule));
  }
  return {};
}

REQUIRE("LI-007", always(), "5,000 copies wait in one stream, and all are done in order.") {
  constexpr uint64_t slots = 500;
  Plain plain(t);
  Pinned source(t);
  Mover mover(t);
  TRY(plain.allocate(slots * 64));
  TRY(source.allocate(5000 * 64));
  TRY(mover.make(slots * 64));
  make_pattern(source.bytes(), 1);
  for (uint64_t i = 0; i < 5000; ++i)
    TRY(mover.stream.copy(plain.address() + i % slots * 64, source.address() + i * 64, 64));
  TRY(mover.read(plain.address(), slots * 64));
  const auto wanted = source.bytes().last(slots * 64);
  return check_same(mover.staging.bytes(), wanted, "what the last copies to each place left");
}

REQUIRE("LI-008", always(), "1,000 pieces of plain memory live at once.") {
  std::vector<std::unique_ptr<Plain>> pieces;
  Mover mover(t);
  TRY(mover.make(64));
  for (uint64_t i = 0; i < 1000; ++i) {
    pieces.push_back(std::make_unique<Plain>(t));
    TRY(pieces.back()->allocate(64, 256));
    TRY(mover.write(pieces.back()->address(), 64, i));
  }
  for (uint64_t i = 0; i < 1000; ++i) TRY(mover.check(pieces[i]->address(), 64, i));
  return {};
}

REQUIRE("LI-009", always(), "256 pieces of host memory live at once.") {
  std::vector<std::unique_ptr<Pinned>> pieces;
  for (uint64_t i = 0; i < 256; ++i) {
    pieces.push_back(std::make_unique<Pinned>(t));
    TRY(pieces.back()->allocate(16 * kib));
    make_pattern(pieces.back()->bytes(), i);
  }
  for (uint64_t i = 0; i < 256; ++i) TRY(check_pattern(pieces[i]->bytes(), i, words("piece ", i)));
  return {};
}

REQUIRE(
    "LI-010", always(),
    "Memory of a quarter of a small device, or 256 MiB, is one piece, and all of it is memory.") {
  Plain plain(t);
  Mover mover(t);
  const uint64_t step = t.budget / 16;
  const uint64_t bytes = std::min(step, mib);
  TRY(plain.allocate(t.budget));
  TRY(mover.make(bytes));
  for (uint64_t at = 0; at + bytes <= t.budget; at += step)
    TRY(mover.write(plain.address() + at, bytes, at));
  TRY(mover.write(plain.address() + t.budget - 1, 1, 7));
  TRY(mover.check(plain.address() + t.budget - 1, 1, 7));
  for (uint64_t at = 0; at + step < t.budget; at += step)
    TRY(mover.check(plain.address() + at, bytes, at));
  return {};
}

}  // namespace
}  // namespace weir::conformance
