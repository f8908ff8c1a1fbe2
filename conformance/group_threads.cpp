// SPDX-License-Identifier: Apache-2.0
//
// Several threads at once. Here a stream is used by one thread at a time; group_one_stream.cpp has the others. What maps is
// one thread per device unless MAP_ANY_THREAD says otherwise.
#include "conformance/fixtures.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint32_t threads = 4;
/// Rounds in which the threads wait for each other before what they are to do at once; in the others they run free.
constexpr uint64_t met_rounds = 20;

/// Which of the four threads play which of two parts in such a round. A scheduler may let the same two meet first each time: by and by
/// every two play different parts, either way.
bool plays_first(uint64_t round, uint32_t index) noexcept {
  constexpr std::array<uint32_t, 6> pairs{0b0011, 0b0110, 0b1100, 0b1001, 0b0101, 0b1010};
  return (pairs[round % pairs.size()] >> index & 1U) != 0;
}

REQUIRE("TH-001", needs(WEIR_CAP_VMM),
        "Threads make and destroy granules, and reserve and free ranges, at the same time.") {
  return in_threads(threads, [&](uint32_t) -> Outcome {
    for (int i = 0; i < 100; ++i) {
      Granule granule(t);
      Range range(t);
      TRY(granule.create(t.granule));
      TRY(range.reserve(4 * t.granule, t.granule));
      TRY(granule.destroy());
      TRY(range.free());
    }
    return {};
  });
}

REQUIRE(
    "TH-002", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD),
    "With MAP_ANY_THREAD threads map and unmap at the same time, and each sees its own bytes.") {
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    Mover mover(t);
    TRY(mover.make(t.granule));
    for (uint64_t i = 0; i < 30; ++i) {
      Mapped mapped(t);
      TRY(mapped.make(t.granule, t.granule));
      TRY(mover.write(mapped.address(), t.granule, index * 1000 + i));
      TRY(mapped.mapping.unmap());
      TRY(mapped.mapping.map(mapped.address(), t.granule, mapped.granule));
      TRY(mover.check(mapped.address(), t.granule, index * 1000 + i));
    }
    return {};
  });
}

REQUIRE("TH-003", needs(WEIR_CAP_VMM), "One thread maps while others make granules and copy.") {
  std::atomic<bool> over{false};
  const Outcome outcome = in_threads(threads, [&](uint32_t index) -> Outcome {
    if (index != 0) {
      Plain plain(t);
      Mover mover(t);
      TRY(plain.allocate(64 * kib));
      TRY(mover.make(64 * kib));
      for (uint64_t i = 0; !over.load(); ++i) {
        Granule granule(t);
        TRY(granule.create(t.granule));
        TRY(mover.write(plain.address(), 64 * kib, index * 1000 + i));
        TRY(mover.check(plain.address(), 64 * kib, index * 1000 + i));
      }
      return {};
    }
    const auto map_all = [&]() -> Outcome {
      Mover mover(t);
      TRY(mover.make(t.granule));
      for (uint64_t i = 0; i < 40; ++i) {
        Mapped mapped(t);
        TRY(mapped.make(t.granule, t.granule));
        TRY(mover.write(mapped.address(), t.granule, i));
        TRY(mover.check(mapped.address(), t.granule, i));
      }
      return {};
    };
    Outcome mapped = map_all();
    over = true;
    return mapped;
  });
  return outcome;
}

REQUIRE(
    "TH-004", always(),
    "Threads allocate, copy and free plain memory at the same time, and each sees its own bytes.") {
  Meeting meeting(threads);
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    Random random(t.seed + index);
    Mover mover(t);
    TRY(mover.make(64 * kib));
    for (uint64_t i = 0; i < 60; ++i) {
      Plain plain(t);
      const uint64_t bytes = 1 + random.below(64 * kib);
      TRY(plain.allocate(bytes));
      if (i < met_rounds) guest.wait();
      TRY(mover.write(plain.address(), bytes, index * 1000 + i));
      TRY(mover.check(plain.address(), bytes, index * 1000 + i));
    }
    return {};
  });
}

REQUIRE("TH-005", always(), "Threads make and end streams and fences at the same time.") {
  Plain plain(t);
  TRY(plain.allocate(threads * 4 * kib));
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    for (int i = 0; i < 40; ++i) {
      Stream stream(t);
      Fence fence(t);
      TRY(stream.create());
      TRY(stream.fill(plain.address() + index * 4 * kib, 1, 4 * kib));
      TRY(fence.record(stream));
      TRY(fence.wait());
    }
    return {};
  });
}

REQUIRE("TH-006", always(), "Threads allocate and free host memory at the same time.") {
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    Random random(t.seed + index);
    for (uint64_t i = 0; i < 50; ++i) {
      Pinned pinned(t);
      TRY(pinned.allocate(1 + random.below(256 * kib)));
      make_pattern(pinned.bytes(), index * 1000 + i);
      TRY(check_pattern(pinned.bytes(), index * 1000 + i, "host memory"));
    }
    return {};
  });
}

REQUIRE("TH-007", always(),
        "Any thread polls and waits for fences that another thread records, and sees the bytes "
        "behind them.") {
  constexpr uint64_t bytes = 64 * kib;
  constexpr uint64_t rounds = 100;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(bytes));
  TRY(mover.make(bytes));
  for (uint64_t i = 0; i < rounds; ++i) {
    const auto value = static_cast<uint8_t>(i);
    Fence fence(t);
    TRY(mover.stream.fill(plain.address(), value, bytes));
    TRY(mover.stream.copy(mover.staging.address(), plain.address(), bytes));
    TRY(fence.record(mover.stream));
    Outcome seen;
    std::thread other([&] {
      seen = t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "fence_wait",
                      t.table.fence_wait, fence.get(), patience_ns);
      if (seen.passed()) seen = check_value(mover.staging.bytes(), value, "seen by another thread");
    });
    const Outcome polled = t.expect(Site::current(), Want::either(WEIR_SUCCESS, WEIR_NOT_READY),
                                    "fence_poll", t.table.fence_poll, fence.get());
    other.join();
    TRY(seen);
    TRY(polled);
  }
  return {};
}

REQUIRE("TH-008", always(),
        "Two states are used by two threads at the same time and do not meet.") {
  Session second(t, t.device);
  TRY(second.start(t.library, t.settings.options));
  return in_threads(2, [&](uint32_t index) -> Outcome {
    Session &session = index == 0 ? static_cast<Session &>(t) : second;
    Mover mover(session);
    TRY(mover.make(64 * kib));
    for (uint64_t i = 0; i < 40; ++i) {
      Plain plain(session);
      TRY(plain.allocate(64 * kib));
      TRY(mover.write(plain.address(), 64 * kib, index * 1000 + i));
      TRY(mover.check(plain.address(), 64 * kib, index * 1000 + i));
    }
    return {};
  });
}

REQUIRE("TH-009", always(), "Devices and links are described while other threads are at work.") {
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    for (int i = 0; i < 100; ++i) {
      if (index % 2 == 0) {
        weir_be_device about;
        uint64_t free_bytes = 0;
        TRY(t.describe(t.device, &about));
        TRY(free_memory(t, &free_bytes));
        CHECK(free_bytes <= about.memory_total, free_bytes, " bytes are free, of ",
              about.memory_total);
      } else {
        Plain plain(t);
        TRY(plain.allocate(64 * kib));
      }
    }
    return {};
  });
}

REQUIRE("TH-010", always(), "States are started and stopped by threads at the same time.") {
  return in_threads(3, [&](uint32_t) -> Outcome {
    for (int i = 0; i < 5; ++i) {
      Session session(t, t.device);
      TRY(session.start(t.library, t.settings.options));
      Plain plain(session);
      TRY(plain.allocate(4 * kib));
    }
    return {};
  });
}

REQUIRE("TH-011", needs(WEIR_CAP_HOST_REGISTER),
        "Threads register and unregister memory of their own at the same time.") {
  alignas(4096) static std::byte pages[threads][4096];
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    for (int i = 0; i < 100; ++i) {
      MUST(host_register, pages[index], sizeof pages[index]);
      MUST(host_unregister, pages[index], sizeof pages[index]);
    }
    return {};
  });
}

REQUIRE("TH-012", always(),
        "A state may be used and stopped by another thread than the one that started it.") {
  Session session(t, t.device);
  TRY(session.start(t.library, t.settings.options));
  return in_threads(1, [&](uint32_t) -> Outcome {
    {
      Plain plain(session);
      Mover mover(session);
      TRY(plain.allocate(64 * kib));
      TRY(mover.make(64 * kib));
      TRY(mover.write(plain.address(), 64 * kib, 1));
      TRY(mover.check(plain.address(), 64 * kib, 1));
    }
    session.stop();
    return {};
  });
}

REQUIRE("TH-013", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD),
        "One thread's maps in a range leave what another thread maps in the same range.") {
  constexpr uint64_t each = 4;
  Range range(t);
  TRY(range.reserve(threads * each * t.granule, t.granule));
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    Mover mover(t);
    Granule granule(t);
    TRY(mover.make(t.granule));
    TRY(granule.create(t.granule));
    for (uint64_t i = 0; i < 40; ++i) {
      Map map(t);
      TRY(map.map(range.address() + (i % each * threads + index) * t.granule, t.granule, granule));
      if (i == 0) TRY(mover.write(map.address(), t.granule, index));
      TRY(mover.check(map.address(), t.granule, index));
    }
    return {};
  });
}

REQUIRE("TH-014", always(),
        "One thread's refused calls leave other threads' calls and their codes as they are.") {
  Meeting meeting(threads);
  TRY(in_threads(threads, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    for (uint64_t i = 0; i < met_rounds; ++i) {
      uint64_t address = 0;
      Plain plain(t);
      guest.wait();
      if (plays_first(i, index)) {
        REFUSED(plain_allocate, t.device, 0, 4096, &address);
      } else {
        TRY(plain.allocate(4 * kib));
      }
    }
    return {};
  }));
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    for (int i = 0; i < 100; ++i) {
      if (index % 2 == 0) {
        uint64_t address = 0;
        REFUSED(plain_allocate, t.device, 0, 4096, &address);
        continue;
      }
      Plain plain(t);
      TRY(plain.allocate(4 * kib));
      CHECK(CALL_IN(t, last_error_code) == 0, "a thread without failures has the native code ",
            CALL_IN(t, last_error_code));
    }
    return {};
  });
}

REQUIRE("TH-015", needs(WEIR_CAP_HOST_CALL),
        "Threads record at the same time, and each fence follows the stream that was named.") {
  Gate gate(t);
  Stream held[2] = {Stream(t), Stream(t)};
  for (Stream &stream : held) {
    TRY(stream.create());
    TRY(gate.hold(stream));
  }
  Meeting meeting(threads);
  const Outcome outcome = in_threads(threads, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    Stream idle(t);
    TRY(idle.create());
    for (uint64_t i = 0; i < 200; ++i) {
      Fence fence(t);
      // Once more than they take turns in: a stream is one thread's at a time.
      if (i <= met_rounds) guest.wait();
      bool holds = index < 2;
      uint32_t which = index;
      if (i < met_rounds) {
        holds = plays_first(i, index);
        which = 0;
        for (uint32_t before = 0; before < index; ++before) which += plays_first(i, before) ? 1 : 0;
      }
      TRY(fence.record(holds ? held[which] : idle));
      if (holds) ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
    }
    return {};
  });
  gate.open();
  return outcome;
}

REQUIRE(
    "TH-016", needs(WEIR_CAP_VMM),
    "All mapping may be done by one thread that neither started the state nor uses the memory.") {
  Granule granule(t);
  Range range(t);
  Mover mover(t);
  TRY(granule.create(t.granule));
  TRY(range.reserve(t.granule, t.granule));
  TRY(mover.make(t.granule));
  std::atomic<uint32_t> turn{0};  // 0: map, 2: use, 3: unmap, and so on by fours
  std::atomic<bool> over{false};
  constexpr uint32_t rounds = 20;
  const auto mine = [&](uint32_t wanted) {
    while (turn.load() != wanted && !over.load()) std::this_thread::yield();
    return !over.load();
  };
  return in_threads(2, [&](uint32_t index) -> Outcome {
    const auto play = [&]() -> Outcome {
      for (uint32_t i = 0; i < rounds; ++i) {
        if (!mine(4 * i + 2 * index)) return {};
        if (index == 0) {
          MUST(map, t.device, range.address(), t.granule, granule.get(), 0, nullptr, 0);
        } else {
          TRY(mover.write(range.address(), t.granule, i));
          TRY(mover.check(range.address(), t.granule, i));
        }
        turn = 4 * i + 2 * index + (index == 0 ? 2 : 1);
        if (index != 0) continue;
        if (!mine(4 * i + 3)) return {};
        MUST(unmap, t.device, range.address(), t.granule);
        turn = 4 * i + 4;
      }
      return {};
    };
    Outcome played = play();
    if (!played.passed()) over = true;
    return played;
  });
}

REQUIRE("TH-017", needs(0, 2),
        "Threads make, use and free memory of different devices at the same time.") {
  Meeting meeting(threads);
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    Mover movers[2] = {Mover(t, t.device), Mover(t, t.other)};
    for (Mover &each : movers) TRY(each.make(4 * kib));
    for (uint64_t i = 0; i < 50; ++i) {
      const bool met = i < met_rounds;
      const uint32_t side = (met ? plays_first(i, index) : index % 2 == 0) ? 0 : 1;
      const uint32_t device = side == 0 ? t.device : t.other;
      Mover &mover = movers[side];
      Plain plain(t, device);
      if (met) guest.wait();
      TRY(plain.allocate(4 * kib));
      TRY(mover.write(plain.address(), 4 * kib, index * 1000 + i));
      TRY(mover.check(plain.address(), 4 * kib, index * 1000 + i));
      TRY(plain.free());
      if (t.granule == 0) continue;
      Granule granule(t, device);
      TRY(granule.create(t.granule));
      TRY(granule.destroy());
    }
    return {};
  });
}

REQUIRE("TH-018", alone(),
        "When threads have allocated and freed at the same time, what is free is right.") {
  const uint64_t bytes = std::max<uint64_t>(t.slack / 4, 4 * kib);
  uint64_t before = 0, after = 0, total = 0;
  Plain kept(t);
  TRY(kept.allocate(t.budget / 4));
  TRY(free_memory(t, &before));
  Meeting meeting(threads);
  std::array<uint64_t, threads> places{};
  TRY(in_threads(threads, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    Mover mover(t);
    TRY(mover.make(4 * kib));
    for (uint64_t i = 0; i < 60; ++i) {
      Plain plain(t);
      if (i < met_rounds) guest.wait();
      TRY(plain.allocate(bytes));
      if (i < met_rounds) {
        places[index] = plain.address();
        guest.wait();
        for (uint32_t other = 0; other < threads; ++other) {
          const uint64_t apart =
              std::max(places[other], plain.address()) - std::min(places[other], plain.address());
          CHECK(other == index || apart >= bytes, "two threads have got memory ", apart,
                " bytes apart, each of them ", bytes);
        }
      }
      TRY(mover.write(plain.address(), 4 * kib, index * 1000 + i));
      TRY(mover.check(plain.address(), 4 * kib, index * 1000 + i));
    }
    return {};
  }));
  TRY(memory_back(t, before));
  MUST(device_memory, t.device, &after, &total);
  CHECK(after <= total - kept.bytes(), after, " of ", total, " bytes are free while ", kept.bytes(),
        " are held");
  return {};
}

}  // namespace
}  // namespace weir::conformance
