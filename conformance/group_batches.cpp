// SPDX-License-Identifier: Apache-2.0
//
// Batches by shape: every number, size and direction of copies, their turn in the stream, and that a bad copy
// anywhere keeps all of them back. Places lie apart, and what is between them must stay.
#include "conformance/shapes.hpp"

#include <algorithm>

namespace weir::conformance {
namespace {

constexpr Needs batching = needs(WEIR_CAP_BATCH_COPY);
constexpr uint8_t edge_value = 0xC3;  ///< what lies around the bytes that are copied
constexpr uint64_t apart = 3;         ///< bytes between two places

enum class Way : uint8_t { up, down, within, mixed, from_one };
constexpr Way every_way[] = {Way::up, Way::down, Way::within, Way::mixed, Way::from_one};
constexpr const char *way_names[] = {"to the device", "to the host", "within the device",
                                     "in all directions", "of one source to all places"};

/// The host's source and its copy on the device, and a destination on either.
class Field {
 public:
  Field(Test &t, uint32_t device, uint64_t bytes)
      : t_(t), bytes_(bytes), source_(t, device), device_(t, device), in_(t), out_(t), seen_(t) {}
  Outcome make(Stream &stream) {
    TRY(source_.allocate(bytes_));
    TRY(device_.allocate(bytes_));
    for (Pinned *each : {&in_, &out_, &seen_}) TRY(each->allocate(bytes_));
    make_pattern(in_.bytes(), 1);
    TRY(stream.copy(source_.address(), in_.address(), bytes_));
    return stream.synchronize();
  }
  uint64_t bytes() const { return bytes_; }

  /// A batch of copies of these sizes; then everything is looked at.
  Outcome copied(Stream &stream, const std::vector<uint64_t> &sizes, Way way) {
    std::vector<weir_be_copy> copies;
    uint64_t at = apart;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Way each = way;
      if (way == Way::mixed) each = i % 3 == 0 ? Way::up : i % 3 == 1 ? Way::down : Way::within;
      const uint64_t from = way == Way::from_one ? 5 : at;
      const bool host_from = each == Way::up, host_to = each == Way::down;
      copies.push_back({(host_to ? out_.address() : device_.address()) + at,
                        (host_from ? in_.address() : source_.address()) + from, sizes[i]});
      at += sizes[i] + apart;
    }
    const uint64_t used = at;
    CHECK(used <= bytes_, "the field is too small");
    if (way == Way::within || way == Way::from_one) std::reverse(copies.begin(), copies.end());
    std::vector<std::byte> host(used, std::byte{edge_value}), memory(used, std::byte{edge_value});
    for (const weir_be_copy &copy : copies) {
      const bool host_to = copy.destination - out_.address() < bytes_;
      const bool host_from = copy.source - in_.address() < bytes_;
      const uint64_t to = copy.destination - (host_to ? out_.address() : device_.address());
      const uint64_t from = copy.source - (host_from ? in_.address() : source_.address());
      std::copy_n(in_.bytes().begin() + static_cast<std::ptrdiff_t>(from), copy.bytes,
                  (host_to ? host : memory).begin() + static_cast<std::ptrdiff_t>(to));
    }
    std::fill_n(out_.bytes().begin(), used, std::byte{edge_value});
    TRY(stream.fill(device_.address(), edge_value, used));
    TRY(batch(t_, stream, copies));
    std::fill(copies.begin(), copies.end(), weir_be_copy{0, 0, 0});
    TRY(stream.copy(seen_.address(), device_.address(), used));
    TRY(stream.synchronize());
    const std::string what = words("a batch of ", uint64_t{sizes.size()}, " copies ",
                                   way_names[static_cast<size_t>(way)]);
    TRY(check_same(out_.bytes().first(used), host, what + ", on the host"));
    return check_same(seen_.bytes().first(used), memory, what + ", on the device");
  }

 private:
  Test &t_;
  uint64_t bytes_;
  Plain source_, device_;
  Pinned in_, out_, seen_;
};

std::vector<uint64_t> alike(uint64_t count, uint64_t bytes) {
  return std::vector<uint64_t>(count, bytes);
}
std::vector<uint64_t> up_to(Random &random, uint64_t count, uint64_t most) {
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < count; ++i) sizes.push_back(1 + random.below(most));
  return sizes;
}

REQUIRE("CP-025", batching,
        "A batch does all of its copies and no others, whatever their number, sizes and "
        "directions.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_BATCH_COPY};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Field field(t, shape.device, std::min(shape.budget / 3, 6 * mib));
    TRY(field.make(queue.use()));
    uint64_t turn = shape.number;
    const auto go = [&](const std::vector<uint64_t> &sizes) -> Outcome {
      uint64_t sum = apart;
      for (const uint64_t bytes : sizes) sum += bytes + apart;
      if (sum > field.bytes()) return {};
      return field.copied(queue.use(), sizes, every_way[turn++ % std::size(every_way)]);
    };
    for (const uint64_t count : {1, 2, 3, 127, 128, 129, 255, 256, 257}) {
      TRY(go(alike(count, 1)));
      TRY(go(up_to(t.random, count, 4 * kib)));
      if (count <= 3) {
        for (size_t i = 0; i < std::size(every_way); ++i)
          TRY(go(up_to(t.random, count, 512 * kib)));
      }
    }
    TRY(go(alike(16, 256 * kib)));
    std::vector<uint64_t> uneven = up_to(t.random, 130, 64);
    uneven[100] = std::min(field.bytes() / 2, 4 * mib);
    for (size_t i = 0; i < std::size(every_way); ++i) TRY(go(uneven));
    // Many of them are one owner's alone, for time's sake.
    if (shape.owner != Owner::made) return {};
    for (const uint64_t count : {4095, 4097, 65'535, 65'537}) TRY(go(up_to(t.random, count, 40)));
    return {};
  });
}

// ---- turns

/// Places of one batch, side by side, on the device twice and on the host.
class Turn {
 public:
  static constexpr uint64_t piece = kib, count = 20, bytes = piece * count;
  Turn(Test &t, uint32_t device) : a(t, device), b(t, device), in(t), out(t), reader(t, device) {}
  Outcome make() {
    TRY(a.allocate(bytes));
    TRY(b.allocate(bytes));
    TRY(in.allocate(bytes));
    TRY(out.allocate(bytes));
    return reader.make(bytes);
  }
  Outcome fresh(uint64_t seed) {
    TRY(reader.fill(a.address(), 1, bytes));
    TRY(reader.fill(b.address(), 1, bytes));
    make_pattern(in.bytes(), seed);
    std::fill(out.bytes().begin(), out.bytes().end(), std::byte{1});
    return {};
  }
  static std::vector<weir_be_copy> copies(uint64_t to, uint64_t from) {
    std::vector<weir_be_copy> all;
    for (uint64_t i = 0; i < count; ++i) all.push_back({to + i * piece, from + i * piece, piece});
    return all;
  }
  Outcome not_begun() {
    TRY(reader.check_filled(a.address(), bytes, 1));
    TRY(reader.check_filled(b.address(), bytes, 1));
    return check_value(out.bytes(), 1, "host memory, before the batch's turn");
  }
  Plain a, b;
  Pinned in, out;
  Mover reader;
};

struct Seen {
  std::span<std::byte> bytes;
  uint64_t seed;
  std::atomic<uint32_t> calls{0};
  Outcome outcome;
};
void see(void *user) {
  Seen &self = *static_cast<Seen *>(user);
  self.outcome = check_pattern(self.bytes, self.seed, "host memory, seen by a host function");
  ++self.calls;
}

/// Batches that use each other's bytes behind a gate; a host function looks at what they have brought, and the next batch
/// comes behind it.
Outcome behind_a_gate(Test &t, Queue &queue, Turn &turn, uint64_t seed) {
  TRY(turn.fresh(seed));
  Seen seen{turn.out.bytes(), seed, {}, {}};
  Gate gate(t);
  Fence fence(t);
  Stream &stream = queue.use();
  Settled settled(t, &gate);
  settled.add(stream);
  TRY(queue.hold(gate));
  TRY(gate.reached());
  TRY(batch(t, stream, Turn::copies(turn.a.address(), turn.in.address())));
  TRY(batch(t, stream, Turn::copies(turn.b.address(), turn.a.address())));
  TRY(stream.fill(turn.a.address(), 5, Turn::bytes));
  TRY(batch(t, stream, Turn::copies(turn.out.address(), turn.b.address())));
  if (queue.calls()) {
    MUST(stream_host_call, stream.get(), &see, &seen);
    TRY(batch(t, stream, Turn::copies(turn.out.address(), turn.a.address())));
  }
  TRY(fence.record(stream));
  ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  ANSWERS(WEIR_NOT_READY, stream_query, stream.get());
  TRY(turn.not_begun());
  CHECK(seen.calls.load() == 0, "a host function ran before its turn");
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(fence.wait());
  if (!queue.calls()) return check_pattern(turn.out.bytes(), seed, "when the fence passed");
  CHECK(seen.calls.load() == 1, "the host function ran ", seen.calls.load(), " times");
  TRY(seen.outcome);
  return check_value(turn.out.bytes(), 5, "when the fence passed");
}

/// The stream waits for another's fence, and its batch with it.
Outcome behind_a_fence(Test &t, Queue &queue, Stream &other, Turn &turn, uint64_t seed) {
  TRY(turn.fresh(seed));
  Gate gate(t);
  Fence first(t), last(t);
  Settled settled(t, &gate);
  settled.add(other);
  settled.add(queue.use());
  TRY(gate.hold(other));
  TRY(gate.reached());
  TRY(batch(t, other, Turn::copies(turn.a.address(), turn.in.address())));
  TRY(first.record(other));
  TRY(waits(t, queue.use(), first));
  TRY(batch(t, queue.use(), Turn::copies(turn.b.address(), turn.a.address())));
  TRY(batch(t, queue.use(), Turn::copies(turn.out.address(), turn.b.address())));
  TRY(last.record(queue.use()));
  ANSWERS(WEIR_NOT_READY, fence_poll, last.get());
  TRY(turn.not_begun());
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(last.wait());
  return check_pattern(turn.out.bytes(), seed, "what two streams' batches handed on");
}

REQUIRE("CP-026", needs(WEIR_CAP_BATCH_COPY | WEIR_CAP_HOST_CALL),
        "Nothing of a batch runs before its turn, and all of it before what follows.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_BATCH_COPY | WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Turn turn(t, shape.device);
    Stream other(t, shape.device);
    TRY(turn.make());
    TRY(other.create());
    for (uint64_t round = 0; round < 8; ++round) {
      TRY(behind_a_gate(t, queue, turn, round));
      TRY(behind_a_fence(t, queue, other, turn, 100 + round));
    }
    return {};
  });
}

// ---- bad ones

constexpr uint64_t bad_count = 300;
constexpr uint64_t bad_piece = 64;
constexpr uint64_t bad_bytes = bad_count * bad_piece;

/// Refuses all batches with a bad copy.
Outcome refused(Test &t, const Stream &stream, uint64_t to, uint64_t from) {
  for (const size_t at : {0, 1, 127, 128, 150, 255, 256, 299}) {
    for (const uint32_t side : {1U, 2U, 3U}) {
      std::vector<weir_be_copy> copies;
      for (uint64_t i = 0; i < bad_count; ++i)
        copies.push_back({to + i * bad_piece, from + i * bad_piece, bad_piece});
      if ((side & 1U) != 0) copies[at].destination = 0;
      if ((side & 2U) != 0) copies[at].source = 0;
      const Outcome outcome =
          t.expect(Site::current(), Want::exactly(WEIR_ERROR_INVALID_ARGUMENT), "copy_batch_async",
                   t.table.copy_batch_async, stream.get(), copies.data(), uint32_t{bad_count});
      if (!outcome.passed())
        return Outcome::failure(
            words("copy ", uint64_t{at}, " of a batch is bad: ", outcome.text()));
    }
  }
  ANSWERS(WEIR_ERROR_INVALID_ARGUMENT, copy_batch_async, stream.get(), nullptr, 3);
  return {};
}

REQUIRE("CP-027", batching,
        "A batch with a bad copy does none, wherever the bad one is, and the stream goes on.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_BATCH_COPY};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Plain plain(t, shape.device);
    Pinned in(t), out(t);
    Mover reader(t, shape.device);
    TRY(plain.allocate(bad_bytes));
    TRY(in.allocate(bad_bytes));
    TRY(out.allocate(bad_bytes));
    TRY(reader.make(bad_bytes));
    make_pattern(in.bytes(), 3);
    Gate gate(t);
    Settled settled(t, &gate);
    settled.add(queue.use());
    TRY(queue.use().fill(plain.address(), edge_value, bad_bytes));
    TRY(refused(t, queue.use(), plain.address(), in.address()));
    TRY(queue.use().copy(out.address(), plain.address(), bad_bytes));
    TRY(queue.use().synchronize());
    TRY(check_value(out.bytes(), edge_value, "after batches that were refused"));
    if (shape.has(WEIR_CAP_HOST_CALL)) {
      TRY(queue.hold(gate));
      TRY(gate.reached());
      TRY(refused(t, queue.use(), plain.address(), in.address()));
      TRY(refused(t, queue.use(), out.address(), plain.address()));
      CHECK(!gate.gave_up(), "a refusal waited for the held stream");
      gate.open();
      TRY(queue.use().synchronize());
      TRY(reader.check_filled(plain.address(), bad_bytes, edge_value));
      TRY(check_value(out.bytes(), edge_value, "after batches that a held stream was refused"));
    }
    TRY(queue.use().copy(plain.address(), in.address(), bad_bytes));
    TRY(queue.use().copy(out.address(), plain.address(), bad_bytes));
    TRY(queue.use().synchronize());
    return check_pattern(out.bytes(), 3, "the stream after refused batches");
  });
}

}  // namespace
}  // namespace weir::conformance
