// SPDX-License-Identifier: Apache-2.0
//
// Opening, closing and reusing stream slots.

#include "core/backend/stream.hpp"

#include "core/base/grow.hpp"

namespace weir::backend {
namespace {

Status create(const Device &device, uint64_t flags, weir_be_stream *handle) {
  return device.check(device.table().stream_create(device.state(), device.index, flags, handle),
                      "stream_create");
}

}  // namespace

StreamTable::StreamTable(std::pmr::memory_resource *memory, Ticks *ticks)
    : memory_(memory), ticks_(ticks), slots_(memory), closed_(memory) {
  slots_.reserve(max_slots);
  closed_.reserve(64);
  slots_.push_back(make_owned<Stream>(memory_));  // slot 0 is "none"
}

StreamTable::~StreamTable() {
  for (auto &stream : slots_) {
    if (stream->device == nullptr) continue;
    stream->timeline.drain();
    if (stream->alive())
      (void)stream->device->table().stream_destroy(stream->device->state(), stream->native);
  }
}

Status StreamTable::take_slot(Stream **stream) {
  for (size_t i = 0; i < closed_.size(); ++i) {
    Stream &old = *slots_[closed_[i]];
    if (!old.timeline.passed(old.timeline.last())) continue;
    old.timeline.drain();
    // A thread may still be polling one of its fences, and needs the slot's device for that.
    if (old.timeline.in_use()) continue;
    closed_[i] = closed_.back();
    closed_.pop_back();
    *stream = &old;
    return {};
  }
  if (slots_.size() >= max_slots)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "more than %u streams are open", max_slots - 1);
  grow_to(closed_, slots_.size() + 1);  // so that close() can't fail
  Owned<Stream> fresh = make_owned<Stream>(memory_);
  fresh->slot = static_cast<uint32_t>(slots_.size());
  *stream = fresh.get();
  slots_.push_back(std::move(fresh));
  return {};
}

Status StreamTable::open(const Device *device, bool wrap, void *native, void *owner,
                         Stream **stream) {
  return fill_slot(device, wrap, owner, stream, [&](weir_be_stream *handle) -> Status {
    if (device == nullptr) return {};
    const weir_backend_table &table = device->table();
    if (!wrap) return create(*device, 0, handle);
    return device->check(table.stream_wrap(device->state(), device->index, native, handle),
                         "stream_wrap");
  });
}

Status StreamTable::open_transfer(const Device &device, void *owner, Stream **stream) {
  const uint64_t flags = device.has(WEIR_CAP_TRANSFER_STREAM) ? WEIR_BE_STREAM_TRANSFER : 0;
  return fill_slot(&device, false, owner, stream,
                   [&](weir_be_stream *handle) { return create(device, flags, handle); });
}

template <class Make>
Status StreamTable::fill_slot(const Device *device, bool wrap, void *owner, Stream **stream,
                              Make make) {
  const Guard hold(mutex_);
  Stream *slot = nullptr;
  WEIR_TRY(take_slot(&slot));
  slot->device = nullptr;
  weir_be_stream handle = nullptr;
  if (const Status status = make(&handle); !status) {
    closed_.push_back(slot->slot);
    return status;
  }
  slot->device = device;
  slot->native = handle;
  slot->owner = owner;
  slot->wrapped = wrap;
  slot->may_capture = device != nullptr && device->table().stream_check != nullptr;
  ++slot->generation;
  slot->timeline.open(device, handle, ticks_);
  slot->magic.store(Stream::alive_magic, std::memory_order_release);
  *stream = slot;
  return {};
}

Status StreamTable::close(Stream *stream) {
  const Guard hold(mutex_);
  stream->magic.store(0, std::memory_order_release);
  closed_.push_back(stream->slot);
  if (stream->device == nullptr) return {};
  const Device &device = *stream->device;
  return device.check(device.table().stream_destroy(device.state(), stream->native),
                      "stream_destroy");
}

std::string StreamTable::list_open(const void *owner) const {
  constexpr uint32_t most_named = 8;
  std::string names;
  uint32_t count = 0;
  for (const auto &stream : slots_) {
    if (!stream->alive() || stream->owner != owner) continue;
    if (++count > most_named) continue;
    names += (count == 1 ? ": number " : ", number ") + std::to_string(stream->slot);
    names += stream->device == nullptr ? " of the CPU"
                                       : " on device " + std::to_string(stream->device->id);
    if (stream->wrapped) names += ", a wrapped one";
  }
  if (count == 0) return {};
  if (count > most_named) names += " and " + std::to_string(count - most_named) + " more";
  return std::to_string(count) + (count == 1 ? " stream" : " streams") + names;
}

std::string StreamTable::describe_open(const void *owner, bool wait) {
  if (wait) {
    const Guard hold(mutex_);
    return list_open(owner);
  }
  const TryGuard hold(mutex_);
  return hold ? list_open(owner) : std::string();
}

Status StreamTable::enqueue_wait(Stream &stream, Stamp stamp) noexcept {
  if (!stamp || stamp.slot() == stream.slot) return {};
  return timeline(stamp).enqueue_wait(stream.device, stream.native, stamp.point());
}

}  // namespace weir::backend
