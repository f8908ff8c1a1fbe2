// SPDX-License-Identifier: Apache-2.0
//
// Admission: who may take memory while it is short, first come first served. Only the head of the queue counts leases and holds
// granules while it is short, so that two sets can't starve each other. While the head waits for others' leases it holds nothing,
// and a set for which enough is free may go past it: so threads that hold leases get on, and release them.
#pragma once

#include "core/base/pool_lock.hpp"

#include <atomic>
#include <cstdint>

namespace weir::lease {

/// One thread's place in the queue; lives on its stack until it has left. Its members are Admission's.
struct Ticket {
  Ticket *next = nullptr;
  bool queued = false;
  bool waits_for_leases = false;
};

class Admission {
 public:
  enum class Answer : uint8_t {
    go,               ///< it is the head, or goes past a head that waits for leases
    wait,             ///< behind a head that is making room, which ends by itself
    wait_for_leases,  ///< behind one that waits for leases of others
    refused           ///< likewise, and it would rather not: it is not queued for that
  };

  /// While one lives, a release on the hit path wakes the waiting threads (has_watchers).
  class Watch {
   public:
    explicit Watch(Admission &admission) noexcept : admission_(admission) {
      admission_.watchers_.fetch_add(1);
    }
    ~Watch() { admission_.watchers_.fetch_sub(1); }
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

   private:
    Admission &admission_;
  };

  /// Whether a set that needs memory may try to get it now. `fits`: as much is free; `patient`: the caller would wait for leases.
  /// Unless it is refused, or goes past others, it is in the queue from now on.
  Answer ask(Ticket &ticket, bool fits, bool patient) noexcept WEIR_HELD {
    if (head_ == nullptr) enter(ticket);
    if (head_ == &ticket) return Answer::go;
    const bool stuck = head_->waits_for_leases;
    if (stuck && fits) return Answer::go;
    if (stuck && !patient) return Answer::refused;
    enter(ticket);
    return stuck ? Answer::wait_for_leases : Answer::wait;
  }
  /// It tries: the tickets behind it wait for that.
  void begin_try(Ticket &ticket) noexcept WEIR_HELD { ticket.waits_for_leases = false; }
  /// Until others release leases there is no more for it. What the others in the queue are answered changes by that.
  void begin_wait(Ticket &ticket) noexcept WEIR_HELD {
    enter(ticket);
    ticket.waits_for_leases = true;
  }
  /// It has what it needs, or gives up. True: it was queued, so that another may be the head now.
  bool leave(Ticket &ticket) noexcept WEIR_HELD {
    if (!ticket.queued) return false;
    Ticket *before = nullptr;
    for (Ticket *t = head_; t != &ticket; t = t->next) before = t;
    (before != nullptr ? before->next : head_) = ticket.next;
    if (tail_ == &ticket) tail_ = before;
    ticket.queued = false;
    return true;
  }

  /// Whether a release has a thread to wake. Needs no lock: a thread that begins to watch looks once more before it waits.
  bool has_watchers() const noexcept { return watchers_.load() != 0; }

 private:
  void enter(Ticket &ticket) noexcept WEIR_HELD {
    if (ticket.queued) return;
    ticket.queued = true;
    ticket.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &ticket;
    tail_ = &ticket;
  }

  Ticket *head_ WEIR_GUARDED = nullptr;
  Ticket *tail_ WEIR_GUARDED = nullptr;
  std::atomic<uint32_t> watchers_{0};
};

}  // namespace weir::lease
