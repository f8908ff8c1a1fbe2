// SPDX-License-Identifier: Apache-2.0
//
// The way into the driver, contexts and streams as objects. The order among streams of a context that the legacy
// default stream asks for is made of waits: work of the legacy stream waits for all blocking streams, and theirs for it.

#include "tests/drivers/cuda/driver.hpp"

namespace weir::sim_cuda {

Thread &this_thread(const Driver &driver) {
  thread_local Thread mine;
  const uint64_t generation = driver.machine.generation();
  if (mine.generation != generation) mine = Thread{generation, {}, abi::capture_mode_global, false};
  return mine;
}

Result code_of(sim::Answer answer) noexcept {
  switch (answer) {
    case sim::Answer::ok:
      return result::success;
    case sim::Answer::not_ready:
      return result::not_ready;
    case sim::Answer::timeout:
      return result::timeout;
    case sim::Answer::invalid:
      return result::invalid_value;
    case sim::Answer::out_of_memory:
    case sim::Answer::out_of_host_memory:
    case sim::Answer::no_addresses:
      return result::out_of_memory;
    case sim::Answer::registered_already:
      return result::host_memory_already_registered;
    case sim::Answer::not_registered:
      return result::host_memory_not_registered;
    case sim::Answer::illegal_address:
      return result::illegal_address;
    // The vendor has no code of its own for a card that is gone; this is the one that programs see.
    case sim::Answer::lost:
      return result::launch_failed;
    case sim::Answer::system:
      return result::operating_system;
  }
  return result::unknown;
}

Driver *enter_driver(sim::Call &call, Result *code) {
  if (sim::Machine::forked()) {
    *code = result::not_initialized;
    return nullptr;
  }
  sim::Machine *machine = sim::Machine::current();
  if (machine == nullptr) {
    *code = result::deinitialized;
    return nullptr;
  }
  *code = static_cast<Result>(sim::enter(call));
  if (*code != result::success) {
    machine->stuck(*code);
    return nullptr;
  }
  Driver &driver = static_cast<Driver &>(machine->attachment());
  if (this_thread(driver).in_host_function) {
    *code =
        WEIR_SIM_MISUSE(driver, result::not_permitted, "a call of the driver in a host function");
    return nullptr;
  }
  return &driver;
}

Driver::Driver(sim::Machine &on) : machine(on), census(on.census()) {
  for (uint32_t device = 0; device < on.devices(); ++device) {
    primaries_.push_back(std::make_unique<ContextObject>(static_cast<int>(device), true));
  }
}

int Driver::version() const noexcept {
  const uint32_t asked = machine.options().version;
  return asked != 0 ? static_cast<int>(asked) : newest_version;
}

bool Driver::can_reach(abi::Device device, abi::Device peer) const noexcept {
  const sim::Options &options = machine.options();
  return device != peer && options.peer && options.links != sim::Topology::none;
}

// ---- contexts ----

Result Driver::activate(ContextObject &context) {
  const sim::Answer trouble = machine.trouble(static_cast<uint32_t>(context.device));
  if (trouble == sim::Answer::lost) return result::device_unavailable;
  context.alive = true;
  return result::success;
}

Result Driver::retain(abi::Device device, abi::Context *context) {
  const std::lock_guard hold(mutex_);
  ContextObject &mine = primary(device);
  if (mine.holds == 0) WEIR_SIM_TRY(activate(mine));
  ++mine.holds;
  census.add(sim::Kind::context);
  *context = &mine;
  return result::success;
}

Result Driver::release(abi::Device device) {
  const std::lock_guard hold(mutex_);
  ContextObject &mine = primary(device);
  if (mine.holds == 0) {
    return WEIR_SIM_MISUSE(*this, result::invalid_context,
                           "releasing the primary context of device %d, which nobody holds",
                           device);
  }
  census.remove(sim::Kind::context);
  if (--mine.holds == 0) end_context(mine);
  return result::success;
}

Result Driver::reset(abi::Device device) {
  const std::lock_guard hold(mutex_);
  ContextObject &mine = primary(device);
  if (mine.holds == 0) return result::success;
  end_context(mine);
  return activate(mine);
}

ContextObject *Driver::make_context(abi::Device device) {
  const std::lock_guard hold(mutex_);
  auto made = std::make_unique<ContextObject>(device, false);
  if (activate(*made) != result::success) return nullptr;
  others_.push_back(std::move(made));
  census.add(sim::Kind::context);
  return others_.back().get();
}

void Driver::end_context(ContextObject &context) {
  context.alive = false;
  const uint32_t device = static_cast<uint32_t>(context.device);
  (void)machine.drain(device);
  size_t left = 0;
  for (const StreamPointer &stream : streams.all()) {
    if (stream->context != &context) continue;
    forget_captures(*stream);
    left += streams.remove(stream.get()) != nullptr;
  }
  for (const auto &event : events.all()) {
    if (event->context == &context) left += events.remove(event.get()) != nullptr;
  }
  const std::lock_guard hold(context.mutex);
  for (const uint64_t address : context.plain) {
    left += machine.plain_free(address) == sim::Answer::ok;
  }
  if (left != 0) {
    (void)census.misuse("a context of device %u ended with %zu streams, events or allocations",
                        device, left);
  }
  context.plain.clear();
  context.blocking.clear();
  context.per_thread.clear();
  context.legacy.reset();
  for (ContextObject *peer : context.peers) {
    machine.disable_peer(device, static_cast<uint32_t>(peer->device));
  }
  context.peers.clear();
  machine.heal(device);
}

void Driver::forget_allocation(uint64_t address) {
  const std::lock_guard hold(mutex_);
  for (const auto *contexts : {&primaries_, &others_}) {
    for (const auto &each : *contexts) {
      const std::lock_guard inner(each->mutex);
      each->plain.erase(address);
    }
  }
}

ContextObject *Driver::known(const void *context) {
  const std::lock_guard hold(mutex_);
  for (const auto &each : primaries_) {
    if (each.get() == context) return each.get();
  }
  for (const auto &each : others_) {
    if (each.get() == context) return each.get();
  }
  return nullptr;
}

Result Driver::current(ContextObject **context) {
  const Thread &thread = this_thread(*this);
  if (thread.stack.empty() || thread.stack.back() == nullptr) {
    return WEIR_SIM_MISUSE(*this, result::invalid_context, "a call without a current context");
  }
  if (!thread.stack.back()->alive) {
    return WEIR_SIM_MISUSE(*this, result::context_is_destroyed,
                           "a call in a context of device %d that has ended",
                           thread.stack.back()->device);
  }
  *context = thread.stack.back();
  return result::success;
}

Result Driver::code_on(abi::Device device, sim::Answer answer) const noexcept {
  if (answer != sim::Answer::illegal_address) return code_of(answer);
  const int64_t code = machine.broken_with(static_cast<uint32_t>(device));
  return code != 0 ? static_cast<Result>(code) : result::illegal_address;
}

Result Driver::health(abi::Device device) const noexcept {
  return code_on(device, machine.trouble(static_cast<uint32_t>(device)));
}

void Driver::drain_all() {
  for (uint32_t device = 0; device < machine.devices(); ++device) (void)machine.drain(device);
}

// ---- streams ----

Result Driver::make_stream(ContextObject &context, bool non_blocking, bool counted,
                           StreamPointer *stream) {
  auto made = std::make_shared<StreamObject>();
  made->queue = machine.make_stream(static_cast<uint32_t>(context.device));
  if (made->queue == nullptr) return result::out_of_memory;
  made->context = &context;
  made->non_blocking = non_blocking;
  if (counted) made->token = std::make_unique<sim::Token>(census, sim::Kind::stream);
  *stream = std::move(made);
  return result::success;
}

Result Driver::stream_of(abi::Stream handle, StreamPointer *stream) {
  const bool per_thread = handle == abi::stream_per_thread();
  if (handle != nullptr && handle != abi::stream_legacy() && !per_thread) {
    *stream = streams.find(handle);
    if (*stream == nullptr) {
      return WEIR_SIM_MISUSE(*this, result::invalid_handle, "%p is no stream",
                             static_cast<const void *>(handle));
    }
    return health(*(*stream)->context);
  }
  ContextObject *context = nullptr;
  WEIR_SIM_TRY(current(&context));
  WEIR_SIM_TRY(health(*context));
  const std::lock_guard hold(context->mutex);
  StreamPointer &kept =
      per_thread ? context->per_thread[std::this_thread::get_id()] : context->legacy;
  if (kept == nullptr) {
    WEIR_SIM_TRY(make_stream(*context, false, false, &kept));
    kept->is_legacy = !per_thread;
    if (per_thread) context->blocking.insert(kept.get());
  }
  *stream = kept;
  return result::success;
}

void Driver::order(StreamObject &stream) {
  wait_for_room(stream);
  if (stream.non_blocking) return;
  ContextObject &context = *stream.context;
  const std::lock_guard hold(context.mutex);
  if (stream.is_legacy) {
    for (const StreamObject *other : context.blocking) stream.queue->wait(other->queue->record());
  } else if (context.legacy != nullptr) {
    stream.queue->wait(context.legacy->queue->record());
  }
}

}  // namespace weir::sim_cuda

namespace weir::sim {

std::unique_ptr<Attachment> make_attachment(Machine &machine) {
  return std::make_unique<sim_cuda::Driver>(machine);
}

}  // namespace weir::sim
