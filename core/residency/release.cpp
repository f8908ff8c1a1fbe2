// SPDX-License-Identifier: Apache-2.0
//
// Release: one fence for the whole lease, published with every item before its count is dropped. It cannot
// fail to end the lease: where a fence can't be recorded the stream is synchronised, where there is no memory to
// remember one it is waited for.

#include "core/residency/plan.hpp"

#include <mutex>

namespace weir::residency {

Status Engine::release(weir_lease handle, Stream &stream) {
  const auto slot = static_cast<uint32_t>((reinterpret_cast<uint64_t>(handle) >> 37) & 0x7fffU);
  StreamState *state = states_[slot].load(std::memory_order_acquire);
  if (state == nullptr)
    return fail(WEIR_ERROR_INVALID_HANDLE, "no lease %p on this pool", static_cast<void *>(handle));
  Stream &home = *state->stream;
  Lease *lease = nullptr;
  LeaseItem one;
  uint64_t point = 0;
  Status status;
  bool recorded = false;
  {
    std::lock_guard hold(home.timeline.lock);
    if (!find_lease(handle, &state, &lease)) lease = nullptr;
    const bool same_device = home.device == stream.device;
    if (lease != nullptr && same_device && &home == &stream && lease->count == 1) {
      // The common case in one go: record, take the item, give the record back.
      recorded = home.timeline.record_locked(&point).ok();
      if (recorded && lease->few[0].kind == LeaseKind::whole) {
        one = lease->few[0];
        give_lease(*state, lease);
      }
    } else if (lease != nullptr && !same_device) {
      lease = nullptr;
      status = Status(WEIR_ERROR_INVALID_ARGUMENT);
    }
  }
  if (!status)
    return fail(status.code(), "the stream given to release is of another device than the lease's");
  if (lease == nullptr)
    return fail(WEIR_ERROR_INVALID_HANDLE, "no unreleased lease %p", static_cast<void *>(handle));
  if (!recorded) status = record_release(stream, &point);
  if (one.kind == LeaseKind::whole) {
    const Stamp stamp = Stamp::make(stream.slot, point, one.mode != WEIR_READ);
    if (!release_fast(one, stamp)) release_slow(one, nullptr, stamp);
  } else {
    const uint32_t count = lease->count;
    LeaseItem *items = lease->items();
    for (uint32_t i = 0; i < count; ++i) {
      const Stamp stamp = Stamp::make(stream.slot, point, items[i].writes());
      if (items[i].kind == LeaseKind::whole && release_fast(items[i], stamp)) continue;
      release_slow(items[i], lease, stamp);
    }
    std::lock_guard hold(home.timeline.lock);
    give_lease(*state, lease);
  }
  if (waiters_.load() != 0) wake_all();
  return status;
}

Status Engine::record_release(Stream &stream, uint64_t *point) {
  Status status = stream.timeline.record(point);
  if (status) return status;
  // No fence: end the work instead of marking its end. If that fails too, the device is gone, and with it
  // everything that a fence could have protected.
  const LastError why = last_error();
  if (stream.device != nullptr) {
    (void)stream.device->table().stream_synchronize(stream.device->state(), stream.native);
  }
  *point = stream.timeline.pass_all();
  last_error() = why;
  return status;
}

void Engine::release_slow(const LeaseItem &item, const Lease *lease, Stamp stamp) noexcept {
  Lock lock(mutex_);
  const uint64_t end = item.kind == LeaseKind::whole ? buffers_.hot(item.buffer).size() : item.end;
  const uint64_t begin = item.kind == LeaseKind::whole ? 0 : item.begin;
  note_use(item.buffer, begin, end, stamp);
  if (item.kind == LeaseKind::whole) {
    buffers_.hot(item.buffer).word.fetch_sub(item.mode == WEIR_READ ? Word::reader : Word::writer);
  } else {
    remove_partial(item.buffer, lease, item.begin, item.end);
  }
  changed_.notify_all();
}

// Puts a use into the buffer's history. Under the lock.
void Engine::note_use(uint32_t index, uint64_t begin, uint64_t end, Stamp stamp) noexcept {
  try {
    auto [entry, fresh] = history_.try_emplace(index, &memory_);
    entry->second.add(PastUse{begin, end, stamp}, streams_);
    set_flags(index, Word::history, 0);
  } catch (const std::bad_alloc &) {
    (void)streams_.wait(stamp, UINT64_MAX);
  }
  const Target where = target(index);
  where.region->last_use = std::max(where.region->last_use, stamp.point());
}

void Engine::set_flags(uint32_t index, uint64_t set, uint64_t clear) noexcept {
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(seen, (seen | set) & ~clear, std::memory_order_acq_rel)) {
  }
}

}  // namespace weir::residency
