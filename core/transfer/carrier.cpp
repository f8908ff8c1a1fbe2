// SPDX-License-Identifier: Apache-2.0
//
// Lanes of a copy: each takes a share of its bytes, and they take turns in enqueueing a piece.

#include "core/transfer/carrier.hpp"

#include "core/base/poison.hpp"
#include "core/base/pool_lock.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>
#include <cstring>

namespace weir::transfer {
namespace {

/// Where a share is in the cargo.
struct Cursor {
  const Cargo *cargo = nullptr;
  uint64_t offset = 0, left = 0;

  Cargo take(uint64_t most) noexcept {
    const uint64_t bytes = std::min({most, left, cargo->bytes - offset});
    const Cargo piece{cargo->destination + offset, cargo->source + offset, bytes};
    offset += bytes;
    left -= bytes;
    if (offset == cargo->bytes) {
      ++cargo;
      offset = 0;
    }
    return piece;
  }
  void skip(uint64_t bytes) noexcept {
    for (left = bytes; left != 0;) (void)take(left);
  }
};

}  // namespace

// ---- memory on a device ----

void Ring::start(uint64_t address, uint64_t stride_bytes, uint64_t bytes) noexcept {
  base = address;
  stride = stride_bytes;
  unit_bytes = std::min(Paths::unit, stride);
  run = static_cast<uint32_t>(std::min<uint64_t>(stride / unit_bytes, most));
  count = static_cast<uint32_t>(std::min<uint64_t>(bytes / stride * run, most));
  next = 0;
  busy = {};
}

uint64_t Bounce::bytes_on(const physical::GranulePool &pool) noexcept {
  const uint64_t page = pool.page_size(physical::PageClass::small);
  const uint64_t least = quarters * std::min(quarter_bytes, page);
  return (least + page - 1) / page * page;
}

bool Bounce::claim(uint64_t reserve) noexcept {
  const uint64_t page = pool_.page_size(physical::PageClass::small);
  const uint64_t bytes = bytes_on(pool_);
  if (!pool_.vmm() || pool_.room() < bytes + reserve || pool_.budget() < pool_.held() + bytes)
    return false;
  try {
    physical::DoomedList none;  // there is room for all: no granule of the other size has to go
    for (uint64_t have = 0; have < bytes; have += page) {
      const physical::GranuleId id = pool_.claim(physical::PageClass::small, page, &none);
      if (id == physical::no_granule) break;
      pieces_[count_++] = Piece{id, &pool_.at(id), false};
    }
  } catch (const std::bad_alloc &) {
  }
  if (count_ * page == bytes) return true;
  release();
  return false;
}

uint64_t Bounce::release() noexcept {
  uint64_t stuck = 0;
  opened_.store(UINT16_MAX);
  for (uint32_t i = 0; i < count_; ++i) {
    const Piece &piece = pieces_[i];
    piece.memory->set_client(physical::client_unknown);
    if (piece.mapped) {
      stuck += pool_.page_size(physical::PageClass::small);
      continue;
    }
    if (piece.memory->place == 0) {
      pool_.forget(piece.id);
    } else {
      pool_.release(piece.id);
    }
  }
  count_ = 0;
  return stuck;
}

Status Bounce::open() {
  if (ring.count != 0) return {};
  const uint64_t page = pool_.page_size(physical::PageClass::small);
  if (pieces_[0].mapped || pieces_[count_ - 1].mapped)
    return fail(WEIR_ERROR_BACKEND, "the relay memory of device %u was not unmapped", device_.id);
  WEIR_TRY(
      device_.check(device_.table().range_reserve(device_.state(), device_.index, count_ * page,
                                                  device_.description.granule, &address_),
                    "range_reserve"));
  Status status;
  for (uint32_t i = 0; i < count_ && status; ++i) {
    status = pool_.materialize(*pieces_[i].memory);
    uint16_t opened = 0;
    if (status) status = mapper_.map(address_ + i * page, page, pieces_[i].memory->place, &opened);
    opened_.store(std::min(opened_.load(std::memory_order_relaxed), opened));
    pieces_[i].mapped = status.ok();
  }
  if (!status) {
    const KeepError keep;
    close();
    return status;
  }
  ring.start(address_, page, count_ * page);
  return {};
}

void Bounce::close() noexcept {
  if (address_ == 0) return;
  const uint64_t page = pool_.page_size(physical::PageClass::small);
  bool all = true;
  for (uint32_t i = 0; i < count_; ++i) {
    if (pieces_[i].mapped && mapper_.unmap(address_ + i * page, page)) pieces_[i].mapped = false;
    all = all && !pieces_[i].mapped;
  }
  if (all)
    (void)device_.table().range_free(device_.state(), device_.index, address_, count_ * page);
  address_ = 0;
  ring.stop();
}

// ---- pinned memory, streams ----

Status Carrier::open_pinned(const backend::Device &device) {
  if (memory_ != nullptr) return {};
  WEIR_TRY(device.check(device.table().host_allocate(device.state(), pinned_ring, &memory_),
                        "host_allocate"));
  runtime_ = device.runtime;
  pinned_bytes_.store(pinned_ring, std::memory_order_relaxed);
  pinned_.start(reinterpret_cast<uint64_t>(memory_), pinned_ring, pinned_ring);
  return {};
}

Status Carrier::stream(Stream **slot, const backend::Device &device) {
  if (*slot != nullptr) return {};
  return with_memory("for a stream of copies",
                     [&] { return streams_.open_transfer(device, this, slot); });
}

/// Waits without the mutex, so that others carry on: by their pieces the memory may be in use again when it returns.
bool Carrier::await(const Ring *ring, uint64_t timeout_ns) noexcept {
  std::array<Stamp, Ring::most> busy;
  {
    const Guard hold(mutex_);
    busy = ring->busy;
  }
  for (const Stamp stamp : busy) {
    const Status waited = streams_.wait(stamp, timeout_ns);
    if (waited.code() == WEIR_ERROR_TIMEOUT) return false;
    if (!waited) streams_.at(stamp.slot()).synchronize();
  }
  return true;
}

bool Carrier::idle(const Ring &ring) noexcept {
  return std::all_of(ring.busy.begin(), ring.busy.end(),
                     [this](Stamp stamp) { return streams_.passed(stamp); });
}

Status Carrier::open(const Order &order, Bounce **closed) {
  const Guard hold(mutex_);
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    Bounce *bounce = order.bounces[i];
    if (bounce == nullptr) continue;
    *closed = bounce;
    WEIR_TRY(bounce->open());
  }
  *closed = nullptr;
  return {};
}

bool Carrier::close(Bounce &bounce, uint64_t timeout_ns) noexcept {
  if (!await(&bounce.ring, timeout_ns)) return false;
  const Guard hold(mutex_);
  bounce.close();
  return true;
}

bool Carrier::close_pinned(uint64_t timeout_ns) noexcept {
  if (!await(&pinned_, timeout_ns)) return false;
  const Guard hold(mutex_);
  if (memory_ == nullptr || !idle(pinned_)) return memory_ == nullptr;
  if (secret_) std::memset(memory_, 0, pinned_bytes());
  secret_ = false;
  poison::fill(memory_, pinned_bytes(), poison::nobody);
  (void)runtime_->table().host_free(runtime_->state(), memory_, pinned_bytes());
  memory_ = nullptr;
  pinned_.stop();
  pinned_bytes_.store(0, std::memory_order_relaxed);
  return true;
}

bool Carrier::scrub(bool wait) noexcept {
  const Guard hold(mutex_);
  if (!secret_) return true;
  if (!wait && !idle(pinned_)) return false;
  for (const Stamp stamp : pinned_.busy) {
    if (!streams_.wait(stamp, UINT64_MAX)) streams_.at(stamp.slot()).synchronize();
  }
  std::memset(memory_, 0, pinned_bytes());
  secret_ = false;
  return true;
}

void Carrier::close() noexcept {
  {
    const Guard hold(mutex_);
    for (Side &side : sides_) {
      for (auto *streams : {&side.out, &side.in}) {
        for (Stream *&stream : *streams) {
          if (stream == nullptr) continue;
          stream->timeline.drain();
          (void)streams_.close(stream);
          stream = nullptr;
        }
      }
    }
  }
  (void)close_pinned(UINT64_MAX);
}

// ---- copies ----

struct Carrier::Lane {
  Stream *out = nullptr, *in = nullptr;
  Ring *ring = nullptr;
  Cursor at;
  uint64_t chunk = 0;
  uint8_t share = 0;
  Stamp last, there;
};

Status Carrier::begin(Order &order, Lane &lane) {
  const Share &share = order.ways.shares[lane.share];
  if (share.device()) {
    lane.ring = &order.bounces[lane.share]->ring;
  } else {
    WEIR_TRY(open_pinned(*order.to));
    lane.ring = &pinned_;
    secret_ = secret_ || order.secret;
  }
  lane.chunk = std::min(share.chunk, lane.ring->largest_piece());
  WEIR_TRY(stream(&sides_[order.from_place].out[lane.share], *order.from));
  WEIR_TRY(stream(&sides_[order.to_place].in[lane.share], *order.to));
  lane.out = sides_[order.from_place].out[lane.share];
  lane.in = sides_[order.to_place].in[lane.share];
  const auto bit = static_cast<uint8_t>(1U << lane.share);
  if ((order.begun & bit) != 0) return {};
  order.begun = static_cast<uint8_t>(order.begun | bit);
  for (size_t i = 0; i < order.before_count; ++i) {
    WEIR_TRY(streams_.enqueue_wait(*lane.out, order.before[i]));
    WEIR_TRY(streams_.enqueue_wait(*lane.in, order.before[i]));
  }
  return {};
}

Status Carrier::piece(Lane &lane) {
  Ring &ring = *lane.ring;
  const Cargo piece = lane.at.take(lane.chunk);
  const auto units = static_cast<uint32_t>((piece.bytes + ring.unit_bytes - 1) / ring.unit_bytes);
  // Not over the end of a mapping.
  if (ring.next % ring.run + units > ring.run) ring.next += ring.run - ring.next % ring.run;
  if (ring.next + units > ring.count) ring.next = 0;
  const uint32_t first = ring.next;
  ring.next += units;
  const uint64_t between = ring.address(first);
  for (uint32_t i = first; i < ring.next; ++i) {
    const bool same = i != first && ring.busy[i].bits == ring.busy[i - 1].bits;
    if (!same) WEIR_TRY(streams_.enqueue_wait(*lane.out, ring.busy[i]));
  }
  WEIR_TRY(lane.out->copy({between, piece.source, piece.bytes}));
  WEIR_TRY(lane.out->mark(&lane.there));
  WEIR_TRY(streams_.enqueue_wait(*lane.in, lane.there));
  WEIR_TRY(lane.in->copy({piece.destination, between, piece.bytes}));
  WEIR_TRY(lane.in->mark(&lane.last));
  for (uint32_t i = first; i < ring.next; ++i) ring.busy[i] = lane.last;
  return {};
}

Status Carrier::run(Order &order, const Cargo *cargo, size_t count, Stamp after) {
  uint64_t bytes = 0, planned = 0;
  for (size_t i = 0; i < count; ++i) bytes += cargo[i].bytes;
  for (uint8_t i = 0; i < order.ways.count; ++i) planned += order.ways.shares[i].bytes;
  std::array<Lane, Ways::most> lanes;
  size_t used = 0;
  Cursor cursor{cargo, 0, 0};
  uint64_t rest = bytes;
  Copier direct(*order.arrival);
  for (uint8_t i = order.ways.count; i-- > 0;) {
    const Share &share = order.ways.shares[i];
    const auto part = static_cast<double>(share.bytes) / static_cast<double>(planned);
    const auto near = static_cast<uint64_t>(part * static_cast<double>(bytes));
    // All of it, the planned share, or the like of it where this is a part of what was planned.
    uint64_t own = bytes == planned ? share.bytes : near / Paths::unit * Paths::unit;
    if (i == 0) own = rest;
    own = std::min(own, rest);
    rest -= own;
    if (own == 0) continue;
    if (order.ways.split()) order.split += own;
    Cursor mine{cursor.cargo, cursor.offset, own};
    cursor.skip(own);
    if (share.via == Share::direct) {
      while (mine.left != 0) {
        const Cargo run = mine.take(mine.left);
        WEIR_TRY(direct.copy(run.destination, run.source, run.bytes));
      }
      WEIR_TRY(direct.flush());
      continue;
    }
    (share.device() ? order.relayed : order.through_host) += own;
    Lane &lane = lanes[used++];
    lane.share = i;
    lane.at = mine;
    WEIR_TRY(begin(order, lane));
    WEIR_TRY(streams_.enqueue_wait(*lane.in, after));
  }
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < used; ++i) {
      if (lanes[i].at.left == 0) continue;
      WEIR_TRY(piece(lanes[i]));
      more = more || lanes[i].at.left != 0;
    }
  }
  for (size_t i = 0; i < used; ++i) {
    order.last[lanes[i].share] = lanes[i].last;
    order.there[lanes[i].share] = lanes[i].there;
  }
  return {};
}

Status Carrier::carry(Order &order, const Cargo *cargo, size_t count, Stamp after) {
  const Guard hold(mutex_);
  const Status status = run(order, cargo, count, after);
  if (status) return {};
  const KeepError keep;
  end_locked(order);
  order.arrival->synchronize();
  return status;
}

Status Carrier::finish(const Order &order) {
  for (const Stamp last : order.last) WEIR_TRY(streams_.enqueue_wait(*order.arrival, last));
  return {};
}

void Carrier::end(const Order &order) noexcept {
  const Guard hold(mutex_);
  end_locked(order);
  order.arrival->synchronize();
}

void Carrier::end_locked(const Order &order) noexcept {
  for (uint8_t i = 0; i < order.ways.count; ++i) {
    for (const Stream *stream : {sides_[order.from_place].out[i], sides_[order.to_place].in[i]})
      if (stream != nullptr) stream->synchronize();
  }
}

}  // namespace weir::transfer
