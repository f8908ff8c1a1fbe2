// SPDX-License-Identifier: Apache-2.0
//
// The objects of the simulated CUDA driver: contexts, streams, events, granules, captures, and the one Driver that
// holds them for the life of a machine. Handles are addresses of these objects and are looked up before use, but for
// contexts, which live as long as the machine. The machine below knows devices and addresses; what belongs
// to CUDA alone is here: contexts and their streams, the order of the legacy stream, capture, sticky errors.
//
// A device's trouble is the trouble of all its contexts. Calls that end something do so in spite of it and then
// answer with its code, so that what a program leaks can be told from what the vendor's driver would keep.
#pragma once

#include "backends/cuda/abi.hpp"
#include "tests/drivers/cuda/symbols.hpp"
#include "tests/drivers/sim/machine.hpp"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace weir::sim_cuda {

using abi::Result;
namespace result = abi::result;
using ContextObject = abi::ContextObject;
using StreamObject = abi::StreamObject;
using EventObject = abi::EventObject;
using GraphObject = abi::GraphObject;

/// One capture of work into a graph. Guarded by Driver::capture_mutex().
struct Capture {
  uint64_t id = 0;
  int mode = 0;
  std::thread::id thread;
  StreamObject *origin = nullptr;
  bool valid = true;
  std::set<StreamObject *> streams;   ///< that take part, the origin too
  std::set<StreamObject *> unjoined;  ///< of those, forked and not waited for since
};

/// A point in a stream as an event keeps it.
struct Recorded {
  sim::Point point;
  std::shared_ptr<Capture> capture;  ///< recorded in a capture, else NULL
  StreamObject *captured_from = nullptr;
  std::shared_ptr<std::atomic<uint64_t>> time;  ///< NULL unless the event takes the time
};

/// Physical memory by its handle.
struct GranuleObject {
  GranuleObject(sim::Census &census, std::shared_ptr<sim::Physical> memory, int types,
                bool for_rdma)
      : physical(std::move(memory)),
        handle_types(types),
        rdma(for_rdma),
        token(census, sim::Kind::granule) {}
  std::shared_ptr<sim::Physical> physical;
  int handle_types;
  bool rdma;  ///< made so that other devices of the bus may reach it
  std::atomic<int> holds{1};
  sim::Token token;
};

class Driver;

}  // namespace weir::sim_cuda

namespace weir::cuda::abi {

struct ContextObject {
  ContextObject(Device number, bool is_primary) : device(number), primary(is_primary) {}
  const Device device;
  const bool primary;
  std::atomic<bool> alive{false};
  unsigned holds = 0;  ///< of a primary context; guarded by the driver's mutex

  std::mutex mutex;  ///< guards the rest
  std::shared_ptr<StreamObject> legacy;
  std::map<std::thread::id, std::shared_ptr<StreamObject>> per_thread;
  std::set<StreamObject *> blocking;  ///< streams that the legacy one waits for
  std::set<uint64_t> plain;           ///< allocations, which end with the context
  std::set<ContextObject *> peers;    ///< whose memory it may use
};

struct StreamObject {
  std::shared_ptr<weir::sim::Stream> queue;
  ContextObject *context = nullptr;
  bool is_legacy = false;
  bool non_blocking = false;
  std::shared_ptr<weir::sim_cuda::Capture> capture;  ///< guarded by Driver::capture_mutex()
  std::unique_ptr<weir::sim::Token> token;           ///< NULL for default streams
};

struct EventObject {
  EventObject(ContextObject *owner, unsigned how, weir::sim::Census &census)
      : context(owner), flags(how), token(census, weir::sim::Kind::event) {}
  ContextObject *const context;
  const unsigned flags;
  std::mutex mutex;
  weir::sim_cuda::Recorded recorded;  ///< guarded by mutex
  weir::sim::Token token;
};

struct GraphObject {};

}  // namespace weir::cuda::abi

namespace weir::sim_cuda {

using StreamPointer = std::shared_ptr<StreamObject>;

class Driver final : public sim::Attachment {
 public:
  explicit Driver(sim::Machine &on);

  sim::Machine &machine;
  sim::Census &census;
  std::atomic<bool> initialized{false};
  sim::Handles<StreamObject> streams;
  sim::Handles<EventObject> events;
  sim::Handles<GranuleObject> granules;
  sim::Handles<GraphObject> graphs;
  /// By device: held while a host function of one of its streams runs, where they run one after another.
  std::array<std::mutex, sim::max_devices> host_calls;

  int version() const noexcept;
  bool is_device(abi::Device device) const noexcept {
    return device >= 0 && static_cast<uint32_t>(device) < machine.devices();
  }
  bool can_reach(abi::Device device, abi::Device peer) const noexcept;

  // ---- contexts ----
  ContextObject &primary(abi::Device device) { return *primaries_[static_cast<size_t>(device)]; }
  Result retain(abi::Device device, abi::Context *context);
  Result release(abi::Device device);
  Result reset(abi::Device device);
  ContextObject *make_context(abi::Device device);
  /// Ends an active context and what it owns. What the program had not ended is counted as misuse.
  void end_context(ContextObject &context);
  /// Whichever context an allocation was of, it is no longer.
  void forget_allocation(uint64_t address);
  /// The context if it is one of ours; it may have ended.
  ContextObject *known(const void *context);
  /// The thread's current context: INVALID_CONTEXT without, CONTEXT_IS_DESTROYED after its end.
  Result current(ContextObject **context);
  /// The sticky error of the context, or success.
  Result health(const ContextObject &context) const noexcept { return health(context.device); }
  Result health(abi::Device device) const noexcept;
  /// What the machine says of a device or its work. A device may be broken with another code than an illegal address's.
  Result code_on(abi::Device device, sim::Answer answer) const noexcept;
  /// Waits for all work of every active context's device; troubles are nobody's business here.
  void drain_all();

  // ---- streams ----
  Result make_stream(ContextObject &context, bool non_blocking, bool counted,
                     StreamPointer *stream);
  /// The stream of a handle, default ones too: INVALID_CONTEXT or INVALID_HANDLE. Its context is well, too.
  Result stream_of(abi::Stream handle, StreamPointer *stream);
  /// Blocks while the stream's channel is full (channel.cpp); order() begins with it.
  void wait_for_room(StreamObject &stream);
  /// The order that the legacy stream asks for; called before work is put into the stream.
  void order(StreamObject &stream);

  // ---- capture ----
  std::mutex &capture_mutex() noexcept { return capture_mutex_; }
  /// Whether work put into the stream is captured and does not run: *captured; the error of an invalid capture; the
  /// error of the legacy stream while a blocking stream captures.
  Result capturing(StreamObject &stream, bool *captured);
  /// The error of a call that may not be made on a capturing stream; it ends the capture's validity.
  Result refuse_capture(StreamObject &stream);
  /// The error of calls that are unsafe while somebody captures.
  Result unsafe();
  Result begin_capture(const StreamPointer &stream, int mode);
  Result end_capture(StreamObject &stream, abi::Graph *graph);
  Result capture_status(StreamObject &stream, int *status, uint64_t *id);
  /// Waiting for a captured event, or in a capturing stream. *captured: nothing is left to be done.
  Result wait_captured(StreamObject &stream, const Recorded &recorded, bool *captured);
  void forget_captures(StreamObject &stream);

 private:
  Result activate(ContextObject &context);
  bool blocking_capture(const ContextObject &context) const;

  std::mutex mutex_;
  std::vector<std::unique_ptr<ContextObject>> primaries_;
  std::vector<std::unique_ptr<ContextObject>> others_;  ///< guarded by mutex_; ended ones stay
  std::mutex capture_mutex_;
  std::set<std::shared_ptr<Capture>> captures_;
  std::atomic<size_t> capture_count_{0};  ///< of captures_: most calls find none, without a lock
  uint64_t last_capture_ = 0;
};

/// The calling thread's own: its stack of contexts and how it minds captures.
struct Thread {
  uint64_t generation = 0;
  std::vector<ContextObject *> stack;
  int capture_mode = abi::capture_mode_global;
  bool in_host_function = false;
};
/// Emptied when it is of an older machine.
Thread &this_thread(const Driver &driver);

Result code_of(sim::Answer answer) noexcept;

/// A misuse that was found by this driver itself.
#define WEIR_SIM_MISUSE(driver, code, ...) ((void)(driver).census.misuse(__VA_ARGS__), (code))

#define WEIR_SIM_TRY(expression)                                                   \
  do {                                                                             \
    const ::weir::cuda::abi::Result weir_sim_try_ = (expression);                  \
    if (weir_sim_try_ != ::weir::cuda::abi::result::success) return weir_sim_try_; \
  } while (false)

/// NULL: *code says why there is none for this call.
Driver *enter_driver(sim::Call &call, Result *code);

/// Every function that can fail is a body in here, or in one of the two below. The record of a call is found once: each body
/// is a type of its own.
template <class Body>
Result at_any_time(const char *name, Body body) noexcept {
  try {
    static sim::Call &call = sim::call(name);
    Result code = result::success;
    Driver *driver = enter_driver(call, &code);
    return driver != nullptr ? body(*driver) : code;
  } catch (const std::bad_alloc &) {
    return result::out_of_memory;
  } catch (...) {
    return result::unknown;
  }
}

/// After cuInit only.
template <class Body>
Result initialized(const char *name, Body body) noexcept {
  return at_any_time(name, [&](Driver &driver) -> Result {
    if (!driver.initialized) {
      return WEIR_SIM_MISUSE(driver, result::not_initialized, "%s before cuInit", name);
    }
    return body(driver);
  });
}

/// With a current context.
template <class Body>
Result in_context(const char *name, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    ContextObject *context = nullptr;
    WEIR_SIM_TRY(driver.current(&context));
    WEIR_SIM_TRY(driver.health(*context));
    return body(driver, *context);
  });
}

}  // namespace weir::sim_cuda
