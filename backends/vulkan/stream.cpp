// SPDX-License-Identifier: Apache-2.0
//
// Enqueueing, and handing over what is ready.

#include "backends/vulkan/stream.hpp"

#include "backends/common/grow.hpp"
#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <new>

namespace weir::vulkan {
namespace {

/// An open batch as large as this goes to the queue although its end was not asked for yet.
constexpr size_t most_commands = 512;
constexpr uint64_t most_bytes = uint64_t{32} << 20U;
/// So many ranges are compared; beyond them a barrier is cheaper.
constexpr size_t most_ranges = 32;
/// Batches that are kept for their memory.
constexpr size_t most_spare = 16;

void lock_queue(void *stream) { static_cast<Stream *>(stream)->queue().lock(); }
void unlock_queue(void *stream) { static_cast<Stream *>(stream)->program_unlocks(); }

}  // namespace

Stream::~Stream() {
  if (thread_.joinable()) {
    close();
    thread_.join();
  }
  if (pool_ != VK_NULL_HANDLE) device_.api().DestroyCommandPool(device_.handle(), pool_, nullptr);
}

void Stream::need_open() {
  if (open_) return;
  if (!spare_batches_.empty()) {
    open_ = std::move(spare_batches_.back());
    spare_batches_.pop_back();
  } else {
    open_ = std::make_unique<Batch>();
  }
  open_->timeline = timeline_;
  open_bytes_ = 0;
  touched_.clear();
}

/// Throws bad_alloc with nothing changed.
void Stream::seal(bool empty_too) {
  if (!open_used() && !empty_too) return;
  need_open();
  Item &item = items_.emplace_back();
  // If the program sets it after this, its work is in the queue before the batch: the batch's end comes after that work too.
  program_submitted_.store(false, std::memory_order_release);
  open_->value = ++last_value_;
  item.batch = std::move(open_);
}

// ---- what is enqueued

bool Stream::meets(const Touched &range) const noexcept {
  return std::any_of(touched_.begin(), touched_.end(), [&](const Touched &other) {
    if (!range.written && !other.written) return false;
    if (range.sparse && other.sparse && device_.aliases()) return true;
    return range.buffer == other.buffer && range.begin < other.end && other.begin < range.end;
  });
}

bool Stream::in_the_way(const Command &command, bool *crowded) const noexcept {
  *crowded = touched_.size() + 2 > most_ranges;
  const VkBufferCopy &region = command.region;
  const Touched written{command.destination, region.dstOffset, region.dstOffset + region.size, true,
                        command.destination_sparse};
  const Touched read{command.source, region.srcOffset, region.srcOffset + region.size, false,
                     command.source_sparse};
  return *crowded || meets(written) || (command.source != VK_NULL_HANDLE && meets(read));
}

/// There is room for it.
void Stream::touch(const Command &command) {
  const VkBufferCopy &region = command.region;
  touched_.push_back({command.destination, region.dstOffset, region.dstOffset + region.size, true,
                      command.destination_sparse});
  if (command.source == VK_NULL_HANDLE) return;
  touched_.push_back({command.source, region.srcOffset, region.srcOffset + region.size, false,
                      command.source_sparse});
}

weir_result Stream::add(const Command *commands, size_t count, bool free_order) {
  if (device_.lost()) return device_.gone();
  bool large = false;
  {
    const std::lock_guard hold(mutex_);
    need_open();
    common::grow_to(open_->commands, open_->commands.size() + count);
    common::grow_to(touched_, std::max(2 * count, most_ranges) + 2);
    // In free order they are set apart from what stands before, never from each other.
    bool barrier = false, crowded = false;
    for (size_t i = 0; i < count && free_order; ++i) {
      bool full = false;
      barrier = in_the_way(commands[i], &full) || barrier;
      crowded = crowded || full;
    }
    const bool first = open_->commands.empty();
    if (free_order && (barrier || crowded)) touched_.clear();
    for (size_t i = 0; i < count; ++i) {
      Command command = commands[i];
      if (!free_order) {
        command.barrier = in_the_way(command, &crowded);
        if (command.barrier) touched_.clear();
      } else {
        command.barrier = i == 0 && !first && barrier;
      }
      touch(command);
      open_bytes_ += command.region.size;
      open_->commands.push_back(command);
    }
    large = open_->commands.size() >= most_commands || open_bytes_ >= most_bytes;
    if (large && !shared_) seal();
  }
  if (shared_) {
    Point end;
    (void)submit_shared(&end);
    return WEIR_SUCCESS;
  }
  // It is enqueued; a submission that fails here is tried again when its end is asked for.
  if (large) (void)pump(*this);
  return WEIR_SUCCESS;
}

weir_result Stream::wait(const Point &point) {
  // What this stream itself does comes before what it does later anyway.
  if (point.timeline == nullptr || point.timeline == timeline_) return WEIR_SUCCESS;
  const weir_result now = point.timeline->poll(point.value);
  if (now != WEIR_NOT_READY) return now;
  if (&point.timeline->device() != &device_) {
    Call call;
    call.foreign = point;
    return add_call(call);
  }
  if (device_.lost()) return device_.gone();
  bool sealed = false;
  {
    const std::lock_guard hold(mutex_);
    if (open_ && !open_->commands.empty()) {
      seal();
      sealed = true;
    }
    need_open();
    const auto known =
        std::find_if(open_->waits.begin(), open_->waits.end(),
                     [&](const Point &other) { return other.timeline == point.timeline; });
    if (known == open_->waits.end()) {
      open_->waits.push_back(point);
    } else {
      known->value = std::max(known->value, point.value);
    }
  }
  if (shared_) {
    Point end;
    return submit_shared(&end);
  }
  if (sealed) (void)pump(*this);
  return WEIR_SUCCESS;
}

void Stream::share(const weir_vulkan_queue &native) {
  native_ = std::make_unique<weir_vulkan_queue>(native);
  shared_ = true;
  if (native.semaphore != 0)
    told_ = Timeline::borrow(
        device_, reinterpret_cast<VkSemaphore>(static_cast<uintptr_t>(native.semaphore)));
}

/// The program's last submission came after all of ours: its value tells of everything.
bool Stream::told_covers_all(Point *point) const noexcept {
  if (told_ == nullptr) return false;
  const uint64_t value = __atomic_load_n(native_->value, __ATOMIC_ACQUIRE);
  const uint64_t ours = ours_at_.load(std::memory_order_acquire);
  if (ours != 0 && value <= ours) return false;
  *point = {told_, value};
  return true;
}

/// On a queue that the program uses: a batch, an empty one too, whose value tells of all that was submitted before. It is in the queue when
/// this returns: what the program submits then comes after it. Where it has to wait for work that is not submitted yet, which a host function
/// elsewhere holds up, the thread waits.
weir_result Stream::submit_shared(Point *point) {
  ours_at_.store(UINT64_MAX, std::memory_order_release);
  {
    const std::lock_guard hold(mutex_);
    seal(true);
    *point = {timeline_, last_value_};
  }
  WEIR_BACKEND_TRY(pump(*this));
  while (timeline_->submitted() < point->value) {
    const weir_result result = timeline_->wait(point->value, 1'000'000);
    if (result != WEIR_ERROR_TIMEOUT && result != WEIR_SUCCESS) return result;
    if (stalled() || queue_.stuck()) WEIR_BACKEND_TRY(pump(*this));
  }
  const uint64_t told = told_ != nullptr ? __atomic_load_n(native_->value, __ATOMIC_ACQUIRE) : 0;
  // 0 means that nothing of ours is there.
  ours_at_.store(told != 0 ? told : UINT64_MAX, std::memory_order_release);
  return WEIR_SUCCESS;
}

/// Where all of the stream's own work has finished and what came since is one wait, its end is what it waits for: no submission is needed
/// to tell of that. The wait stays for what comes after. Not where the program may submit: what it does comes behind what is in the queue.
/// With mutex_ held.
bool Stream::ends_with(Point *point) {
  if (native_ != nullptr || !open_ || !open_->commands.empty() || !items_.empty()) return false;
  const auto passed = [](const Point &each) {
    return each.timeline->seen(each.value) || each.timeline->poll(each.value) == WEIR_SUCCESS;
  };
  if (!passed({timeline_, last_value_})) return false;
  std::erase_if(open_->waits, passed);
  if (open_->waits.size() != 1) return false;
  *point = open_->waits.front();
  return true;
}

weir_result Stream::record(Point *point) {
  if (device_.lost()) return device_.gone();
  if (shared_) return told_covers_all(point) ? WEIR_SUCCESS : submit_shared(point);
  bool waiting = false;
  {
    const std::lock_guard hold(mutex_);
    if (ends_with(point)) return WEIR_SUCCESS;
    seal();
    *point = {timeline_, last_value_};
    waiting = timeline_->submitted() < last_value_;
  }
  return waiting ? pump(*this) : WEIR_SUCCESS;
}

weir_result Stream::query() {
  Point end;
  WEIR_BACKEND_TRY(record(&end));
  return end.timeline->poll(end.value);
}

weir_result Stream::synchronize() {
  Point end;
  WEIR_BACKEND_TRY(record(&end));
  return end.timeline->wait(end.value, UINT64_MAX);
}

weir_result Stream::expose(const weir_vulkan_queue **native) {
  {
    const std::lock_guard hold(mutex_);
    if (native_ == nullptr) {
      weir_vulkan_queue made = WEIR_VULKAN_QUEUE_INIT;
      made.family = queue_.family();
      made.queue = queue_.handle();
      made.semaphore = reinterpret_cast<uintptr_t>(timeline_->semaphore());
      made.lock = lock_queue;
      made.unlock = unlock_queue;
      made.user = this;
      native_ = std::make_unique<weir_vulkan_queue>(made);
    }
    *native = native_.get();
  }
  Point end;
  return record(&end);
}

// ---- handing over

weir_result Stream::release() noexcept {
  weir_result result = WEIR_SUCCESS;
  try {
    const std::lock_guard hold(mutex_);
    result = release_held();
  } catch (const std::bad_alloc &) {
    result = refuse(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the backend's own records");
  }
  stalled_.store(result != WEIR_SUCCESS, std::memory_order_release);
  return result;
}

weir_result Stream::release_held() {
  reclaim();
  while (!items_.empty()) {
    if (call_is_next()) {
      turn_.notify_one();
      return WEIR_SUCCESS;
    }
    Batch &batch = *items_.front().batch;
    for (const Point &wait : batch.waits) {
      if (wait.timeline->await(wait.value, shared_from_this())) return WEIR_SUCCESS;
    }
    if (batch.buffer == VK_NULL_HANDLE && !batch.commands.empty()) WEIR_BACKEND_TRY(encode(&batch));
    std::unique_ptr<Batch> &place = underway_.emplace_back();
    try {
      queue_.put(&batch);
    } catch (...) {
      underway_.pop_back();
      throw;
    }
    place = std::move(items_.front().batch);
    items_.pop_front();
  }
  return WEIR_SUCCESS;
}

/// Batches that are done give their command buffers and their memory back.
void Stream::reclaim() noexcept {
  while (!underway_.empty()) {
    Batch &batch = *underway_.front();
    const bool done = timeline_->seen(batch.value) || timeline_->poll(batch.value) == WEIR_SUCCESS;
    if (!done) return;
    // There is room: each command buffer that was made has its place (take_buffer()).
    if (batch.buffer != VK_NULL_HANDLE) spare_.push_back(batch.buffer);
    batch.buffer = VK_NULL_HANDLE;
    batch.commands.clear();
    batch.waits.clear();
    if (spare_batches_.size() < most_spare && spare_batches_.capacity() > spare_batches_.size())
      spare_batches_.push_back(std::move(underway_.front()));
    underway_.pop_front();
  }
}

// ---- the end

bool Stream::over() noexcept {
  // A thread that holds it still works on the stream.
  const std::unique_lock hold(mutex_, std::try_to_lock);
  if (!hold) return false;
  if (!left_.load(std::memory_order_acquire)) return false;
  // The queue may look at the stream's batches until it has seen the loss.
  if (device_.lost()) return !queue_.holds(*timeline_);
  const weir_result end = timeline_->poll(last_value_);
  return end == WEIR_SUCCESS && items_.empty() && !open_used();
}

void Stream::close() noexcept {
  try {
    const std::lock_guard hold(mutex_);
    if (!device_.lost()) seal();
    closed_ = true;
  } catch (const std::bad_alloc &) {
    // settle() seals it again.
    closed_ = true;
  }
  turn_.notify_one();
  (void)pump(*this);
}

void Stream::forget() noexcept {
  const std::lock_guard hold(mutex_);
  open_.reset();
  items_.clear();
  underway_.clear();
}

weir_result pump(Stream &stream) noexcept {
  try {
    Waiters woken;
    weir_result result = stream.release();
    const weir_result drained = stream.queue().drain(&woken);
    if (result == WEIR_SUCCESS) result = drained;
    while (!woken.empty()) {
      const std::shared_ptr<Stream> next = std::move(woken.front().stream);
      woken.pop_front();
      // A submission that fails is tried again when its end is asked for.
      (void)next->release();
      (void)next->queue().drain(&woken);
    }
    return result;
  } catch (const std::bad_alloc &) {
    return refuse(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the backend's own records");
  }
}

}  // namespace weir::vulkan
