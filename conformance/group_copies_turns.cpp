// SPDX-License-Identifier: Apache-2.0
//
// Large copies in their turn, and batches of large copies, of thousands and of refusals. Values tell whether a copy ran
// too early or too late: its source has others before and behind its turn. No copy goes from host memory straight to host
// memory on a held stream: runtimes may wait for such a copy.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <array>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint8_t too_early = 0x11, in_turn = 0x22, too_late = 0x33, not_written = 0xEE;

enum class Path : uint8_t { up, down, within };
constexpr std::array<const char *, 3> path_names{"to the device", "to the host",
                                                 "within the device"};

/// One device's places for the largest copy, in each direction, that the requirement may make there.
class Large {
 public:
  Large(Test &t, const Shape &shape)
      : t_(t),
        device_(t, shape.device),
        host_(t),
        seen_(t),
        reader_(t, shape.device),
        bytes_(std::min(shape.budget / 16 * 15, 33 * mib) - 3) {}
  Outcome make() {
    TRY(device_.allocate(bytes_));
    TRY(host_.allocate(bytes_));
    TRY(seen_.allocate(samples * sample + tail));
    return reader_.create();
  }
  uint64_t bytes() const { return bytes_; }

  /// A copy behind what gives its source the right bytes and before what spoils them, on a stream that is held if it can be.
  /// Within the device one half of `all` goes to the other.
  Outcome in_its_turn(const Shape &shape, Queue &queue, Path path, uint64_t all, bool by_fence) {
    const uint64_t moved = path == Path::within ? all / 2 : all;
    const uint64_t from = path == Path::up ? host_.address() : device_.address();
    uint64_t to = device_.address();
    if (path == Path::down) to = host_.address();
    if (path == Path::within) to += all - moved;
    Gate gate(t_);
    Fence fence(t_), read(t_);
    Stream &stream = queue.use();
    Settled settled(t_, &gate);
    settled.add(stream);
    settled.add(reader_);
    std::fill_n(host_.bytes().begin(), moved, std::byte{path == Path::up ? in_turn : not_written});
    TRY(stream.fill(device_.address(), too_early, all));
    TRY(stream.synchronize());
    const bool holds = shape.has(WEIR_CAP_HOST_CALL);
    if (holds) {
      TRY(queue.hold(gate));
      TRY(gate.reached());
    }
    // A copy up that comes too early is written over, any other one reads what was there before.
    TRY(path == Path::up ? stream.fill(to, too_early, moved) : stream.fill(from, in_turn, moved));
    TRY(stream.copy(to, from, moved));
    TRY(fence.record(stream));
    if (path != Path::up) TRY(stream.fill(from, too_late, moved));
    if (path != Path::down) {
      TRY(waits(t_, reader_, fence));
      TRY(sampled(to, moved));
      TRY(read.record(reader_));
    }
    if (holds) {
      for (int i = 0; i < 3; ++i) TRY(not_yet(fence));
      if (path == Path::down) TRY(check_value(end_of(moved), not_written, "before its turn"));
      CHECK(!gate.gave_up(), "something waited for the held stream");
      gate.open();
    }
    if (path != Path::down) {
      TRY(read.wait());
      TRY(check_value(seen_.bytes(), in_turn, "what another stream read behind the fence"));
    }
    TRY(by_fence ? fence.wait() : stream.synchronize());
    if (path == Path::down) {
      // The end first: there is no time for what is missing to come after all.
      TRY(check_value(end_of(moved), in_turn, "the end, when its fence had passed"));
      TRY(check_value(host_.bytes().first(moved), in_turn, "when its fence had passed"));
    }
    return stream.synchronize();
  }

 private:
  static constexpr uint64_t samples = 64, sample = 64, tail = 64 * kib;

  Outcome not_yet(const Fence &fence) {
    Test &t = t_;
    ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), 1000);
    return {};
  }
  std::span<std::byte> end_of(uint64_t moved) const {
    return host_.bytes().subspan(moved - std::min(moved, mib), std::min(moved, mib));
  }
  /// The reader brings the last bytes, and some of all of them.
  Outcome sampled(uint64_t from, uint64_t moved) {
    const uint64_t last = std::min(tail, moved);
    TRY(reader_.copy(seen_.address() + samples * sample, from + moved - last, last));
    for (uint64_t i = 0; i < samples; ++i)
      TRY(reader_.copy(seen_.address() + i * sample, from + moved / samples * i, sample));
    return {};
  }

  Test &t_;
  Plain device_;
  Pinned host_, seen_;
  Stream reader_;
  uint64_t bytes_;
};

REQUIRE("CP-030", always(),
        "Large copies keep their turn in a stream, and a fence, a wait and another stream come "
        "after all of their bytes.") {
  std::unique_ptr<Large> large;
  uint32_t of = UINT32_MAX;
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    if (of != shape.device) {
      large.reset();
      large = std::make_unique<Large>(t, shape);
      of = shape.device;
      TRY(large->make());
    }
    const bool first = shape.owner == Owner::made;
    for (const Path path : {Path::up, Path::down, Path::within}) {
      for (const bool by_fence : {true, false}) {
        // All of it once on a stream of each device, and less on the others; never less than what some runtimes stage.
        if (!first && !by_fence) continue;
        const uint64_t bytes = first ? large->bytes() : std::min(large->bytes(), 11 * mib - 7);
        TRY(in_shape(words("a copy of ", bytes, " bytes ", path_names[static_cast<size_t>(path)],
                           path == Path::within ? ", one half to the other" : ""),
                     large->in_its_turn(shape, queue, path, bytes, by_fence)));
      }
    }
    return {};
  });
}

// ---- batches

constexpr Needs with_batches = needs(WEIR_CAP_BATCH_COPY);
constexpr uint64_t gap = 5;  ///< bytes between two copies' places

/// A batch of copies of these sizes between two places, side by side with gaps.
Outcome large_batch(Test &t, Stream &stream, uint64_t to, uint64_t from,
                    const std::vector<uint64_t> &sizes) {
  std::vector<weir_be_copy> copies;
  uint64_t at = gap;
  for (const uint64_t bytes : sizes) {
    copies.push_back({to + at, from + at, bytes});
    at += bytes + gap;
  }
  return batch(t, stream, copies);
}

/// Looks at what was written, gaps and what is behind it too.
Outcome batched(const Pinned &out, const Pinned &in, const std::vector<uint64_t> &sizes) {
  uint64_t at = 0;
  for (const uint64_t bytes : sizes) {
    TRY(check_value(out.bytes().subspan(at, gap), not_written, "between two copies of a batch"));
    at += gap;
    TRY(check_same(out.bytes().subspan(at, bytes), in.bytes().subspan(at, bytes),
                   words("a copy of ", bytes, " bytes of a batch")));
    at += bytes;
  }
  const uint64_t rest = std::min<uint64_t>(out.bytes().size() - at, 4 * kib);
  return check_value(out.bytes().subspan(at, rest), not_written, "behind a batch");
}

REQUIRE("CP-031", with_batches,
        "A batch of copies of 16 MiB and more moves all of their bytes and no others.") {
  const Axes axes{{Owner::made, Owner::transfer}, {0}, WEIR_CAP_BATCH_COPY};
  constexpr uint64_t whole = 33 * mib + 64 * kib;
  Pinned in(t), out(t);
  TRY(in.allocate(whole));
  TRY(out.allocate(whole));
  make_pattern(in.bytes(), 1);
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Stream &stream = queue.use();
    Settled settled(t);
    settled.add(stream);
    const auto fresh = [&] {
      std::fill(out.bytes().begin(), out.bytes().end(), std::byte{not_written});
    };
    // From host memory to host memory: any size, whatever the device has.
    if (shape.owner == Owner::made) {
      const std::vector<uint64_t> sizes{1, 32 * mib + 3, 300};
      fresh();
      TRY(large_batch(t, stream, out.address(), in.address(), sizes));
      TRY(stream.synchronize());
      TRY(batched(out, in, sizes));
    }
    Plain plain(t, shape.device);
    const uint64_t room = std::min(shape.budget / 16 * 15, whole);
    const std::vector<uint64_t> sizes{room / 4 * 3 + 1, 77, room / 8};
    TRY(plain.allocate(room));
    fresh();
    TRY(stream.fill(plain.address(), not_written, room));
    TRY(large_batch(t, stream, plain.address(), in.address(), sizes));
    TRY(large_batch(t, stream, out.address(), plain.address(), sizes));
    TRY(stream.synchronize());
    TRY(batched(out, in, sizes));
    // The gaps on the device.
    uint64_t at = 0;
    for (const uint64_t bytes : sizes) {
      TRY(stream.copy(out.address(), plain.address() + at, gap));
      TRY(stream.synchronize());
      TRY(check_value(out.bytes().first(gap), not_written, "between two copies on the device"));
      at += gap + bytes;
    }
    return {};
  });
}

/// Every batch is refused; each copy that is bad is right again afterwards.
Outcome refused_at(Test &t, const Stream &stream, std::vector<weir_be_copy> &copies, size_t at,
                   uint32_t side) {
  const weir_be_copy good = copies[at];
  if ((side & 1U) != 0) copies[at].destination = 0;
  if ((side & 2U) != 0) copies[at].source = 0;
  Outcome outcome = t.expect(Site::current(), Want::exactly(WEIR_ERROR_INVALID_ARGUMENT),
                             "copy_batch_async", t.table.copy_batch_async, stream.get(),
                             copies.data(), static_cast<uint32_t>(copies.size()));
  copies[at] = good;
  return in_shape(words("copy ", uint64_t{at}, " of ", uint64_t{copies.size()}, " is bad"),
                  outcome);
}

REQUIRE("CP-032", with_batches,
        "A batch of thousands with a bad copy does none, wherever it is, and thousands of refused "
        "batches leave the stream as it was.") {
  const Axes axes{{Owner::made, Owner::wrapped, Owner::transfer}, {0}, WEIR_CAP_BATCH_COPY};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    constexpr uint64_t most = 8193, piece = 8;
    Plain plain(t, shape.device);
    Pinned in(t), out(t);
    TRY(plain.allocate(most * piece));
    TRY(in.allocate(most * piece));
    TRY(out.allocate(most * piece));
    make_pattern(in.bytes(), 4);
    Stream &stream = queue.use();
    Settled settled(t);
    settled.add(stream);
    TRY(stream.fill(plain.address(), too_early, most * piece));
    std::vector<weir_be_copy> copies;
    for (uint64_t i = 0; i < most; ++i)
      copies.push_back({plain.address() + i * piece, in.address() + i * piece, piece});
    for (const uint64_t count : {uint64_t{1025}, uint64_t{2049}, most}) {
      std::vector<weir_be_copy> some(copies.begin(),
                                     copies.begin() + static_cast<std::ptrdiff_t>(count));
      uint32_t turn = 0;
      for (const uint64_t at :
           {uint64_t{0}, uint64_t{1023}, uint64_t{1024}, count / 2, count - 2, count - 1})
        TRY(refused_at(t, stream, some, at, 1 + turn++ % 3));
    }
    // Small ones, in thousands: the first copy of each is good.
    std::vector<weir_be_copy> few(copies.begin(), copies.begin() + 3);
    const uint64_t times = shape.owner == Owner::made ? 2500 : 300;
    for (uint64_t i = 0; i < times; ++i)
      TRY(refused_at(t, stream, few, 1 + i % 2, 1 + static_cast<uint32_t>(i % 3)));
    TRY(stream.copy(out.address(), plain.address(), most * piece));
    TRY(stream.synchronize());
    TRY(check_value(out.bytes(), too_early, "after batches that were refused"));
    TRY(batch(t, stream, copies));
    TRY(stream.copy(out.address(), plain.address(), most * piece));
    TRY(stream.synchronize());
    return check_pattern(out.bytes(), 4, "a batch after many that were refused");
  });
}

REQUIRE("CP-033", always(),
        "Copies and fills of no bytes, and a batch of no copies, do nothing, or are refused as an "
        "argument.") {
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    constexpr uint64_t some = 4096;
    const Want nothing = Want::either(WEIR_SUCCESS, WEIR_ERROR_INVALID_ARGUMENT);
    Plain plain(t, shape.device);
    Pinned host(t);
    TRY(plain.allocate(some));
    TRY(host.allocate(some));
    Stream &stream = queue.use();
    Settled settled(t);
    settled.add(stream);
    TRY(stream.fill(plain.address(), 5, some));
    for (const uint64_t at : {uint64_t{0}, uint64_t{1}, some / 2}) {
      const weir_be_copy up{plain.address() + at, host.address() + at, 0};
      const weir_be_copy down{host.address() + at, plain.address() + at, 0};
      REFUSED_AS(nothing, copy_async, stream.get(), &up);
      REFUSED_AS(nothing, copy_async, stream.get(), &down);
      REFUSED_AS(nothing, fill_async, stream.get(), plain.address() + at, 9, 0);
      if (shape.has(WEIR_CAP_BATCH_COPY))
        REFUSED_AS(nothing, copy_batch_async, stream.get(), &up, 0);
    }
    TRY(stream.copy(host.address(), plain.address(), some));
    TRY(stream.synchronize());
    return check_value(host.bytes(), 5, "around copies and fills of nothing");
  });
}

}  // namespace
}  // namespace weir::conformance
