// SPDX-License-Identifier: Apache-2.0
//
// Events. An event is a point that is written anew by each record: who asks or waits takes the point of that moment.
// Before the first record it is no work at all, so it has passed.

#include "backends/host/link.hpp"
#include "tests/drivers/cuda/driver.hpp"

using namespace weir::sim_cuda;
namespace sim = weir::sim;

namespace {

using EventPointer = std::shared_ptr<EventObject>;
using Time = std::shared_ptr<std::atomic<uint64_t>>;

/// Notes when the stream came to the event.
class TakeTime final : public sim::Task {
 public:
  explicit TakeTime(Time time) noexcept : time_(std::move(time)) {}
  void run(sim::Stream &, bool) noexcept override { time_->store(weir::host::now_ns()); }

 private:
  Time time_;
};

template <class Body>
Result on_event(const char *name, abi::Event handle, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    const EventPointer event = driver.events.find(handle);
    if (event == nullptr) {
      return WEIR_SIM_MISUSE(driver, result::invalid_handle, "%s: %p is no event", name,
                             static_cast<const void *>(handle));
    }
    return body(driver, *event);
  });
}

Recorded recorded_of(EventObject &event) {
  const std::lock_guard hold(event.mutex);
  return event.recorded;
}

}  // namespace

Result cuEventCreate(abi::Event *event, unsigned flags) {
  return in_context("cuEventCreate", [&](Driver &driver, ContextObject &context) -> Result {
    constexpr unsigned known = abi::event_blocking_sync | abi::event_disable_timing;
    if (event == nullptr || (flags & ~known) != 0) {
      return WEIR_SIM_MISUSE(driver, result::invalid_value, "an event with flags %#x", flags);
    }
    auto made = std::make_shared<EventObject>(&context, flags, driver.census);
    *event = made.get();
    driver.events.add(std::move(made));
    return result::success;
  });
}

/// Legal while it is pending.
Result cuEventDestroy_v2(abi::Event handle) {
  return initialized("cuEventDestroy", [&](Driver &driver) -> Result {
    const EventPointer event = driver.events.remove(handle);
    if (event != nullptr) return driver.health(*event->context);
    return WEIR_SIM_MISUSE(driver, result::invalid_handle, "destroying %p, which is no event",
                           static_cast<const void *>(handle));
  });
}

Result cuEventRecord(abi::Event handle, abi::Stream where) {
  return on_event("cuEventRecord", handle, [&](Driver &driver, EventObject &event) -> Result {
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(where, &stream));
    if (stream->context != event.context) {
      return WEIR_SIM_MISUSE(driver, result::invalid_handle,
                             "recording an event in a stream of another context");
    }
    bool captured = false;
    WEIR_SIM_TRY(driver.capturing(*stream, &captured));
    Recorded recorded;
    if (captured) {
      const std::lock_guard hold(driver.capture_mutex());
      recorded.capture = stream->capture;
      recorded.captured_from = stream.get();
    } else {
      driver.order(*stream);
      if ((event.flags & abi::event_disable_timing) == 0) {
        recorded.time = std::make_shared<std::atomic<uint64_t>>(0);
        stream->queue->task(std::make_unique<TakeTime>(recorded.time));
      }
      recorded.point = stream->queue->record();
    }
    const std::lock_guard hold(event.mutex);
    event.recorded = std::move(recorded);
    return result::success;
  });
}

Result cuEventQuery(abi::Event handle) {
  return on_event("cuEventQuery", handle, [](Driver &driver, EventObject &event) -> Result {
    WEIR_SIM_TRY(driver.health(*event.context));
    WEIR_SIM_TRY(driver.unsafe());
    const Recorded recorded = recorded_of(event);
    if (recorded.capture != nullptr) return result::captured_event;
    if (!driver.machine.passed(recorded.point)) return result::not_ready;
    return driver.health(*event.context);
  });
}

Result cuEventSynchronize(abi::Event handle) {
  return on_event("cuEventSynchronize", handle, [](Driver &driver, EventObject &event) -> Result {
    WEIR_SIM_TRY(driver.health(*event.context));
    WEIR_SIM_TRY(driver.unsafe());
    const Recorded recorded = recorded_of(event);
    if (recorded.capture != nullptr) return result::captured_event;
    if (recorded.point.fence == 0) return result::success;
    return driver.code_on(event.context->device, driver.machine.wait(recorded.point, UINT64_MAX));
  });
}

Result cuEventElapsedTime(float *milliseconds, abi::Event from, abi::Event to) {
  return on_event("cuEventElapsedTime", from, [&](Driver &driver, EventObject &first) -> Result {
    const EventPointer second = driver.events.find(to);
    if (milliseconds == nullptr) return result::invalid_value;
    if (second == nullptr) return result::invalid_handle;
    const Recorded begin = recorded_of(first);
    const Recorded end = recorded_of(*second);
    // Never recorded, or made to take no time.
    if (begin.time == nullptr || end.time == nullptr) return result::invalid_handle;
    if (!driver.machine.passed(begin.point) || !driver.machine.passed(end.point)) {
      return result::not_ready;
    }
    const auto elapsed = static_cast<int64_t>(end.time->load() - begin.time->load());
    *milliseconds = static_cast<float>(elapsed) / 1e6F;
    return result::success;
  });
}

Result cuStreamWaitEvent(abi::Stream where, abi::Event handle, unsigned flags) {
  return on_event("cuStreamWaitEvent", handle, [&](Driver &driver, EventObject &event) -> Result {
    StreamPointer stream;
    WEIR_SIM_TRY(driver.stream_of(where, &stream));
    if (flags != 0) return result::invalid_value;
    const Recorded recorded = recorded_of(event);
    bool captured = false;
    WEIR_SIM_TRY(driver.wait_captured(*stream, recorded, &captured));
    if (captured) return result::success;
    driver.order(*stream);
    stream->queue->wait(recorded.point);
    return result::success;
  });
}
