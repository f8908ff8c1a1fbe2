// SPDX-License-Identifier: Apache-2.0
//
// The lane with an io_uring: one thread that owns the ring, with many pieces under way. Files are registered with the
// ring, and memory that is used often as far as the kernel lets us; all of that is a hint.
//
// Only the lane's thread touches the ring's queues. Memory is registered from other threads, by a system call on the
// ring's descriptor that the kernel orders.

#include "core/base/scratch.hpp"
#include "core/base/mutex.hpp"
#include "core/tier/io_lane.hpp"
#include "core/tier/wake.hpp"

#if defined(WEIR_HAVE_URING)
#include <liburing.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#endif

namespace weir::tier {

#if defined(WEIR_HAVE_URING)

namespace {

/// Memory that is registered with a ring: which place of the ring's table a range lies in. Places are fixed in number,
/// so that nothing allocates; what finds none is not registered.
class RegisteredMemory {
 public:
  static constexpr unsigned places = 1024;
  static constexpr uint64_t place_bytes = uint64_t{1} << 30U;  ///< the kernel's bound

  /// An empty table in the ring. Kernels before 5.19 have none.
  void start(io_uring *ring) noexcept {
    if (io_uring_register_buffers_sparse(ring, places) == 0) ring_ = ring;
  }

  void stop() noexcept {
    if (ring_ != nullptr) (void)io_uring_unregister_buffers(ring_);
    ring_ = nullptr;
  }

  void add(void *base, uint64_t bytes) noexcept {
    if (ring_ == nullptr) return;
    auto *at = static_cast<unsigned char *>(base);
    for (unsigned i = 0; i < places && bytes != 0; ++i) {
      const uint64_t count = std::min(bytes, place_bytes);
      if (!reserve(i, base)) continue;
      iovec memory{at, count};
      // It pins the memory, which takes a while and counts against a limit: no lock is held meanwhile.
      const bool taken = update(i, &memory);
      const Guard hold(mutex_);
      places_[i] = taken ? Place{base, at, count} : Place{};
      if (!taken) return;
      at += count;
      bytes -= count;
    }
  }

  /// Of memory that no transfer uses any more.
  void remove(void *base) noexcept {
    if (ring_ == nullptr) return;
    for (unsigned i = 0; i < places; ++i) {
      {
        const Guard hold(mutex_);
        if (places_[i].base != base || places_[i].begin == nullptr) continue;
        places_[i].begin = nullptr;
        places_[i].bytes = 0;
      }
      iovec nothing{nullptr, 0};
      (void)update(i, &nothing);
      const Guard hold(mutex_);
      places_[i].base = nullptr;
    }
  }

  /// The place that holds all of it; -1: none.
  int find(const unsigned char *memory, uint64_t bytes) noexcept {
    if (ring_ == nullptr) return -1;
    const Guard hold(mutex_);
    for (unsigned i = 0; i < used_; ++i) {
      const Place &place = places_[i];
      if (place.begin != nullptr && memory >= place.begin &&
          memory + bytes <= place.begin + place.bytes) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

 private:
  struct Place {
    void *base = nullptr;  ///< add()'s; not null: taken
    unsigned char *begin = nullptr;
    uint64_t bytes = 0;
  };

  bool reserve(unsigned i, void *base) noexcept {
    const Guard hold(mutex_);
    if (places_[i].base != nullptr) return false;
    places_[i].base = base;
    used_ = std::max(used_, i + 1);
    return true;
  }
  bool update(unsigned i, const iovec *memory) noexcept {
    const __u64 tag = 0;
    return io_uring_register_buffers_update_tag(ring_, i, memory, &tag, 1) == 1;
  }

  io_uring *ring_ = nullptr;
  RankedMutex<Rank::leaf> mutex_;
  Place places_[places] WEIR_GUARDED_BY(mutex_);
  unsigned used_ WEIR_GUARDED_BY(mutex_) = 0;  ///< places from the front that were ever taken
};

class UringLane final : public IoLane {
 public:
  explicit UringLane(const IoShared &shared) : IoLane(shared) {}
  ~UringLane() override {
    join();
    if (!open_) return;
    // The kernel puts off a ring's end; the caller that ended the store may unmount the directory and use the memory at once.
    if (fixed_files_) (void)io_uring_unregister_files(&ring_);
    registered_.stop();
    io_uring_queue_exit(&ring_);
  }

  Status start();
  void wake() noexcept override { wake_.set(); }
  void add_memory(void *base, uint64_t bytes) noexcept override { registered_.add(base, bytes); }
  void remove_memory(void *base) noexcept override { registered_.remove(base); }

 private:
  static constexpr unsigned depth = 256;
  static constexpr unsigned bounces = 16;
  /// Every piece has at most one entry under way, and the wake-up one.
  static constexpr unsigned entries = 512;
  static_assert(entries > depth);

  Status open_ring();
  void run() noexcept override;
  IoQueue::Next fill() noexcept;
  void attempt(unsigned slot) noexcept;
  bool reap() noexcept;
  void end(unsigned slot, int error) noexcept;

  io_uring ring_{};
  bool open_ = false;
  bool fixed_files_ = false;
  bool listening_ = false;  ///< for wake_
  Wake wake_;
  RegisteredMemory registered_;

  Piece pieces_[depth];
  unsigned free_[depth] = {};  ///< a stack
  unsigned free_count_ = 0;
  Scratch bounce_;
  unsigned char *free_bounces_[bounces] = {};
  unsigned free_bounce_count_ = 0;
};

Status UringLane::open_ring() {
  io_uring_params params{};
  params.flags = IORING_SETUP_COOP_TASKRUN;  // only this thread waits: no need to interrupt it
  int result = io_uring_queue_init_params(entries, &ring_, &params);
  if (result == -EINVAL) {
    params = {};
    result = io_uring_queue_init_params(entries, &ring_, &params);
  }
  if (result < 0) {
    return fail(WEIR_ERROR_NOT_SUPPORTED, {.tier = WEIR_TIER_STORAGE, .native = -result},
                "storage: io_uring: %s", strerrordesc_np(-result));
  }
  open_ = true;
  io_uring_probe *probe = io_uring_get_probe_ring(&ring_);
  bool works = probe != nullptr;
  for (const int operation : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_POLL_ADD})
    works = works && io_uring_opcode_supported(probe, operation) != 0;
  io_uring_free_probe(probe);
  if (works) return {};
  return fail(WEIR_ERROR_NOT_SUPPORTED, {.tier = WEIR_TIER_STORAGE, .native = EOPNOTSUPP},
              "storage: io_uring: this kernel's can't read and write");
}

Status UringLane::start() {
  WEIR_TRY(open_ring());
  (void)io_uring_ring_dontfork(&ring_);
  WEIR_TRY(wake_.make(false));
  std::pmr::vector<int> descriptors(shared_.memory);
  for (const SpillFile &file : shared_.files) descriptors.push_back(file.descriptor());
  fixed_files_ = io_uring_register_files(&ring_, descriptors.data(),
                                         static_cast<unsigned>(descriptors.size())) == 0;
  registered_.start(&ring_);
  for (unsigned i = 0; i < depth; ++i) free_[free_count_++] = i;
  if (shared_.key != nullptr) {
    WEIR_TRY(bounce_.start(shared_.piece_bytes * bounces, "transfer to storage", true));
    for (unsigned i = 0; i < bounces; ++i)
      free_bounces_[free_bounce_count_++] = bounce_.data() + i * shared_.piece_bytes;
    registered_.add(bounce_.data(), bounce_.bytes());
  }
  return start_thread();
}

void UringLane::run() noexcept {
  for (;;) {
    const IoQueue::Next next = fill();
    if (next == IoQueue::Next::stop && free_count_ == depth) return;
    if (!listening_) {
      io_uring_sqe *entry = io_uring_get_sqe(&ring_);
      io_uring_prep_poll_add(entry, wake_.descriptor(), POLLIN);
      io_uring_sqe_set_data64(entry, depth);
      listening_ = true;
    }
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // Interrupted, or the kernel is short of memory for more requests at the moment: entries stay where they are and
    // are handed over with the next call.
    if (result < 0 && result != -EINTR && !reap()) std::this_thread::yield();
    reap();
  }
}

/// Starts what may be started.
IoQueue::Next UringLane::fill() noexcept {
  while (free_count_ != 0) {
    const unsigned slot = free_[free_count_ - 1];
    Piece &piece = pieces_[slot];
    const bool writes = shared_.key == nullptr || free_bounce_count_ != 0;
    const IoQueue::Next next = shared_.queue.next(this, writes, &piece);
    if (next != IoQueue::Next::piece) return next;
    --free_count_;
    unsigned char *bounce = nullptr;
    if (piece.io->write && shared_.key != nullptr) bounce = free_bounces_[--free_bounce_count_];
    if (!prepare(&piece, bounce)) {
      end(slot, EIO);
      continue;
    }
    attempt(slot);
    // The device need not wait while the next one is encrypted.
    if (bounce != nullptr) (void)io_uring_submit(&ring_);
  }
  return IoQueue::Next::none;
}

/// Until one is under way or the piece has ended.
void UringLane::attempt(unsigned slot) noexcept {
  Piece &piece = pieces_[slot];
  while (const int refused = begin(&piece)) {
    int error = 0;
    if (advance(&piece, -refused, &error)) continue;
    end(slot, error);
    return;
  }
  io_uring_sqe *entry = io_uring_get_sqe(&ring_);
  unsigned char *memory = where(piece);
  const auto bytes = static_cast<unsigned>(piece.asked);
  const uint64_t at = piece.offset + piece.done;
  const int descriptor = fixed_files_ ? static_cast<int>(piece.file) : file(piece).descriptor();
  const int place = registered_.find(memory, bytes);
  if (piece.io->write && place >= 0) {
    io_uring_prep_write_fixed(entry, descriptor, memory, bytes, at, place);
  } else if (piece.io->write) {
    io_uring_prep_write(entry, descriptor, memory, bytes, at);
  } else if (place >= 0) {
    io_uring_prep_read_fixed(entry, descriptor, memory, bytes, at, place);
  } else {
    io_uring_prep_read(entry, descriptor, memory, bytes, at);
  }
  if (fixed_files_) entry->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(entry, slot);
}

/// Takes the completions that have arrived. True: there were some.
bool UringLane::reap() noexcept {
  io_uring_cqe *entry = nullptr;
  bool any = false;
  while (io_uring_peek_cqe(&ring_, &entry) == 0 && entry != nullptr) {
    const auto slot = static_cast<unsigned>(io_uring_cqe_get_data64(entry));
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    any = true;
    if (slot == depth) {
      wake_.wait();
      listening_ = false;
      continue;
    }
    const bool deciphers = shared_.key != nullptr && !pieces_[slot].io->write;
    int error = 0;
    advance(&pieces_[slot], result, &error) ? attempt(slot) : end(slot, error);
    // The device need not wait while the next one is decrypted.
    if (deciphers) return true;
  }
  return any;
}

void UringLane::end(unsigned slot, int error) noexcept {
  Piece &piece = pieces_[slot];
  if (piece.from != nullptr) free_bounces_[free_bounce_count_++] = piece.from;
  free_[free_count_++] = slot;
  shared_.queue.finish(piece, error);
}

}  // namespace

Status make_uring_lane(const IoShared &shared, Owned<IoLane> *lane) {
  Owned<UringLane> fresh = make_owned<UringLane>(shared.memory, shared);
  WEIR_TRY(fresh->start());
  *lane = adopt_as<IoLane>(std::move(fresh));
  return {};
}

#else

Status make_uring_lane(const IoShared &, Owned<IoLane> *) {
  return fail(WEIR_ERROR_NOT_SUPPORTED,
              "storage: io_uring: this build of Weir was made without it");
}

#endif

}  // namespace weir::tier
