// SPDX-License-Identifier: Apache-2.0
//
// Threads that hand bytes round by fences alone, threads that map in one range, and threads that come and go. A thread
// uses streams of its own, which it made or wrapped itself.
#include "conformance/shapes.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint32_t ring_threads = 4;
constexpr uint64_t ring_bytes = kib;
constexpr uint64_t rounds = 300;

/// Where one thread tells another what fence to wait for; 0: none yet.
using Told = std::array<std::atomic<weir_be_fence>, rounds>;

/// What is told by the other thread; 0 when that thread has failed.
weir_be_fence told(const std::atomic<weir_be_fence> &place, const std::atomic<bool> &over) {
  weir_be_fence fence = 0;
  while ((fence = place.load()) == 0 && !over.load()) std::this_thread::yield();
  return fence;
}

/// A ring: each thread's stream takes bytes out of the place before its own, over its device, into its own, when the fence
/// of the thread before says that they are there and the fence of the thread behind that they have been taken.
class Ring {
 public:
  explicit Ring(Test &t) : t_(t), source_(t), taken_(t) {}
  Outcome run() {
    TRY(source_.allocate(rounds * ring_bytes));
    TRY(taken_.allocate(rounds * ring_bytes));
    make_pattern(source_.bytes(), 1);
    for (uint32_t i = 0; i < ring_threads; ++i) {
      slots_[i] = std::make_unique<Pinned>(t_);
      TRY(slots_[i]->allocate(ring_bytes));
    }
    const Outcome outcome = in_threads(ring_threads, [&](uint32_t index) -> Outcome {
      Outcome played = play(index);
      if (!played.passed()) over_ = true;
      return played;
    });
    for (Told &each : told_) {
      for (const auto &fence : each)
        if (fence.load() != 0) {
          t_.keep(t_.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "fence_destroy",
                            t_.table.fence_destroy, fence.load()));
        }
    }
    TRY(outcome);
    return check_pattern(taken_.bytes(), 1, "what went round the ring");
  }

 private:
  Outcome play(uint32_t index) {
    Test &t = t_;
    const uint32_t device = (t.device + index) % t.device_count;
    constexpr Owner owners[ring_threads] = {Owner::made, Owner::wrapped, Owner::base_of_wrapped,
                                            Owner::made};
    Plain memory(t, device);
    Queue queue(t, owners[index], device);
    bool there = false;
    TRY(memory.allocate(ring_bytes));
    TRY(queue.make(&there));
    Settled settled(t);
    settled.add(queue.use());
    const bool first = index == 0, last = index + 1 == ring_threads;
    for (uint64_t round = 0; round < rounds; ++round) {
      Stream &stream = queue.use();
      if (!first) {
        const weir_be_fence filled = told(told_[index - 1][round], over_);
        if (filled == 0) return {};
        MUST(stream_wait, stream.get(), filled);
      }
      if (!last && round != 0) {
        const weir_be_fence taken = told(told_[index + 1][round - 1], over_);
        if (taken == 0) return {};
        MUST(stream_wait, stream.get(), taken);
      }
      const uint64_t from =
          first ? source_.address() + round * ring_bytes : slots_[index - 1]->address();
      const uint64_t to = last ? taken_.address() + round * ring_bytes : slots_[index]->address();
      TRY(stream.copy(memory.address(), from, ring_bytes));
      TRY(stream.copy(to, memory.address(), ring_bytes));
      weir_be_fence fence = 0;
      MUST(fence_record, stream.get(), &fence);
      CHECK(fence != 0, "the fence is 0, which is none");
      told_[index][round] = fence;
    }
    return queue.use().synchronize();
  }

  Test &t_;
  Pinned source_, taken_;
  std::array<std::unique_ptr<Pinned>, ring_threads> slots_;
  std::array<Told, ring_threads> told_{};
  std::atomic<bool> over_{false};
};

REQUIRE("TH-020", always(),
        "Threads hand bytes round by fences alone, over streams of all devices.") {
  auto ring = std::make_unique<Ring>(t);
  return ring->run();
}

/// One thread's places in a range that all threads map into.
class Section {
 public:
  static constexpr uint32_t pieces = 3,
                            places = 5;  ///< the fourth is for an alias, the last stays free
  Section(Test &t, uint64_t address) : t_(t), address_(address), mover_(t) {}
  Outcome make() {
    for (weir_be_piece &piece : run_) {
      granules_.push_back(std::make_unique<Granule>(t_));
      TRY(granules_.back()->create(t_.granule));
      piece = {granules_.back()->get(), 0, t_.granule};
    }
    return mover_.make(std::min(t_.granule, 64 * kib));
  }
  Outcome round(uint64_t number, uint64_t seed) {
    Test &t = t_;
    const bool runs = t.has(WEIR_CAP_MAP_RUN);
    if (runs && number % 2 == 0) {
      MUST(map_run, t.device, at(0), run_.data(), pieces, nullptr, 0);
    } else {
      for (uint32_t i = 0; i < pieces; ++i) TRY(map(i, run_.at(i).granule));
    }
    REFUSED(map, t.device, at(1), t.granule, run_[1].granule, 0, nullptr, 0);
    const uint64_t size = mover_.staging.bytes().size();
    for (uint32_t i = 0; i < pieces; ++i) TRY(mover_.write(at(i), size, seed + i));
    if (t.has(WEIR_CAP_MULTI_MAP)) {
      TRY(map(pieces, run_[1].granule));
      TRY(mover_.check(at(pieces), size, seed + 1));
      TRY(unmap(pieces));
    }
    REFUSED(unmap, t.device, at(pieces + 1), t.granule);
    for (uint32_t i = 0; i < pieces; ++i) TRY(mover_.check(at(i), size, seed + i));
    if (runs && number % 3 == 0) {
      MUST(unmap_run, t.device, at(0), pieces * t.granule);
      return {};
    }
    for (uint32_t i = 0; i < pieces; ++i) TRY(unmap(i));
    return {};
  }

 private:
  uint64_t at(uint32_t place) const noexcept { return address_ + place * t_.granule; }
  Outcome map(uint32_t place, weir_be_granule granule) {
    Test &t = t_;
    MUST(map, t.device, at(place), t.granule, granule, 0, nullptr, 0);
    return {};
  }
  Outcome unmap(uint32_t place) {
    Test &t = t_;
    MUST(unmap, t.device, at(place), t.granule);
    return {};
  }

  Test &t_;
  uint64_t address_;
  std::vector<std::unique_ptr<Granule>> granules_;
  std::array<weir_be_piece, pieces> run_{};
  Mover mover_;
};

REQUIRE("TH-021", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD),
        "Threads map and unmap runs and aliases in one range, with refused maps between, and each "
        "sees its own bytes.") {
  constexpr uint32_t count = 8;
  if (count * Section::pieces * t.granule > t.budget) return t.nothing("the device is too small");
  Range range(t);
  TRY(range.reserve(uint64_t{count} * Section::places * t.granule, t.granule));
  std::vector<std::unique_ptr<Section>> sections;
  for (uint32_t i = 0; i < count; ++i) {
    sections.push_back(
        std::make_unique<Section>(t, range.address() + uint64_t{i} * Section::places * t.granule));
    TRY(sections.back()->make());
  }
  Meeting meeting(count);
  return in_threads(count, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    for (uint64_t i = 0; i < 24; ++i) {
      if (i < 12) guest.wait();
      TRY(sections[index]->round(i + index, index * 1000 + i * 10));
    }
    return {};
  });
}

REQUIRE("TH-023", alone(),
        "Threads that come and go leave nothing, and each begins without a code.") {
  Stream stream(t);
  Plain plain(t);
  TRY(stream.create());
  TRY(plain.allocate(4 * kib));
  const auto come_and_go = [&](uint32_t count) -> Outcome {
    for (uint32_t i = 0; i < count; ++i) {
      Fence fence(t);
      TRY(stream.fill(plain.address(), static_cast<uint8_t>(i), 4 * kib));
      TRY(fence.record(stream));
      TRY(in_threads(1, [&](uint32_t) -> Outcome {
        CHECK(CALL_IN(t, last_error_code) == 0, "a new thread has the native code ",
              CALL_IN(t, last_error_code));
        TRY(fence.wait());
        uint64_t address = 0;
        REFUSED(plain_allocate, t.device, 0, 4096, &address);
        const int64_t code = CALL_IN(t, last_error_code);
        CHECK(code != 0, "a refused call leaves no code");
        const char *text = CALL_IN(t, error_text, code);
        CHECK(text != nullptr && text[0] != '\0', "the code ", code, " has no words");
        Fence own(t);
        TRY(stream.fill(plain.address(), static_cast<uint8_t>(i + 1), 4 * kib));
        TRY(own.record(stream));
        return own.wait();
      }));
    }
    return {};
  };
  uint64_t before = 0;
  TRY(come_and_go(50));
  const Holdings held = holdings();
  TRY(free_memory(t, &before));
  TRY(come_and_go(600));
  TRY(holdings_back(held, 4));
  return memory_back(t, before);
}

}  // namespace
}  // namespace weir::conformance
