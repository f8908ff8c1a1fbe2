// SPDX-License-Identifier: Apache-2.0
//
// Up to 66,000 of each thing that is made by a call and ended by one, one after the other, beside a few that live all the
// time. Each walk has a time after which it does no more, and says so; what is asked of it holds for what was done.
#include "conformance/process.hpp"
#include "conformance/registered.hpp"
#include "conformance/walks.hpp"

#include <time.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

namespace weir::conformance {
namespace {

constexpr uint64_t long_count = 66'000;

/// What the calling thread has worked for, in ns: on a machine that does other things too it goes on more slowly.
uint64_t worked_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

/// Runs `once(i)` that often, or until the thread has worked for `most_ms`; it may wait for four times as long.
Outcome many_times(Test &t, const char *what, uint64_t most_ms,
                   const std::function<Outcome(uint64_t)> &once) {
  const uint64_t began = now_ns(), worked = worked_ns(), most_ns = most_ms * 1'000'000;
  const auto late = [&] {
    return worked_ns() - worked >= most_ns || now_ns() - began >= 5 * most_ns;
  };
  uint64_t i = 0;
  for (; i < long_count && (i % 256 != 0 || !late()); ++i)
    if (const Outcome outcome = once(i); !outcome.passed())
      return in_shape(words(what, ", number ", i), outcome);
  if (i < long_count) t.note(words("only ", i, " times ", what));
  return {};
}

/// Mapped granules that live beside everything else, with patterns in them.
struct Residents {
  static constexpr uint64_t count = 6;
  Residents(Test &t, uint32_t device) : mover(t, device) {
    for (uint64_t i = 0; i < count; ++i) all.push_back(std::make_unique<Mapped>(t, device));
  }
  Outcome make(uint64_t unit) {
    TRY(mover.make(end_bytes));
    for (uint64_t i = 0; i < count; ++i) {
      TRY(all[i]->make(unit, unit));
      TRY(write_ends(mover, all[i]->address(), unit, i));
    }
    return {};
  }
  bool has(weir_be_granule handle) const {
    return std::any_of(all.begin(), all.end(),
                       [&](const auto &each) { return each->granule.get() == handle; });
  }
  Outcome look(uint64_t unit) {
    for (uint64_t i = 0; i < count; ++i)
      TRY(in_shape("one that lived all the time", check_ends(mover, all[i]->address(), unit, i)));
    return {};
  }
  Mover mover;
  std::vector<std::unique_ptr<Mapped>> all;
};

REQUIRE("LI-019", vmm,
        "Of more than 65,536 granules made one after the other, a few at a time, none has the "
        "handle of one that lives, and the last are as good as the first.") {
  constexpr uint64_t at_a_time = 4;
  const uint64_t unit = t.granule;
  Residents residents(t, t.device);
  TRY(residents.make(unit));
  std::vector<std::unique_ptr<Granule>> young;
  TRY(many_times(t, "a granule", 2000, [&](uint64_t i) -> Outcome {
    young.push_back(std::make_unique<Granule>(t));
    TRY(young.back()->create(unit));
    const weir_be_granule made = young.back()->get();
    CHECK(!residents.has(made), "it has the handle ", made, " of one that lives");
    for (size_t k = 0; k + 1 < young.size(); ++k)
      CHECK(young[k]->get() != made, "it has the handle ", made, " of one that lives");
    if (young.size() < at_a_time) return {};
    const auto gone = young.begin() + static_cast<std::ptrdiff_t>(i % at_a_time);
    TRY((*gone)->destroy());
    young.erase(gone);
    return {};
  }));
  TRY(residents.look(unit));
  Range range(t);
  TRY(range.reserve(unit, unit));
  for (const auto &each : young) {
    Map map(t);
    TRY(map.map(range.address(), unit, *each));
    TRY(write_ends(residents.mover, range.address(), unit, 77));
    TRY(check_ends(residents.mover, range.address(), unit, 77));
  }
  return residents.look(unit);
}

REQUIRE(
    "LI-020", vmm,
    "More than 65,536 maps, and thousands of runs, come and go one after the other, and what is "
    "mapped all the time stays.") {
  const uint64_t unit = t.granule;
  Residents residents(t, t.device);
  Granule a(t), b(t);
  Range range(t);
  TRY(residents.make(unit));
  TRY(a.create(unit));
  TRY(b.create(unit));
  TRY(range.reserve(4 * unit, unit));
  const auto use = [&](uint64_t address, uint64_t i) -> Outcome {
    if (i % 4096 != 0) return {};
    TRY(write_ends(residents.mover, address, unit, i));
    TRY(check_ends(residents.mover, address, unit, i));
    return residents.look(unit);
  };
  TRY(many_times(t, "a map", 3000, [&](uint64_t i) -> Outcome {
    Map map(t);
    TRY(map.map(range.address() + i % 4 * unit, unit, a));
    TRY(use(map.address(), i));
    return map.unmap();
  }));
  if (t.has(WEIR_CAP_MAP_RUN)) {
    const weir_be_piece pieces[] = {{b.get(), 0, unit}, {a.get(), 0, unit}};
    TRY(many_times(t, "a run", 300, [&](uint64_t i) -> Outcome {
      const uint64_t address = range.address() + i % 3 * unit;
      MUST(map_run, t.device, address, pieces, 2, nullptr, 0);
      TRY(use(address + unit, i));
      MUST(unmap_run, t.device, address, 2 * unit);
      return {};
    }));
  }
  Map last(t);
  TRY(last.map(range.address(), unit, a));
  TRY(use(last.address(), 0));
  return residents.look(unit);
}

REQUIRE("LI-021", always(),
        "Tens of thousands of registrations and ranges, and thousands of pieces of plain and host "
        "memory, come and go one after the other, and those that live all the time stay.") {
  constexpr uint64_t bytes = 4 * kib;
  const Pages pages(8 * bytes);
  CHECK(pages.any(), "no memory");
  Plain plain(t);
  Pinned pinned(t);
  Mover mover(t);
  TRY(plain.allocate(bytes));
  TRY(pinned.allocate(bytes));
  TRY(mover.make(bytes));
  TRY(mover.write(plain.address(), bytes, 1));
  make_pattern(pinned.bytes(), 2);
  const auto look = [&]() -> Outcome {
    TRY(mover.check(plain.address(), bytes, 1));
    return check_pattern(pinned.bytes(), 2, "host memory");
  };
  TRY(many_times(t, "plain memory", 300, [&](uint64_t i) -> Outcome {
    Plain each(t);
    TRY(each.allocate(1 + i % bytes, 256));
    if (i % 4096 == 0) {
      TRY(mover.write(each.address(), 1, i));
      TRY(mover.check(each.address(), 1, i));
      TRY(look());
    }
    return each.free();
  }));
  TRY(many_times(t, "host memory", 300, [&](uint64_t i) -> Outcome {
    Pinned each(t);
    TRY(each.allocate(1 + i % bytes));
    each.bytes().back() = std::byte{7};
    return each.free();
  }));
  TRY(look());
  if (t.has(WEIR_CAP_HOST_REGISTER)) {
    Registered always_there(t);
    TRY(always_there.begin(pages.get(), bytes));
    TRY(many_times(t, "a registration", 1500, [&](uint64_t i) -> Outcome {
      Registered each(t);
      std::byte *at = pages.bytes().data() + (1 + i % 6) * bytes;
      TRY(each.begin(at, bytes));
      if (i % 8192 == 0) TRY(round_trip(t, t.device, {at, bytes}, i));
      return each.end();
    }));
    TRY(round_trip(t, t.device, pages.bytes().first(bytes), 3));
  }
  if (t.granule == 0) return look();
  Range living(t);
  TRY(living.reserve(t.granule, t.granule));
  TRY(many_times(t, "a range", 600, [&](uint64_t i) -> Outcome {
    Range each(t);
    const uint64_t size = (1 + i % 5) * t.granule;
    TRY(each.reserve(size, t.granule));
    CHECK(
        each.address() + size <= living.address() || living.address() + t.granule <= each.address(),
        "a range at ", each.address(), " overlaps with that at ", living.address());
    return each.free();
  }));
  return look();
}

REQUIRE(
    "LI-022", needs(WEIR_CAP_EXPORT_FD),
    "More than 65,536 exports of a granule, and thousands of imports, come and go one after the "
    "other; the last are the same memory as the first.") {
  const uint64_t unit = t.granule;
  Granule granule(t);
  Range range(t);
  Mover mover(t);
  TRY(granule.create(unit, WEIR_BE_GRANULE_EXPORT_FD));
  TRY(range.reserve(unit, unit));
  TRY(mover.make(end_bytes));
  {
    Map map(t);
    TRY(map.map(range.address(), unit, granule));
    TRY(write_ends(mover, range.address(), unit, 1));
  }
  const auto sent = [&](Descriptor *out) -> Outcome {
    int32_t fd = -1;
    MUST(granule_export, t.device, granule.get(), &fd);
    CHECK(fd >= 0, "the exported descriptor is ", fd);
    *out = Descriptor(fd);
    return {};
  };
  const auto look = [&](const Granule &of) -> Outcome {
    Map map(t);
    TRY(map.map(range.address(), unit, of));
    return check_ends(mover, range.address(), unit, 1);
  };
  TRY(many_times(t, "an export", 1500, [&](uint64_t) -> Outcome {
    Descriptor fd;
    return sent(&fd);
  }));
  Descriptor fd;
  TRY(sent(&fd));
  TRY(many_times(t, "an import", 800, [&](uint64_t i) -> Outcome {
    Granule imported(t);
    TRY(imported.import(fd.get(), unit));
    if (i % 4096 == 0) TRY(look(imported));
    return imported.destroy();
  }));
  Granule imported(t);
  TRY(imported.import(fd.get(), unit));
  TRY(look(imported));
  return look(granule);
}

REQUIRE(
    "LI-023", advised(alone()),
    "As many small pieces of plain memory as a device has room for, up to 30,000, live at once, "
    "each apart from the others.") {
  // Where a piece is a mapping of the process, it can have about 65,000 in all.
  constexpr uint64_t unit = 64, least = 1000, at_most = 30'000, most_ns = 1'500'000'000;
  const uint64_t most = std::min(at_most, t.budget / (2 * kib));
  std::vector<std::unique_ptr<Plain>> all;
  Mover mover(t);
  uint64_t before = 0, now = 0;
  TRY(mover.make(unit));
  TRY(free_memory(t, &before));
  const uint64_t began = now_ns();
  while (all.size() < most) {
    if (all.size() % 64 == 0) {
      TRY(free_memory(t, &now));
      if (now + t.budget < before || now_ns() - began > most_ns) break;
    }
    // What a small piece costs is the runtime's business: it may have none left before free memory says so.
    uint64_t address = 0;
    const weir_result result = CALL(plain_allocate, t.device, unit, unit, &address);
    const bool none_left =
        result == WEIR_ERROR_DEVICE_OOM || result == WEIR_ERROR_OUT_OF_HOST_MEMORY;
    if (none_left && all.size() >= least) break;
    CHECK(result == WEIR_SUCCESS, "piece ", uint64_t{all.size()},
          ": plain_allocate = ", result_name(result));
    all.push_back(std::make_unique<Plain>(t));
    all.back()->adopt(address, unit);
    if (all.size() % 256 == 1) TRY(mover.write(all.back()->address(), unit, all.size()));
  }
  if (all.size() < at_most) t.note(words(all.size(), " pieces"));
  std::vector<uint64_t> addresses;
  for (const auto &each : all) addresses.push_back(each->address());
  for (size_t i = 0; i < all.size(); i += 256) TRY(mover.check(addresses[i], unit, i + 1));
  std::sort(addresses.begin(), addresses.end());
  for (size_t i = 1; i < addresses.size(); ++i)
    CHECK(addresses[i] - addresses[i - 1] >= unit, "plain memory at ", addresses[i - 1], " and at ",
          addresses[i], " overlaps");
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[t.random.below(i)]);
  while (!all.empty()) {
    TRY(all.back()->free());
    all.pop_back();
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
