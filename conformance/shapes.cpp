// SPDX-License-Identifier: Apache-2.0
//
// Queues by owner, and the walk over shapes.
#include "conformance/shapes.hpp"

#include <algorithm>
#include <thread>

namespace weir::conformance {
namespace {

const Want succeeds = Want::exactly(WEIR_SUCCESS);

}  // namespace

std::string owner_name(Owner owner) {
  switch (owner) {
    case Owner::made:
      return "a made stream";
    case Owner::wrapped:
      return "a wrapped stream";
    case Owner::wrapped_twice:
      return "a stream wrapped twice";
    case Owner::base_of_wrapped:
      return "a stream with a wrapper";
    case Owner::standard:
      return "the default stream";
    case Owner::transfer:
      return "a stream for copies alone";
  }
  return "";
}

Outcome Queue::make(bool *there, Site site) {
  *there = true;
  use_ = owner_ = &base_;
  if (kind_ == Owner::standard) {
    weir_be_stream probe = nullptr;
    TRY(session_.expect(site, Want::either(WEIR_SUCCESS, WEIR_ERROR_INVALID_ARGUMENT),
                        "stream_wrap", session_.table.stream_wrap, base_.device(), nullptr,
                        &probe));
    *there = probe != nullptr;
    if (!*there) return {};
    TRY(session_.expect(site, succeeds, "stream_destroy", session_.table.stream_destroy, probe));
    TRY(first_.wrap(nullptr, site));
    TRY(second_.wrap(nullptr, site));
    use_ = &first_;
    owner_ = &second_;
    return {};
  }
  TRY(base_.create(kind_ == Owner::transfer ? WEIR_BE_STREAM_TRANSFER : 0, site));
  if (kind_ == Owner::made || kind_ == Owner::transfer) return {};
  void *native = nullptr;
  TRY(session_.expect(site, succeeds, "stream_native", session_.table.stream_native, base_.get(),
                      &native));
  TRY(first_.wrap(native, site));
  if (kind_ == Owner::wrapped_twice) TRY(second_.wrap(native, site));
  use_ = kind_ == Owner::base_of_wrapped ? &base_ : &first_;
  if (kind_ == Owner::wrapped_twice) owner_ = &second_;
  if (kind_ == Owner::base_of_wrapped) owner_ = &first_;
  return {};
}

Outcome Queue::hold(Gate &gate, Site site) {
  if (calls()) return gate.hold(*owner_, site);
  if (holder_.get() == nullptr) TRY(holder_.create(site));
  TRY(gate.hold(holder_, site));
  Fence fence(session_);
  TRY(fence.record(holder_, site));
  return waits(session_, *use_, fence, site);
}

Outcome Queue::end_wrappers(Site site) {
  TRY(first_.destroy(site));
  return second_.destroy(site);
}

Outcome Queue::end(Site site) {
  TRY(end_wrappers(site));
  return base_.destroy(site);
}

Settled::~Settled() {
  if (gate_ != nullptr) gate_->open();
  for (const Stream *stream : streams_) {
    if (stream->get() == nullptr) continue;
    Fence fence(session_);
    Outcome outcome = fence.record(*stream);
    if (outcome.passed()) outcome = fence.wait();
    session_.keep(outcome);
  }
}

Outcome shapes(Test &t, const Axes &axes,
               const std::function<Outcome(const Shape &, Queue &)> &body) {
  Shape shape;
  bool looked = false;
  std::string why_not = "there was nothing of the kind to look at";
  for (uint32_t index = 0; index < t.device_count; ++index) {
    // The device under test first.
    shape.device = (t.device + index) % t.device_count;
    TRY(t.describe(shape.device, &shape.about));
    if (!shape.has(axes.with)) continue;
    shape.budget = std::min(shape.about.memory_total / 4, 256 * mib);
    for (const Owner owner : axes.owners) {
      if (owner == Owner::transfer && !shape.has(WEIR_CAP_TRANSFER_STREAM)) continue;
      shape.owner = owner;
      for (const uint64_t bytes : axes.sizes) {
        shape.bytes = bytes;
        const auto run = [&]() -> Outcome {
          Queue queue(t, owner, shape.device);
          bool there = false;
          TRY(queue.make(&there));
          if (!there) return {};
          const Outcome outcome = body(shape, queue);
          TRY(outcome);
          if (outcome.empty()) why_not = outcome.text();
          looked = looked || !outcome.empty();
          ++shape.number;
          return queue.end();
        };
        const Outcome outcome = run();
        if (outcome.passed()) continue;
        return Outcome::failure(words("device ", shape.device, ", ", owner_name(owner),
                                      bytes != 0 ? words(", ", bytes, " bytes") : std::string(),
                                      ": ", outcome.text()));
      }
    }
  }
  return looked ? Outcome{} : Test::nothing(why_not);
}

Outcome finished(Session &session, const Stream &stream, Owner owner, Site site) {
  const bool ours_alone = owner == Owner::made || owner == Owner::transfer;
  const uint64_t end = ours_alone ? 0 : now_ns() + patience_ns;
  weir_result result =
      called(site, "stream_query", session.table.stream_query, session.state, stream.get());
  while (result == WEIR_NOT_READY && now_ns() < end) {
    std::this_thread::yield();
    result = called(site, "stream_query", session.table.stream_query, session.state, stream.get());
  }
  if (succeeds.holds(result)) return {};
  return session.unexpected(site, succeeds, "stream_query", owner_name(owner), result);
}

Outcome count_call(Session &session, const Stream &stream, std::atomic<uint32_t> &count,
                   Site site) {
  return session.expect(
      site, succeeds, "stream_host_call", session.table.stream_host_call, stream.get(),
      [](void *user) { static_cast<std::atomic<uint32_t> *>(user)->fetch_add(1); }, &count);
}

Outcome batch(Session &session, const Stream &stream, const std::vector<weir_be_copy> &copies,
              Site site) {
  return session.expect(site, succeeds, "copy_batch_async", session.table.copy_batch_async,
                        stream.get(), copies.data(), static_cast<uint32_t>(copies.size()));
}

Outcome waits(Session &session, const Stream &stream, const Fence &fence, Site site) {
  return session.expect(site, succeeds, "stream_wait", session.table.stream_wait, stream.get(),
                        fence.get());
}

}  // namespace weir::conformance
