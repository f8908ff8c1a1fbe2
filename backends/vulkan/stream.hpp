// SPDX-License-Identifier: Apache-2.0
//
// A stream: an order of batches and host functions. What is enqueued is collected in an open batch, which is sealed when
// its end is asked for, before a wait or a host function, or when it has grown large. Sealed batches go to
// the queue at once, unless one before them is not there yet: because a host function stands before it, or it waits for work that is not
// submitted. Then the stream is held here, where it holds up no other stream, and goes on when what it waits for has come.
//
// Host functions run on a thread of the stream's own, made with the first of them. On a lost device those that have not
// run never will.
//
// Locks: a stream's own comes before a timeline's and an outbox's. No thread waits for a queue's lock while it holds the stream's.
#pragma once

#include "backends/vulkan/batch.hpp"
#include "backends/vulkan/queue.hpp"

#include <weir/backend.h>
#include <weir/vulkan.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weir::vulkan {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Device &device, Queue &queue, std::shared_ptr<Timeline> timeline) noexcept
      : device_(device),
        queue_(queue),
        timeline_(std::move(timeline)),
        last_value_(timeline_->submitted()) {}
  /// All is done, or the device is lost; the thread has left or leaves now.
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;

  Device &device() const noexcept { return device_; }
  Queue &queue() const noexcept { return queue_; }
  const std::shared_ptr<Timeline> &timeline() const noexcept { return timeline_; }

  /// All or none. With `free_order` the commands may run in any order among themselves.
  weir_result add(const Command *commands, size_t count, bool free_order);
  /// Work enqueued from now on runs after the point.
  weir_result wait(const Point &point);
  weir_result host_call(weir_host_function function, void *user);
  /// Gives the end of the work enqueued so far.
  weir_result record(Point *point);
  weir_result query();
  weir_result synchronize();
  /// For the program's own use: what it submits from now on comes after what is here.
  weir_result expose(const weir_vulkan_queue **native);
  /// The program gives the queue's lock back, and has submitted something maybe: the stream's next end is the end of that too.
  void program_unlocks() noexcept {
    program_submitted_.store(true, std::memory_order_release);
    queue_.unlock();
  }
  /// The queue is the program's too: what is enqueued is submitted at once, since what the program submits comes after it. Before any use.
  void share(const weir_vulkan_queue &native);

  /// Hands over all batches whose turn has come. Called by the thread that made the first of them ready.
  weir_result release() noexcept;
  /// Something failed that is to be tried again.
  bool stalled() const noexcept { return stalled_.load(std::memory_order_acquire); }

  /// No more work will be enqueued: what is here is finished, and then the thread leaves.
  void close() noexcept;
  /// Nothing is left to be done, and no thread.
  bool over() noexcept;
  /// Blocks until all work is done or never will be, and the thread has left.
  void settle() noexcept;
  /// Lets go of what other streams are known by. After settle() of all.
  void forget() noexcept;

 private:
  struct Call {
    weir_host_function function = nullptr;
    void *user = nullptr;
    Point foreign;       ///< instead of a function: work of another device to wait for
    uint64_t after = 0;  ///< the value of what stands before it
    uint64_t value = 0;  ///< signalled when it is over
  };
  /// A batch, or a call where there is none.
  struct Item {
    std::unique_ptr<Batch> batch;
    Call call;
  };
  /// A range that commands of the open batch touch.
  struct Touched {
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t begin = 0, end = 0;
    bool written = false, sparse = false;
  };

  bool open_used() const noexcept {
    return program_submitted_.load(std::memory_order_acquire) ||
           (open_ && !(open_->commands.empty() && open_->waits.empty()));
  }
  void need_open();
  void seal(bool empty_too = false);
  bool ends_with(Point *point);
  weir_result submit_shared(Point *point);
  bool told_covers_all(Point *point) const noexcept;
  weir_result add_call(const Call &call);
  bool meets(const Touched &range) const noexcept;
  bool in_the_way(const Command &command, bool *crowded) const noexcept;
  void touch(const Command &command);
  weir_result release_held();
  weir_result encode(Batch *batch);
  weir_result take_buffer(VkCommandBuffer *buffer);
  void reclaim() noexcept;
  void serve() noexcept;
  void run(const Call &call) noexcept;
  bool call_is_next() const noexcept { return !items_.empty() && items_.front().batch == nullptr; }

  Device &device_;
  Queue &queue_;
  const std::shared_ptr<Timeline> timeline_;

  std::mutex mutex_;  // what follows
  std::unique_ptr<Batch> open_;
  uint64_t open_bytes_ = 0;
  std::vector<Touched> touched_;                 ///< since the open batch's last barrier
  std::deque<Item> items_;                       ///< sealed, and not handed over yet
  std::deque<std::unique_ptr<Batch>> underway_;  ///< handed over, in order
  std::vector<VkCommandBuffer> spare_;
  std::vector<std::unique_ptr<Batch>> spare_batches_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  uint64_t last_value_;
  size_t calls_ = 0;  ///< host functions that are not over
  std::unique_ptr<weir_vulkan_queue> native_;
  bool shared_ = false;  ///< the program submits to the queue as well
  std::shared_ptr<Timeline>
      told_;  ///< the semaphore that the program's submissions signal, if it tells
  /// What the program had told when our last batch was submitted; UINT64_MAX while one is under way, 0 without any.
  std::atomic<uint64_t> ours_at_{0};
  std::atomic<bool> stalled_{false};
  std::atomic<bool> program_submitted_{false};  ///< since the last batch was sealed

  bool closed_ = false;
  std::condition_variable turn_;
  std::atomic<bool> left_{true};  ///< there is no thread, or it is about to end
  std::thread thread_;
};

/// Lets the stream go on, and the streams that waited for it, and so on. Called without any lock. The result is the stream's own.
weir_result pump(Stream &stream) noexcept;

}  // namespace weir::vulkan
