// SPDX-License-Identifier: Apache-2.0
//
// Streams: immediate command lists, our own and the program's.
//
// Lists are not thread-safe, so each stream has a lock around its appends; it cannot keep the program's own appends to
// a wrapped list apart from ours, which is why such a list is used on the program's threads only
// (no WEIR_CAP_STREAM_ANY_THREAD). Our lists are made in order where the driver knows that; elsewhere, and on a
// wrapped list whose order nothing tells, barriers stand between commands. A list of ours that the program has
// been given may hold commands of its own from then on, and is treated like one that was wrapped.
#pragma once

#include "backends/common/handle_table.hpp"
#include "backends/level_zero/devices.hpp"
#include "backends/level_zero/events.hpp"
#include "backends/level_zero/host_calls.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace weir::level_zero {

class Stream {
 public:
  Stream(const Platform &platform, Events &events, uint64_t id, uint32_t device, bool own) noexcept
      : platform_(platform), events_(events), id_(id), device_(device), own_(own), shared_(!own) {}
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  uint64_t id() const noexcept { return id_; }
  uint32_t device() const noexcept { return device_; }
  bool own() const noexcept { return own_; }
  abi::CommandList list() const noexcept { return list_; }
  /// The list for the program's own use.
  weir_result expose(abi::CommandList *list);

  /// Signals `event` after everything enqueued so far.
  weir_result mark(abi::Event event);
  /// The same for a fence's event, which later answers a query of the stream.
  weir_result record(EventIndex index);
  /// What follows runs after `awaited`.
  weir_result wait(EventSlot &awaited);
  weir_result copy(uint64_t destination, uint64_t source, uint64_t bytes);
  weir_result fill(uint64_t address, uint8_t value, uint64_t bytes);
  weir_result host_call(weir_host_function function, void *user);
  weir_result query();
  weir_result synchronize();

 private:
  friend class Streams;
  /// How long a query of a list that is not ours alone gives an idle queue to answer, at least.
  static constexpr uint64_t least_patience_ns = 1'000'000;

  weir_result barrier(abi::Event signal);
  weir_result before_command();
  weir_result after_command();
  weir_result query_known();
  weir_result query_shared();
  template <class Append>
  weir_result in_chunks(uint64_t bytes, const char *call, Append append);

  const Platform &platform_;
  Events &events_;
  const uint64_t id_;
  const uint32_t device_;
  const bool own_;
  abi::CommandList list_ = nullptr;
  bool in_order_ = false;

  std::mutex mutex_;              // what follows, and the list
  bool shared_ = false;           // the program may enqueue on the list as well
  bool unordered_ = false;        // no barrier stands after the last command yet
  uint64_t enqueued_ = 0;         // commands of ours, but for barriers that only signal
  uint64_t finished_ = 0;         // so many of them are known to be done
  EventIndex marker_ = no_event;  // signalled after the first marker_at_ of them
  uint64_t marker_at_ = 0;
  EventIndex recorded_ =
      no_event;  // the last fence's, signalled after the first recorded_at_ of them
  uint32_t recorded_use_ = 0;
  uint64_t recorded_at_ = 0;
  std::atomic<uint64_t> patience_ns_{least_patience_ns};  // what the next query_shared() waits
  std::unique_ptr<HostCalls> calls_;
};

class Streams {
 public:
  Streams(const Platform &platform, Events &events) noexcept
      : platform_(platform), events_(events) {}
  /// Waits for our own lists to finish and ends them.
  ~Streams();
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  weir_result create(uint32_t device, uint64_t flags, weir_be_stream *stream);
  weir_result wrap(uint32_t device, void *native, weir_be_stream *stream);
  /// Does not wait: a list with unfinished work is parked and ended later, and so is a thread of host functions.
  weir_result destroy(weir_be_stream stream);
  /// INVALID_ARGUMENT if there is no such stream.
  weir_result find(weir_be_stream stream, std::shared_ptr<Stream> *found);

 private:
  struct Parked {
    abi::CommandList list = nullptr;
    EventIndex end = no_event;  // no_event: nothing is left to wait for
  };

  std::shared_ptr<Stream> make(uint32_t device, bool own);
  weir_result make_list(Stream *stream, const Device::QueueGroup &group);
  weir_result park(Stream &stream);
  void retire(Stream &stream) noexcept;
  void end_finished() noexcept;
  void end(const Parked &parked) noexcept;

  const Platform &platform_;
  Events &events_;
  std::shared_mutex mutex_;
  common::HandleTable<std::shared_ptr<Stream>> streams_;
  std::vector<Parked> parked_;
  std::vector<std::unique_ptr<HostCalls>>
      retired_;  // of streams that are gone; their threads leave by themselves
  uint64_t ids_ = 0;
  std::atomic<uint32_t> queue_turn_{0};
  std::atomic<bool> refuses_in_order_{false};
};

}  // namespace weir::level_zero
