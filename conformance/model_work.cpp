// SPDX-License-Identifier: Apache-2.0
//
// The model's work: copies, fills, batches, host functions, what the CPU does to host memory, and cells of all threads. What a
// call does to the bytes is done to the model's at once: the order of calls is one of the orders that the fences allow, and all
// of these give the same bytes.
#include "conformance/model.hpp"

#include <algorithm>
#include <cstring>

namespace weir::conformance::model {
namespace {

constexpr uint64_t most_checked = 4096;  ///< bytes that a host function looks at

bool overlap(const Piece &a, const Piece &b) {
  return a.window->store == b.window->store && a.begin() < b.end() && b.begin() < a.end();
}

std::string text_of(const Piece &piece) {
  return words("cell ", piece.window->store->number, " [", piece.begin(), ", ", piece.end(),
               ") at ", piece.address());
}

void run_call(void *user) {
  Call &call = *static_cast<Call *>(user);
  if (call.writes) {
    std::memcpy(call.memory, call.wanted.data(), call.wanted.size());
  } else if (call.memory != nullptr) {
    const size_t wrong = first_difference({call.memory, call.wanted.size()}, call.wanted);
    if (wrong != call.wanted.size()) call.wrong.store(wrong);
  }
  call.ran.fetch_add(1);
}

}  // namespace

/// A piece of a window that the lane's device sees; false if there is none.
bool Actor::pick(Lane &lane, uint64_t most, Piece *piece) {
  if (windows_.empty()) return false;
  const size_t from = below(windows_.size());
  Window *window = nullptr;
  for (size_t i = 0; i < windows_.size() && window == nullptr; ++i) {
    Window *each = windows_[(from + i) % windows_.size()].get();
    if (each->seen_by[lane.device]) window = each;
  }
  if (window == nullptr) return false;
  const uint64_t bytes = std::min(size(most), window->bytes);
  uint64_t at = below(window->bytes - bytes + 1);
  if (one_in(4)) at = one_in(2) ? 0 : window->bytes - bytes;
  *piece = {window, at, bytes};
  return true;
}

Outcome Actor::before_read(Lane &lane, const Piece &piece) {
  for (Spot &spot : piece.window->store->spots)
    if (spot.begin < piece.end() && piece.begin() < spot.end) TRY(after(lane, Point(spot.write)));
  return {};
}

Outcome Actor::before_write(Lane &lane, const Piece &piece) {
  for (Spot &spot : piece.window->store->spots) {
    if (spot.begin >= piece.end() || piece.begin() >= spot.end) continue;
    TRY(after(lane, Point(spot.write)));
    const std::vector<Point> reads = spot.reads;
    for (const Point &read : reads) TRY(after(lane, read));
  }
  return {};
}

void Actor::did_read(const Lane &lane, const Piece &piece) {
  for (Spot &spot : piece.window->store->spots) {
    if (spot.begin >= piece.end() || piece.begin() >= spot.end) continue;
    const auto found = std::find_if(spot.reads.begin(), spot.reads.end(),
                                    [&](const Point &p) { return p.lane == lane.number; });
    if (found != spot.reads.end()) {
      found->at = lane.count;
    } else {
      spot.reads.push_back({lane.number, lane.count});
    }
  }
}

void Actor::did_write(const Lane &lane, const Piece &piece) {
  for (Spot &spot : piece.window->store->spots) {
    if (spot.begin >= piece.end() || piece.begin() >= spot.end) continue;
    // A part was written: what was there before is ordered before this point.
    spot.write = {lane.number, lane.count};
    spot.reads.clear();
    spot.known = true;
  }
}

Outcome Actor::copy() {
  Lane &lane = any_lane();
  Piece from, to;
  const uint64_t most = one_in(60) ? 64 * mib : one_in(10) ? 128 * kib : 4 * kib;
  if (!pick(lane, most, &from) || !pick(lane, most, &to)) return {};
  from.bytes = to.bytes = std::min(from.bytes, to.bytes);
  if (overlap(from, to)) return {};
  // The header: such a copy may wait.
  if (gate_ && from.window->store->of_host() && to.window->store->of_host()) return {};
  const bool both = from.window->store->of_host() && to.window->store->of_host();
  TRY(room(lane));
  TRY(before_read(lane, from));
  TRY(before_write(lane, to));
  Store &source = *from.window->store, &target = *to.window->store;
  say(words("lane ", lane.number, ": ", from.bytes, " bytes from ", text_of(from), " to ",
            text_of(to)),
      &target, &source);
  guilty_ = &target;
  if (both) common_.turns.begin_memory();
  const Outcome copied = handle(lane).copy(to.address(), from.address(), from.bytes);
  if (both) common_.turns.end_memory();
  TRY(copied);
  tick(lane);
  did_read(lane, from);
  did_write(lane, to);
  std::memmove(target.holds.data() + to.begin(), source.holds.data() + from.begin(), from.bytes);
  return {};
}

Outcome Actor::fill(Lane &lane, const Piece &piece, uint8_t value) {
  TRY(room(lane));
  TRY(before_write(lane, piece));
  Store &store = *piece.window->store;
  say(words("lane ", lane.number, ": fill ", text_of(piece), " with ", uint32_t{value}), &store);
  guilty_ = &store;
  TRY(handle(lane).fill(piece.address(), value, piece.bytes));
  tick(lane);
  did_write(lane, piece);
  std::memset(store.holds.data() + piece.begin(), value, piece.bytes);
  return {};
}

Outcome Actor::fill() {
  Lane &lane = any_lane();
  Piece piece;
  if (!pick(lane, one_in(40) ? 64 * mib : 8 * kib, &piece)) return {};
  const auto value = static_cast<uint8_t>(below(256));
  // The header has fills of device memory only, and what is plain is filled by its own device.
  const Store &store = *piece.window->store;
  if (store.of_host() || (store.sort == Sort::plain && store.device != lane.device)) return {};
  return fill(lane, piece, value);
}

Outcome Actor::batch() {
  Lane &lane = any_lane();
  if (!facts(lane.device).has(WEIR_CAP_BATCH_COPY)) return {};
  const uint64_t count = 1 + below(one_in(8) ? 40 : 6);
  std::vector<std::pair<Piece, Piece>> pairs;
  for (uint64_t i = 0; i < count; ++i) {
    Piece from, to;
    if (!pick(lane, 4 * kib, &from) || !pick(lane, 4 * kib, &to)) return {};
    from.bytes = to.bytes = std::min(from.bytes, to.bytes);
    bool good =
        !overlap(from, to) && !(from.window->store->of_host() && to.window->store->of_host());
    for (const auto &[other_from, other_to] : pairs)
      good = good && !overlap(to, other_from) && !overlap(to, other_to) && !overlap(from, other_to);
    if (good) pairs.emplace_back(from, to);
  }
  if (pairs.empty()) return {};
  TRY(room(lane));
  std::vector<weir_be_copy> copies;
  for (const auto &[from, to] : pairs) {
    TRY(before_read(lane, from));
    TRY(before_write(lane, to));
    copies.push_back({to.address(), from.address(), from.bytes});
    say(words("lane ", lane.number, ": in a batch ", from.bytes, " bytes from ", text_of(from),
              " to ", text_of(to)),
        to.window->store, from.window->store);
  }
  TRY(conformance::batch(t, handle(lane), copies));
  tick(lane);
  for (const auto &[from, to] : pairs) {
    did_read(lane, from);
    // Reads of the same spot by the batch itself stand at the same point.
    did_write(lane, to);
    std::memcpy(to.window->store->holds.data() + to.begin(),
                from.window->store->holds.data() + from.begin(), from.bytes);
  }
  return {};
}

/// A host function that checks host memory, writes it, or counts.
Outcome Actor::call() {
  Lane &lane = any_lane();
  const uint64_t what = below(5);
  Piece piece;
  const bool any = pick(lane, most_checked, &piece);
  if (!facts(lane.device).has(WEIR_CAP_HOST_CALL) || !lane.queue.calls()) return {};
  auto made = std::make_unique<Call>();
  const bool reachable = any && (piece.window->store->of_host() ||
                                 (facts(piece.window->store->device).has(WEIR_CAP_HOST_ACCESS)));
  const bool looks = reachable && what < 4;
  TRY(room(lane));
  made->text = words("lane ", lane.number, ": a host function in step ", step_);
  if (looks) {
    Store &store = *piece.window->store;
    const auto begin = store.holds.begin() + static_cast<std::ptrdiff_t>(piece.begin());
    made->memory = reinterpret_cast<std::byte *>(static_cast<uintptr_t>(piece.address()));
    made->writes = what == 3;
    made->wanted.assign(begin, begin + static_cast<std::ptrdiff_t>(piece.bytes));
    if (made->writes) {
      make_pattern(made->wanted, below(1000));
      TRY(before_write(lane, piece));
    } else {
      TRY(before_read(lane, piece));
    }
    made->text += words(made->writes ? " writes " : " checks ", text_of(piece));
    if (made->writes) std::copy(made->wanted.begin(), made->wanted.end(), begin);
  }
  say(made->text, looks ? piece.window->store : nullptr);
  MUST(stream_host_call, handle(lane).get(), &run_call, made.get());
  tick(lane, true);
  made->point = {lane.number, lane.count};
  if (looks && made->writes) did_write(lane, piece);
  if (looks && !made->writes) did_read(lane, piece);
  calls_.push_back(std::move(made));
  return {};
}

/// No work that was enqueued uses the bytes any more.
Outcome Actor::settle(Store &store, uint64_t begin, uint64_t end) {
  for (Spot &spot : store.spots) {
    if (spot.begin >= end || begin >= spot.end) continue;
    TRY(host_after(Point(spot.write)));
    const std::vector<Point> reads = spot.reads;
    for (const Point &read : reads) TRY(host_after(read));
  }
  return {};
}

/// The CPU reads host memory and writes it.
Outcome Actor::touch() {
  std::vector<Store *> hosts;
  for (const auto &store : stores_)
    if (store->of_host()) hosts.push_back(store.get());
  if (hosts.empty()) return {};
  Store &store = *hosts[below(hosts.size())];
  const uint64_t bytes = std::min(size(64 * kib), store.bytes());
  const uint64_t begin = below(store.bytes() - bytes + 1), seed = below(1000);
  const bool writes = one_in(2);
  say(words("the CPU ", writes ? "writes" : "reads", " cell ", store.number, " [", begin, ", ",
            begin + bytes, ")"),
      &store);
  TRY(settle(store, begin, begin + bytes));
  const std::span<std::byte> memory = store.sort == Sort::pinned
                                          ? store.pinned->bytes().subspan(begin, bytes)
                                          : store.pages->bytes().subspan(begin, bytes);
  const std::span<std::byte> wanted(store.holds.data() + begin, bytes);
  guilty_ = &store;
  TRY(check_same(memory, wanted, words("what the CPU sees of cell ", store.number)));
  if (!writes) return {};
  make_pattern(memory, seed);
  make_pattern(wanted, seed);
  return {};
}

/// A copy between a cell of all threads and one of this thread's.
Outcome Actor::share() {
  if (common_.shared.empty()) return {};
  Lane &lane = any_lane();
  Shared &cell = *common_.shared[below(common_.shared.size())];
  const bool into = one_in(2);
  Piece piece;
  if (!pick(lane, cell.holds.size(), &piece)) return {};
  const uint64_t at = below(cell.holds.size() - piece.bytes + 1);
  const bool of_host = cell.pinned != nullptr;
  if (!of_host && cell.device != lane.device && !common_.reach[cell.device][lane.device]) return {};
  if (of_host && piece.window->store->of_host()) return {};
  // Nothing is waited for while the cell is locked: the lane may wait for another thread's gate, and that thread for the cell.
  TRY(room(lane, 60));
  TRY(into ? before_read(lane, piece) : before_write(lane, piece));
  Store &store = *piece.window->store;
  const std::lock_guard hold(cell.mutex);
  std::vector<MarkPointer> marks =
      cell.write ? std::vector{cell.write} : std::vector<MarkPointer>{};
  if (into) marks.insert(marks.end(), cell.reads.begin(), cell.reads.end());
  for (const MarkPointer &mark : marks) {
    MUST(stream_wait, handle(lane).get(), mark->fence.get());
    tick(lane);
    // Another thread's lane may wait for a fence of this one's held lanes, or for host functions.
    lane.calls = true;
    if (gate_) lane.maybe = gates_;
  }
  guilty_shared_ = &cell;
  if (cell.write) ANSWERS_EITHER(WEIR_SUCCESS, WEIR_NOT_READY, fence_poll, cell.write->fence.get());
  const uint64_t address = cell.address + at;
  const std::string text = words("thread ", index_, ", step ", step_, ", lane ", lane.number, ": ",
                                 piece.bytes, " bytes ", into ? "from " : "to ", text_of(piece),
                                 into ? " to " : " from ", "the shared cell at ", address);
  say(text, &store);
  cell.history.push_back(text);
  if (cell.history.size() > most_history) cell.history.pop_front();
  TRY(handle(lane).copy(into ? address : piece.address(), into ? piece.address() : address,
                        piece.bytes));
  tick(lane);
  std::byte *ours = store.holds.data() + piece.begin(), *theirs = cell.holds.data() + at;
  std::memcpy(into ? theirs : ours, into ? ours : theirs, piece.bytes);
  into ? did_read(lane, piece) : did_write(lane, piece);
  MarkPointer mark;
  TRY(record(lane, &mark));
  if (into) {
    cell.write = std::move(mark);
    cell.reads.clear();
  } else {
    cell.reads.push_back(std::move(mark));
    // The oldest are waited for by a later one's lane, so that the list stays short.
    if (cell.reads.size() > 16) {
      for (const MarkPointer &old : cell.reads) {
        MUST(stream_wait, handle(lane).get(), old->fence.get());
        tick(lane);
      }
      lane.calls = true;
      if (gate_) lane.maybe = gates_;
      MarkPointer after_all;
      TRY(record(lane, &after_all));
      cell.reads.assign(1, std::move(after_all));
    }
  }
  return {};
}

/// Reads all that is known of a window and compares it.
Outcome Actor::look(Window &window) {
  std::vector<Lane *> seeing;
  for (const auto &lane : lanes_)
    if (window.seen_by[lane->device]) seeing.push_back(lane.get());
  if (seeing.empty()) return {};
  Lane &lane = *seeing[below(seeing.size())];
  Store &store = *window.store;
  const std::span<std::byte> staging = staging_->bytes();
  say(words("lane ", lane.number, ": reads cell ", store.number, " [", window.offset, ", ",
            window.offset + window.bytes, ") at ", window.address),
      &store);
  for (uint64_t at = 0; at < window.bytes; at += staging.size()) {
    const uint64_t bytes = std::min<uint64_t>(staging.size(), window.bytes - at);
    const Piece piece{&window, at, bytes};
    std::fill_n(staging.begin(), bytes, std::byte{0xEE});
    TRY(room(lane));
    TRY(before_read(lane, piece));
    guilty_ = &store;
    TRY(handle(lane).copy(staging_->address(), piece.address(), bytes));
    tick(lane);
    did_read(lane, piece);
    TRY(synchronize(lane));
    guilty_ = &store;
    TRY(check_same(
        staging.first(bytes), {store.holds.data() + piece.begin(), bytes},
        words("cell ", store.number, " from byte ", piece.begin(), " on, at ", piece.address())));
  }
  return {};
}

}  // namespace weir::conformance::model
