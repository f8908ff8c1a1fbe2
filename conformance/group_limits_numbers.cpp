// SPDX-License-Identifier: Apache-2.0
//
// Many of everything, on all devices: what lives at once keeps apart, and what came and went leaves nothing. Each
// requirement has a time after which it does no more, and says so; what is asked of it holds for what was done.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

namespace weir::conformance {
namespace {

/// After that long a requirement of this file makes no more.
constexpr uint64_t long_enough_ns = 5'000'000'000;

/// Fences by number, with what is to be said of each.
class ManyFences {
 public:
  explicit ManyFences(Test &t) : t_(t) {}
  ~ManyFences() {
    for (const auto &[fence, held] : all_) t_.keep(destroy(fence));
  }
  ManyFences(const ManyFences &) = delete;
  ManyFences &operator=(const ManyFences &) = delete;
  Outcome record(const Stream &stream, bool held) {
    Test &t = t_;
    weir_be_fence fence = 0;
    MUST(fence_record, stream.get(), &fence);
    CHECK(fence != 0, "fence ", all_.size(), " is 0, which is none");
    all_.emplace_back(fence, held);
    return {};
  }
  uint64_t count() const noexcept { return all_.size(); }
  /// The last of each stream, which are recorded in turn.
  Outcome wait_for_last(uint64_t streams) {
    Test &t = t_;
    uint64_t waited = 0;
    for (auto each = all_.rbegin(); each != all_.rend() && waited < streams; ++each) {
      if (each->second) continue;
      ++waited;
      MUST(fence_wait, each->first, patience_ns);
    }
    return {};
  }
  /// Those of the held stream have not passed, all others have.
  Outcome look() {
    Test &t = t_;
    for (const auto &[fence, held] : all_)
      ANSWERS(held ? WEIR_NOT_READY : WEIR_SUCCESS, fence_poll, fence);
    return {};
  }
  /// In any order, half of them asked before.
  Outcome end() {
    Test &t = t_;
    for (uint64_t i = all_.size(); i > 1; --i) std::swap(all_[i - 1], all_[t_.random.below(i)]);
    while (!all_.empty()) {
      const weir_be_fence fence = all_.back().first;
      all_.pop_back();
      if (all_.size() % 2 == 0) MUST(fence_poll, fence);
      TRY(destroy(fence));
    }
    return {};
  }

 private:
  Outcome destroy(weir_be_fence fence) {
    Test &t = t_;
    MUST(fence_destroy, fence);
    return {};
  }
  Test &t_;
  std::vector<std::pair<weir_be_fence, bool>> all_;
};

/// Fences of several streams that are free, and a few of one that is held, where streams can be held.
Outcome outstanding_fences(Test &t, const std::vector<DeviceFacts> &devices,
                           uint64_t stream_count) {
  constexpr uint64_t count = 70'000;
  std::vector<std::unique_ptr<Stream>> streams;
  for (uint64_t i = 0; i < stream_count; ++i) {
    streams.push_back(std::make_unique<Stream>(t, devices[i % devices.size()].index));
    TRY(streams.back()->create());
  }
  Plain plain(t, streams[0]->device());
  Stream slow(t);
  ManyFences fences(t);
  Gate gate(t);
  TRY(plain.allocate(4 * kib));
  TRY(slow.create());
  Settled settled(t, &gate);
  for (const auto &stream : streams) settled.add(*stream);
  settled.add(slow);
  const bool holds = t.has(WEIR_CAP_HOST_CALL);
  if (holds) TRY(gate.hold(slow));
  const uint64_t began = now_ns();
  for (uint64_t i = 0; i < count && (i % 1000 != 0 || now_ns() - began < long_enough_ns); ++i) {
    if (holds && i % 1000 == 500) TRY(fences.record(slow, true));
    if (i % 1000 == 0) TRY(streams[0]->fill(plain.address(), static_cast<uint8_t>(i), 4 * kib));
    TRY(fences.record(*streams[i % stream_count], false));
  }
  if (fences.count() < count) t.note(words("only ", fences.count(), " in the time there is"));
  TRY(fences.wait_for_last(stream_count));
  TRY(fences.look());
  gate.open();
  TRY(slow.synchronize());
  CHECK(!gate.gave_up(), "the stream was held for longer than the suite waits");
  return fences.end();
}

REQUIRE("LI-011", advised(),
        "More than 65,536 fences are outstanding at once, on one stream and over those of all "
        "devices, and each tells of its own point.") {
  std::vector<DeviceFacts> devices;
  TRY(devices_with(t, 0, &devices));
  for (const uint64_t count : {1U, 8U})
    TRY(in_shape(words("on ", count, " streams"), outstanding_fences(t, devices, count)));
  return {};
}

REQUIRE(
    "LI-018", host_call,
    "A fence that is recorded after more than 65,536 calls on its stream tells of its own point.") {
  return each_device(t, WEIR_CAP_HOST_CALL, [&](const DeviceFacts &device) -> Outcome {
    constexpr uint64_t calls = 66'000;
    Stream stream(t, device.index), free_stream(t, device.index);
    Plain plain(t, device.index);
    ManyFences fences(t);
    Gate gate(t);
    TRY(plain.allocate(4 * kib));
    TRY(stream.create());
    TRY(free_stream.create());
    Settled settled(t, &gate);
    settled.add(stream);
    settled.add(free_stream);
    const uint64_t began = now_ns();
    uint64_t i = 0;
    for (; i < calls && (i % 500 != 0 || now_ns() - began < long_enough_ns); ++i) {
      TRY(stream.fill(plain.address(), static_cast<uint8_t>(i), 64));
      if (i % 500 == 499) TRY(stream.synchronize());
    }
    if (i < calls) t.note(words("only ", i, " in the time there is"));
    TRY(gate.hold(stream));
    for (int n = 0; n < 20; ++n) {
      TRY(fences.record(stream, true));
      TRY(stream.fill(plain.address(), 7, 64));
    }
    TRY(fences.look());
    Fence last(t), other(t);
    TRY(last.record(stream));
    TRY(other.record(free_stream));
    TRY(other.wait());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, last.get(), 0);
    ANSWERS(WEIR_NOT_READY, stream_query, stream.get());
    TRY(fences.look());
    gate.open();
    TRY(last.wait());
    return fences.end();
  });
}

REQUIRE("LI-012", always(),
        "A stream waits for 1,000 fences of others, and 64 streams for one, and come after them.") {
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    constexpr uint64_t bytes = 256, many = 64, waits_in_all = 1000;
    Plain plain(t, device.index);
    Pinned in(t), out(t);
    Stream first(t, device.index), last(t, device.index);
    std::vector<std::unique_ptr<Stream>> streams;
    TRY(plain.allocate(many * bytes));
    TRY(in.allocate(many * bytes));
    TRY(out.allocate(many * bytes));
    TRY(first.create());
    TRY(last.create());
    for (uint64_t i = 0; i < many; ++i) {
      streams.push_back(std::make_unique<Stream>(t, device.index));
      TRY(streams.back()->create());
    }
    make_pattern(in.bytes(), 1);
    Settled settled(t);
    for (const auto &stream : streams) settled.add(*stream);
    settled.add(last);
    // One writes, 64 copy within, one reads what they did: by fences alone.
    Fence written(t);
    std::vector<Fence> done;
    done.reserve(waits_in_all);
    TRY(first.copy(plain.address(), in.address(), many * bytes));
    TRY(written.record(first));
    for (const auto &stream : streams) TRY(waits(t, *stream, written));
    for (uint64_t i = 0; i < many; ++i)
      TRY(streams[i]->copy(plain.address() + i * bytes, in.address() + (many - 1 - i) * bytes,
                           bytes));
    for (uint64_t i = 0; i < waits_in_all; ++i) {
      done.emplace_back(t);
      TRY(done.back().record(*streams[i % many]));
      TRY(waits(t, last, done.back()));
    }
    TRY(last.copy(out.address(), plain.address(), many * bytes));
    TRY(last.synchronize());
    for (uint64_t i = 0; i < many; ++i)
      TRY(check_same(out.bytes().subspan(i * bytes, bytes),
                     in.bytes().subspan((many - 1 - i) * bytes, bytes),
                     words("what stream ", i, " did")));
    return {};
  });
}

REQUIRE("LI-013", advised(),
        "On every device 128 streams and a wrapper of each exist at once, and each handle works.") {
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    constexpr uint64_t many = 128, bytes = 1024;
    std::vector<std::unique_ptr<Stream>> streams, wrappers;
    Plain plain(t, device.index);
    Pinned in(t), out(t);
    TRY(plain.allocate(many * bytes));
    TRY(in.allocate(many * bytes));
    TRY(out.allocate(many * bytes));
    make_pattern(in.bytes(), 1);
    for (uint64_t i = 0; i < many; ++i) {
      void *native = nullptr;
      streams.push_back(std::make_unique<Stream>(t, device.index));
      wrappers.push_back(std::make_unique<Stream>(t, device.index));
      TRY(streams.back()->create());
      MUST(stream_native, streams.back()->get(), &native);
      TRY(wrappers.back()->wrap(native));
    }
    Settled settled(t);
    for (const auto &stream : streams) settled.add(*stream);
    // Up through one handle of the queue, down through the other.
    for (uint64_t i = 0; i < many; ++i) {
      TRY(wrappers[i]->copy(plain.address() + i * bytes, in.address() + i * bytes, bytes));
      TRY(streams[i]->copy(out.address() + i * bytes, plain.address() + i * bytes, bytes));
    }
    for (const auto &wrapper : wrappers) TRY(wrapper->synchronize());
    for (const auto &wrapper : wrappers) TRY(wrapper->destroy());
    return check_pattern(out.bytes(), 1, "what the streams copied");
  });
}

REQUIRE("LI-014", advised(vmm),
        "On every device thousands of maps and ranges, or as many as there is memory for, live at "
        "once and go in any order.") {
  return each_device(t, WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t count = std::clamp<uint64_t>(device.budget / device.unit, 2, 2048);
    struct One {
      One(Test &t, uint32_t device) : granule(t, device), range(t, device), map(t, device) {}
      Granule granule;
      Range range;
      Map map;
    };
    std::vector<std::unique_ptr<One>> all;
    Range together(t, device.index);
    Mover mover(t, device.index);
    TRY(mover.make(64));
    TRY(together.reserve(count * device.unit, device.unit));
    for (uint64_t i = 0; i < count; ++i) {
      all.push_back(std::make_unique<One>(t, device.index));
      One &one = *all.back();
      TRY(one.granule.create(device.unit));
      // Half of them in ranges of their own.
      if (i % 2 == 0) TRY(one.range.reserve(device.unit, device.unit));
      TRY(one.map.map(i % 2 == 0 ? one.range.address() : together.address() + i * device.unit,
                      device.unit, one.granule));
      TRY(mover.write(one.map.address(), 64, one.map.address()));
    }
    for (uint64_t i = count; i > 1; --i) std::swap(all[i - 1], all[t.random.below(i)]);
    while (!all.empty()) {
      const uint64_t address = all.back()->map.address();
      TRY(mover.check(address, 64, address));
      all.pop_back();
    }
    return {};
  });
}

/// Host memory of the test's own, registered.
struct EnrolledPage {
  explicit EnrolledPage(Test &t_) : t(t_) {}
  ~EnrolledPage() {
    if (!come_to_rest()) return;
    if (enrolled)
      t.keep(t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "host_unregister",
                      t.table.host_unregister, memory, bytes));
    std::free(memory);
  }
  EnrolledPage(const EnrolledPage &) = delete;
  EnrolledPage &operator=(const EnrolledPage &) = delete;
  Outcome make(uint64_t bytes_) {
    bytes = bytes_;
    memory = std::aligned_alloc(4 * kib, bytes);
    CHECK(memory != nullptr, "no memory");
    MUST(host_register, memory, bytes);
    enrolled = true;
    return {};
  }
  Test &t;
  void *memory = nullptr;
  uint64_t bytes = 0;
  bool enrolled = false;
};

REQUIRE("LI-015", advised(needs(WEIR_CAP_HOST_REGISTER)),
        "1,024 pieces of host memory and 1,024 registrations live at once, and each is copied from "
        "and to.") {
  constexpr uint64_t count = 1024, bytes = 4 * kib;
  std::vector<std::unique_ptr<Pinned>> pinned;
  std::vector<std::unique_ptr<EnrolledPage>> pages;
  Plain plain(t);
  Stream stream(t);
  TRY(plain.allocate(count * bytes));
  TRY(stream.create());
  for (uint64_t i = 0; i < count; ++i) {
    pinned.push_back(std::make_unique<Pinned>(t));
    pages.push_back(std::make_unique<EnrolledPage>(t));
    TRY(pinned.back()->allocate(i % 16 == 0 ? 4 * bytes : bytes));
    TRY(pages.back()->make(i % 16 == 8 ? 4 * bytes : bytes));
    make_pattern(pinned.back()->bytes().first(bytes), i);
    TRY(stream.copy(plain.address() + i * bytes, pinned.back()->address(), bytes));
    TRY(stream.copy(reinterpret_cast<uintptr_t>(pages.back()->memory), plain.address() + i * bytes,
                    bytes));
    if (i % 64 == 63) TRY(stream.synchronize());
  }
  TRY(stream.synchronize());
  for (uint64_t i = 0; i < count; ++i)
    TRY(check_pattern({static_cast<const std::byte *>(pages[i]->memory), bytes}, i,
                      words("registered memory ", i)));
  for (uint64_t i = count; i > 1; --i) {
    std::swap(pinned[i - 1], pinned[t.random.below(i)]);
    std::swap(pages[i - 1], pages[t.random.below(i)]);
  }
  while (!pinned.empty()) {
    pinned.pop_back();
    pages.pop_back();
  }
  return {};
}

// ---- one after the other

/// Makes one of a kind, uses it, and ends it.
struct Passing {
  const char *name;
  uint64_t capabilities;
  uint64_t rounds;
  std::function<Outcome(const DeviceFacts &)> once;
};

REQUIRE("LI-016", alone(),
        "Thousands of each thing, one after the other, leave no memory, descriptors or threads.") {
  std::vector<std::byte> page_room(8 * kib);
  const uint64_t begin = reinterpret_cast<uintptr_t>(page_room.data());
  auto *one_page = reinterpret_cast<void *>((begin + 4095) / 4096 * 4096);
  const std::vector<Passing> things{
      {"streams and wrappers", 0, 500,
       [&](const DeviceFacts &device) -> Outcome {
         Stream stream(t, device.index), wrapper(t, device.index);
         void *native = nullptr;
         TRY(stream.create());
         MUST(stream_native, stream.get(), &native);
         TRY(wrapper.wrap(native));
         // What has work to do may end a moment after it is destroyed.
         Fence fence(t);
         TRY(fence.record(wrapper));
         TRY(fence.wait());
         return wrapper.synchronize();
       }},
      {"plain memory", 0, 2000,
       [&](const DeviceFacts &device) -> Outcome {
         Plain plain(t, device.index);
         return plain.allocate(std::min(device.budget / 16, mib));
       }},
      {"host memory", 0, 1000,
       [&](const DeviceFacts &) -> Outcome {
         Pinned pinned(t);
         return pinned.allocate(64 * kib);
       }},
      {"registrations", WEIR_CAP_HOST_REGISTER, 2000,
       [&](const DeviceFacts &) -> Outcome {
         MUST(host_register, one_page, 4 * kib);
         MUST(host_unregister, one_page, 4 * kib);
         return {};
       }},
      {"granules, ranges and maps", WEIR_CAP_VMM, 1000,
       [&](const DeviceFacts &device) -> Outcome {
         Mapped mapped(t, device.index);
         TRY(mapped.make(device.unit, device.unit));
         REFUSED(granule_destroy, device.index, mapped.granule.get());
         return {};
       }},
      {"runs", WEIR_CAP_VMM | WEIR_CAP_MAP_RUN, 1000,
       [&](const DeviceFacts &device) -> Outcome {
         Granule a(t, device.index), b(t, device.index);
         Range range(t, device.index);
         TRY(a.create(device.unit));
         TRY(b.create(device.unit));
         TRY(range.reserve(2 * device.unit, device.unit));
         const weir_be_piece pieces[] = {{a.get(), 0, device.unit}, {b.get(), 0, device.unit}};
         MUST(map_run, device.index, range.address(), pieces, 2, nullptr, 0);
         MUST(unmap_run, device.index, range.address(), 2 * device.unit);
         return {};
       }},
  };
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    for (const Passing &thing : things) {
      if (!device.has(thing.capabilities)) continue;
      const auto body = [&]() -> Outcome {
        uint64_t before = 0, after = 0, i = 0;
        for (; i < thing.rounds / 10; ++i) TRY(thing.once(device));
        const Holdings held = holdings();
        TRY(free_bytes_of(t, device.index, &before));
        const uint64_t began = now_ns();
        for (; i < thing.rounds && now_ns() - began < long_enough_ns / 5; ++i)
          TRY(thing.once(device));
        if (i < thing.rounds) t.note(words("only ", i, " ", thing.name));
        TRY(holdings_back(held, 4));
        const uint64_t give_up = now_ns() + patience_ns / 4;
        do {
          TRY(free_bytes_of(t, device.index, &after));
        } while (after + device.slack < before && now_ns() < give_up);
        CHECK(after + device.slack >= before, "of ", before, " free bytes ", after, " are left");
        return {};
      };
      TRY(in_shape(thing.name, body()));
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
