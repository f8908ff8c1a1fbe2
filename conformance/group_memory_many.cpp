// SPDX-License-Identifier: Apache-2.0
//
// Memory in many hands: calls that are refused take and give nothing, what one thread makes another ends, host memory of a few
// bytes, and host memory that several states know. Measures of free memory are taken alone.
#include "conformance/registered.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <functional>
#include <memory>

namespace weir::conformance {
namespace {

/// As many bytes are free as before, to within what the runtime needs for itself; more become so a moment later.
Outcome as_free_as(Test &t, const DeviceFacts &device, uint64_t before, const std::string &when) {
  const uint64_t give_up = now_ns() + patience_ns / 4;
  uint64_t now = 0;
  do {
    TRY(free_bytes_of(t, device.index, &now));
  } while (now + device.slack < before && now_ns() < give_up);
  CHECK(now + device.slack >= before, when, ": of ", before, " free bytes ", now, " are left");
  CHECK(now <= before + device.slack, when, ": ", before, " bytes were free, and now ", now);
  return {};
}

// ---- refused ends

/// Things that live, whose ends are asked for wrongly: `pieces` of each kind, which are `bytes` together.
Outcome refused_ends_free_nothing(Test &t, const DeviceFacts &device, uint64_t pieces,
                                  uint64_t bytes) {
  const uint64_t unit = device.unit, each = bytes / pieces;
  const uint32_t index = device.index;
  std::vector<std::unique_ptr<Plain>> plain;
  std::vector<std::unique_ptr<Mapped>> mapped;
  uint64_t before = 0;
  for (uint64_t i = 0; i < pieces; ++i) {
    plain.push_back(std::make_unique<Plain>(t, index));
    TRY(plain.back()->allocate(each));
    if (unit == 0) continue;
    mapped.push_back(std::make_unique<Mapped>(t, index));
    TRY(mapped.back()->make(std::max(each / unit, uint64_t{1}) * unit, unit));
  }
  TRY(free_bytes_of(t, index, &before));
  const auto again = [&](const char *what, const std::function<Outcome()> &body) -> Outcome {
    for (int i = 0; i < 8; ++i) TRY(in_shape(what, body()));
    return as_free_as(t, device, before, what);
  };
  TRY(again("plain memory freed with another size or device", [&]() -> Outcome {
    for (const auto &it : plain) {
      REFUSED(plain_free, index, it->address(), it->bytes() + mib);
      REFUSED(plain_free, t.no_device(), it->address(), it->bytes());
    }
    return {};
  }));
  TRY(again("plain memory that is not made", [&]() -> Outcome {
    uint64_t address = 0;
    REFUSED(plain_allocate, index, 0, 4096, &address);
    REFUSED(plain_allocate, index, each, 3, &address);
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, index, 2 * device.about.memory_total, 4096,
            &address);
    return {};
  }));
  if (unit == 0) return {};
  TRY(again("granules destroyed while they are mapped", [&]() -> Outcome {
    for (const auto &it : mapped) REFUSED(granule_destroy, index, it->granule.get());
    return {};
  }));
  TRY(again("ranges freed while they are in use", [&]() -> Outcome {
    for (const auto &it : mapped) REFUSED(range_free, index, it->address(), it->range.bytes());
    return {};
  }));
  TRY(again("maps ended with another size", [&]() -> Outcome {
    for (const auto &it : mapped) REFUSED(unmap, index, it->address(), it->range.bytes() + unit);
    return {};
  }));
  TRY(again("granules that are not made", [&]() -> Outcome {
    weir_be_granule granule = 0;
    REFUSED(granule_create, index, unit + unit / 2, 0, &granule);
    ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, index,
            device.about.memory_total / unit * 2 * unit, 0, &granule);
    return {};
  }));
  return again("granules mapped twice, or beyond their range", [&]() -> Outcome {
    for (const auto &it : mapped)
      REFUSED_ONE_WAY_OR_OTHER(map, index, it->address(), it->range.bytes(), it->granule.get(), 0,
                               nullptr, 0);
    return {};
  });
}

REQUIRE("PM-021", alone(),
        "Calls about memory that are refused make neither more nor less of it free.") {
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    uint64_t before = 0;
    TRY(refused_ends_free_nothing(t, device, 1, device.budget / 4));
    TRY(free_bytes_of(t, device.index, &before));
    for (const uint64_t pieces : {uint64_t{1}, uint64_t{16}}) {
      TRY(in_shape(words(pieces, " pieces"),
                   refused_ends_free_nothing(t, device, pieces, device.budget / 4)));
      TRY(as_free_as(t, device, before, "when all has ended"));
    }
    return {};
  });
}

// ---- made by one thread, ended by another

/// Something that is made and ended by whichever thread.
struct HandedOn {
  const char *name;
  uint64_t capabilities;
  std::function<Outcome(const DeviceFacts &, uint64_t bytes)> make;
  std::function<Outcome()> end;
};

/// One thread makes, another ends; `together`: both live all the time, else the maker has gone.
Outcome pass_on(const HandedOn &thing, const DeviceFacts &device, uint64_t bytes, bool together) {
  if (!together) {
    TRY(in_threads(1, [&](uint32_t) { return thing.make(device, bytes); }));
    return in_threads(1, [&](uint32_t) { return thing.end(); });
  }
  Meeting meeting(2);
  bool made = false;
  return in_threads(2, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    Outcome outcome;
    if (index == 0) {
      outcome = thing.make(device, bytes);
      made = outcome.passed();
    }
    guest.wait();
    if (index == 1 && made) outcome = thing.end();
    guest.wait();
    return outcome;
  });
}

REQUIRE("PM-022", alone(), "Memory that one thread made and another ended is free again.") {
  std::vector<std::unique_ptr<Plain>> plain;
  std::vector<std::unique_ptr<Granule>> granules;
  std::vector<std::unique_ptr<Mapped>> mapped;
  const auto granules_with = [&](uint64_t flags) {
    return [&granules, &t, flags](const DeviceFacts &device, uint64_t bytes) -> Outcome {
      for (int i = 0; i < 4; ++i) {
        granules.push_back(std::make_unique<Granule>(t, device.index));
        TRY(granules.back()->create(std::max(bytes / 4 / device.unit, uint64_t{1}) * device.unit,
                                    flags));
      }
      return {};
    };
  };
  const auto end_granules = [&]() -> Outcome {
    for (const auto &each : granules) TRY(each->destroy());
    granules.clear();
    return {};
  };
  const HandedOn things[] = {{"plain memory", 0,
                              [&](const DeviceFacts &device, uint64_t bytes) -> Outcome {
                                for (int i = 0; i < 4; ++i) {
                                  plain.push_back(std::make_unique<Plain>(t, device.index));
                                  TRY(plain.back()->allocate(bytes / 4));
                                }
                                return {};
                              },
                              [&]() -> Outcome {
                                for (const auto &each : plain) TRY(each->free());
                                plain.clear();
                                return {};
                              }},
                             {"granules", WEIR_CAP_VMM, granules_with(0), end_granules},
                             {"granules for descriptors", WEIR_CAP_VMM | WEIR_CAP_EXPORT_FD,
                              granules_with(WEIR_BE_GRANULE_EXPORT_FD), end_granules},
                             {"granules for a fabric", WEIR_CAP_VMM | WEIR_CAP_EXPORT_FABRIC,
                              granules_with(WEIR_BE_GRANULE_EXPORT_FABRIC), end_granules},
                             {"mapped granules", WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD,
                              [&](const DeviceFacts &device, uint64_t bytes) -> Outcome {
                                mapped.push_back(std::make_unique<Mapped>(t, device.index));
                                return mapped.back()->make(
                                    std::max(bytes / device.unit, uint64_t{1}) * device.unit,
                                    device.unit);
                              },
                              [&]() -> Outcome {
                                for (const auto &each : mapped) {
                                  TRY(each->mapping.unmap());
                                  TRY(each->range.free());
                                  TRY(each->granule.destroy());
                                }
                                mapped.clear();
                                return {};
                              }}};
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    for (const HandedOn &thing : things) {
      if (!device.has(thing.capabilities)) continue;
      uint64_t before = 0;
      TRY(pass_on(thing, device, device.budget / 4, false));
      TRY(free_bytes_of(t, device.index, &before));
      for (const bool together : {false, true}) {
        for (int round = 0; round < 2; ++round)
          TRY(in_shape(thing.name, pass_on(thing, device, device.budget / 4, together)));
        TRY(as_free_as(t, device, before, words(thing.name, " that another thread ended")));
      }
    }
    return {};
  });
}

REQUIRE("VM-047", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD),
        "With MAP_ANY_THREAD any thread unmaps what another has mapped, alone or as a run, and the "
        "neighbours stay.") {
  return each_device(
      t, WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD, [&](const DeviceFacts &device) -> Outcome {
        constexpr uint64_t places = 8;
        const uint64_t unit = device.unit;
        const uint32_t index = device.index;
        Range range(t, index);
        Mover mover(t, index);
        std::vector<std::unique_ptr<Granule>> granules;
        const auto at = [&](uint64_t place) { return range.address() + place * unit; };
        const auto elsewhere = [](const std::function<Outcome()> &body) {
          return in_threads(1, [&](uint32_t) { return body(); });
        };
        const auto look = [&](uint64_t first, uint64_t end) -> Outcome {
          for (uint64_t i = first; i < end; ++i)
            TRY(in_shape(words("place ", i), check_ends(mover, at(i), unit, i)));
          return {};
        };
        TRY(mover.make(end_bytes));
        TRY(range.reserve(places * unit, unit));
        for (uint64_t i = 0; i < places; ++i) {
          granules.push_back(std::make_unique<Granule>(t, index));
          TRY(granules[i]->create(unit));
        }
        const bool runs = device.has(WEIR_CAP_MAP_RUN);
        for (uint64_t round = 0; round < 4; ++round) {
          // Each place by a thread of its own, the later half as a run where there are runs.
          const uint64_t single = runs ? places / 2 : places;
          for (uint64_t i = 0; i < single; ++i)
            TRY(elsewhere([&]() -> Outcome {
              MUST(map, index, at(i), unit, granules[i]->get(), 0, nullptr, 0);
              return write_ends(mover, at(i), unit, i);
            }));
          if (runs) {
            std::vector<weir_be_piece> pieces;
            for (uint64_t i = single; i < places; ++i)
              pieces.push_back({granules[i]->get(), 0, unit});
            TRY(elsewhere([&]() -> Outcome {
              MUST(map_run, index, at(single), pieces.data(),
                   static_cast<uint32_t>(places - single), nullptr, 0);
              for (uint64_t i = single; i < places; ++i) TRY(write_ends(mover, at(i), unit, i));
              return {};
            }));
          }
          TRY(look(0, places));
          // The first by this thread, the others by others; what is a run goes as one in every other round.
          MUST(unmap, index, at(0), unit);
          TRY(look(1, places));
          const uint64_t together = runs && round % 2 == 0 ? single - 1 : places;
          for (uint64_t i = 1; i < together; ++i) {
            TRY(elsewhere([&]() -> Outcome {
              MUST(unmap, index, at(i), unit);
              return {};
            }));
            TRY(look(i + 1, places));
          }
          if (together < places)
            TRY(elsewhere([&]() -> Outcome {
              MUST(unmap_run, index, at(together), (places - together) * unit);
              return {};
            }));
        }
        return {};
      });
}

// ---- addresses

REQUIRE("AR-019", vmm, "An alignment of any power of two is kept, far beyond 1 GiB too.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t unit = device.unit;
    Granule granule(t, device.index);
    Mover mover(t, device.index);
    TRY(granule.create(unit));
    TRY(mover.make(end_bytes));
    std::vector<std::unique_ptr<Range>> ranges;
    // A multiple of a large alignment by chance is one of few: several of each live at once.
    for (uint64_t alignment = unit; alignment <= uint64_t{1} << 40U; alignment *= 2) {
      if (!device.has_addresses(4 * (alignment + unit))) break;
      ranges.clear();
      for (int i = 0; i < 3; ++i) {
        ranges.push_back(std::make_unique<Range>(t, device.index));
        Range &range = *ranges.back();
        if (alignment > uint64_t{1} << 36U) {
          // There need not be so many addresses; what is given is as it was asked for.
          uint64_t address = 0;
          if (CALL(range_reserve, device.index, unit, alignment, &address) != WEIR_SUCCESS)
            return {};
          MUST(range_free, device.index, address, unit);
          CHECK(address % alignment == 0, "an alignment of ", alignment, ": the address is ",
                address);
          continue;
        }
        TRY(in_shape(words("an alignment of ", alignment), range.reserve(unit, alignment)));
        CHECK(range.address() % alignment == 0, "an alignment of ", alignment, ": the address is ",
              range.address());
      }
      if (ranges.back()->bytes() == 0) continue;
      Map map(t, device.index);
      TRY(map.map(ranges.back()->address(), unit, granule));
      TRY(write_ends(mover, map.address(), unit, alignment));
      TRY(check_ends(mover, map.address(), unit, alignment));
    }
    return {};
  });
}

// ---- host memory

REQUIRE("HM-020", always(),
        "Host memory of any few bytes, however much of it there is, begins a page of its own and "
        "is its owner's to its last byte.") {
  constexpr uint64_t page = 4096;
  const uint64_t sizes[] = {1,   2,    16,   63,   64,   100,  255, 256,
                            511, 1024, 1500, 2048, 4095, 4096, 4097};
  Meeting meeting(3);
  std::mutex mutex;
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  return in_threads(3, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    std::vector<std::unique_ptr<Pinned>> all;
    Random random(t.seed + index);
    const auto look = [&](uint64_t i) {
      return check_pattern(all[i]->bytes(), 1000 * index + all[i]->bytes().size(),
                           words("host memory of ", all[i]->bytes().size(), " bytes"));
    };
    for (int round = 0; round < 4; ++round) {
      for (const uint64_t bytes : sizes) {
        all.push_back(std::make_unique<Pinned>(t));
        TRY(all.back()->allocate(bytes));
        const uint64_t address = all.back()->address();
        CHECK(address % page == 0, "host memory of ", bytes, " bytes begins at ", address);
        make_pattern(all.back()->bytes(), 1000 * index + bytes);
        const std::lock_guard lock(mutex);
        taken.emplace_back(address, (bytes + page - 1) / page * page);
      }
    }
    guest.wait();
    if (index == 0) {
      std::sort(taken.begin(), taken.end());
      for (size_t i = 1; i < taken.size(); ++i)
        CHECK(taken[i - 1].first + taken[i - 1].second <= taken[i].first, "host memory at ",
              taken[i - 1].first, " and at ", taken[i].first, " share a page");
    }
    guest.wait();
    for (uint64_t i = 0; i < all.size(); ++i) TRY(look(i));
    while (!all.empty()) {
      std::swap(all[random.below(all.size())], all.back());
      all.pop_back();
      if (!all.empty()) TRY(look(random.below(all.size())));
    }
    return {};
  });
}

REQUIRE("HM-021", needs(WEIR_CAP_HOST_REGISTER),
        "Memory that one state has registered is registered for another too, or refused; the first "
        "keeps it, and when that has ended it or stopped the other gets it.") {
  constexpr uint64_t bytes = 64 * kib;
  const Pages pages(bytes), beside(bytes);
  const auto used_by = [&](Session &session, const Pages &memory, uint64_t seed) -> Outcome {
    Plain plain(session);
    Stream stream(session);
    TRY(plain.allocate(bytes));
    TRY(stream.create());
    make_pattern(memory.bytes(), seed);
    TRY(stream.copy(plain.address(), memory.address(), bytes));
    TRY(stream.synchronize());
    make_pattern(memory.bytes(), seed + 1);
    TRY(stream.copy(memory.address(), plain.address(), bytes));
    TRY(stream.synchronize());
    return check_pattern(memory.bytes(), seed, "registered memory");
  };
  uint32_t shared = 0;
  for (const bool by_stop : {false, true}) {
    Session first(t, t.device), second(t, t.device);
    TRY(first.start(t.library, t.settings.options));
    TRY(second.start(t.library, t.settings.options));
    Registered theirs(second);
    TRY(theirs.begin(beside.get(), bytes));
    MUST_IN(first, host_register, pages.get(), bytes);
    const bool both = CALL_IN(second, host_register, pages.get(), bytes) == WEIR_SUCCESS;
    if (both) {
      ++shared;
      TRY(used_by(second, pages, 1));
      MUST_IN(second, host_unregister, pages.get(), bytes);
    }
    TRY(used_by(first, pages, 3));
    TRY(used_by(second, beside, 5));
    EXPECT_IN(first, invalid(), host_register, pages.get(), bytes);
    if (by_stop) {
      first.stop();
    } else {
      MUST_IN(first, host_unregister, pages.get(), bytes);
    }
    Registered last(second);
    TRY(last.begin(pages.get(), bytes));
    TRY(used_by(second, pages, 7));
  }
  if (shared == 0) t.note("a second state is refused");
  return {};
}

}  // namespace
}  // namespace weir::conformance
