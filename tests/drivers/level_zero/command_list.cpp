// SPDX-License-Identifier: Apache-2.0
//
// The workers of command lists: which command is next, what it does, and what its end means to others.
#include "tests/drivers/level_zero/command_list.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace weir::sim::ze {
namespace {

/// How often those who wait look whether a device was lost meanwhile, which nobody tells them.
constexpr uint64_t look_every_ns = 5'000'000;

bool all_signalled(const Command &command) noexcept {
  return std::all_of(command.waits.begin(), command.waits.end(),
                     [](const auto &event) { return event->signalled; });
}

bool touch(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) noexcept {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

bool Command::uses(uint64_t address, uint64_t size) const noexcept {
  if (kind != Kind::copy && kind != Kind::fill) return false;
  return touch(destination, bytes, address, size) ||
         (kind == Kind::copy && touch(source, bytes, address, size));
}

void Driver::tell_progress() noexcept {
  progress.notify_all();
  for (CommandList *list : running) list->wake();
}

void Driver::demand(Event &event) noexcept {
  event.demanded = true;
  for (const auto &[list, command] : event.signallers) list->release(*command);
}

bool Driver::find_stuck() noexcept {
  const auto failed = [&](const auto &each) { return machine.trouble(each->index) != Answer::ok; };
  if (std::none_of(devices.begin(), devices.end(), failed)) return false;
  for (CommandList *list : running) {
    list->stuck = machine.trouble(list->traits.device) != Answer::ok;
  }
  // What waits for a stuck list is stuck too, until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (CommandList *list : running) {
      if (list->stuck || !list->waits_for_stuck()) continue;
      list->stuck = changed = true;
    }
  }
  return true;
}

bool Driver::hopeless(const Event &event) noexcept {
  if (event.signalled || !find_stuck()) return false;
  if (event.abandoned) return true;
  const auto by_stuck = [](const auto &signaller) { return signaller.first->stuck; };
  if (!event.signallers.empty()) {
    return std::any_of(event.signallers.begin(), event.signallers.end(), by_stuck);
  }
  // Nobody is about to signal it. As long as one device of its pool lives, somebody may.
  return std::none_of(devices.begin(), devices.end(), [&](const auto &each) {
    return (event.pool->devices & device_bit(each->index)) != 0 &&
           machine.trouble(each->index) == Answer::ok;
  });
}

bool Driver::in_use(uint64_t address, uint64_t bytes) const noexcept {
  return std::any_of(running.begin(), running.end(),
                     [&](const CommandList *list) { return list->uses(address, bytes); });
}

CommandList::CommandList(Driver &driver, std::shared_ptr<Context> context, const Traits &with)
    : traits(with),
      driver_(driver),
      token_(driver.machine.census(), Kind::stream),
      context_(std::in_place, std::move(context)) {}

void CommandList::start() {
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  driver_.running.reserve(driver_.running.size() + 1);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([this] { serve(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  driver_.running.push_back(this);
}

void CommandList::stop() noexcept {
  {
    const std::lock_guard lock(driver_.mutex);
    stopping_ = true;
    work_.notify_one();
  }
  if (worker_.joinable()) worker_.join();
  const std::lock_guard lock(driver_.mutex);
  for (const Command &command : pending_) {
    if (command.signal != nullptr) command.signal->abandoned = true;
  }
  while (!pending_.empty()) forget(pending_.begin());
  std::erase(driver_.running, this);
  context_.reset();
}

ze_result_t CommandList::append(Command command, std::unique_lock<std::mutex> &lock) {
  using Kind = Command::Kind;
  // Room first: nothing below throws after the list has the command.
  for (const auto &event : command.waits) {
    event->waits.reserve(event->waits.size() + command.waits.size());
  }
  if (command.signal != nullptr) {
    command.signal->signallers.reserve(command.signal->signallers.size() + 1);
  }
  const uint64_t number = driver_.last_command + 1;
  command.number = number;
  command.due_ns = host::now_ns() + driver_.options.hold_ns;
  command.released = traits.in_order || traits.synchronous || command.kind == Kind::barrier ||
                     command.kind == Kind::wait || driver_.options.hold_ns == 0 ||
                     (command.signal != nullptr && command.signal->demanded);
  pending_.push_back(std::move(command));
  driver_.last_command = number;

  Command &added = pending_.back();
  for (const auto &event : added.waits) {
    event->waits.push_back(number);
    if (!event->signalled) driver_.demand(*event);
  }
  if (added.signal != nullptr) added.signal->signallers.emplace_back(this, &added);
  if (added.reset != nullptr) ++added.reset->resets;
  if (added.kind == Kind::barrier && added.waits.empty()) {
    for (Command &before : pending_) before.released = true;
  }
  work_.notify_one();
  if (!traits.synchronous) return ZE_RESULT_SUCCESS;

  const auto ended = [&] {
    return std::none_of(pending_.begin(), pending_.end(),
                        [&](const Command &each) { return each.number == number; });
  };
  while (!ended()) {
    if (driver_.find_stuck() && stuck) return ZE_RESULT_ERROR_DEVICE_LOST;
    driver_.progress.wait_for(lock, std::chrono::nanoseconds(look_every_ns));
  }
  return ZE_RESULT_SUCCESS;
}

bool CommandList::uses(uint64_t address, uint64_t bytes) const noexcept {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const Command &each) { return each.uses(address, bytes); });
}

bool CommandList::waits_for_stuck() const noexcept {
  const auto by_stuck = [](const auto &signaller) { return signaller.first->stuck; };
  for (const Command &command : pending_) {
    for (const auto &event : command.waits) {
      if (event->signalled) continue;
      if (event->abandoned) return true;
      if (std::any_of(event->signallers.begin(), event->signallers.end(), by_stuck)) return true;
    }
  }
  return false;
}

void CommandList::release(Command &command) noexcept {
  if (command.released) return;
  command.released = true;
  work_.notify_one();
}

CommandList::Pending::iterator CommandList::choose(uint64_t now_ns, uint64_t *look_ns) noexcept {
  using Kind = Command::Kind;
  if (driver_.machine.trouble(traits.device) != Answer::ok) return pending_.end();
  auto best = pending_.end();
  for (auto each = pending_.begin(); each != pending_.end(); ++each) {
    const bool first = each == pending_.begin();
    if (traits.in_order && !first) break;
    const bool barrier = each->kind == Kind::barrier;
    const bool ready = all_signalled(*each) && (!barrier || !each->waits.empty() || first);
    if (ready && (each->released || each->due_ns <= now_ns)) {
      best = each;
    } else if (ready) {
      *look_ns = std::min(*look_ns, each->due_ns);
    }
    if (barrier || each->kind == Kind::wait) break;
  }
  return best;
}

void CommandList::serve() noexcept {
  std::unique_lock lock(driver_.mutex);
  while (!stopping_) {
    const uint64_t now = host::now_ns();
    uint64_t look = now + look_every_ns;
    const auto next = choose(now, &look);
    if (next != pending_.end()) {
      lock.unlock();
      perform(*next);
      lock.lock();
      end(next);
    } else if (pending_.empty()) {
      work_.wait(lock);
    } else {
      work_.wait_for(lock, std::chrono::nanoseconds(look - now));
    }
  }
}

void CommandList::perform(const Command &command) noexcept {
  if (command.kind == Command::Kind::barrier && driver_.options.barrier_ns != 0)
    host::wait_until(host::now_ns() + driver_.options.barrier_ns);
  if (command.bytes == 0) return;
  try {
    transfer(command);
  } catch (...) {
    driver_.machine.break_device(traits.device, "no host memory to look up a command's addresses");
  }
}

void CommandList::import(uint64_t address, std::vector<Piece> *pieces) {
  const uint32_t card = driver_.card_of(traits.device);
  for (Piece &piece : *pieces) {
    const uint64_t at = std::exchange(address, address + piece.bytes);
    const bool foreign =
        piece.mapping != 0 && !piece.plain && driver_.card_of(piece.device) != card;
    if (!foreign || !driver_.options.stale_imports) continue;
    const Found found = driver_.machine.addresses().find(at);
    if (found.what == Found::What::mapped)
      driver_.imports.redirect(card, found.address, at - found.address, &piece);
  }
}

void CommandList::transfer(const Command &command) {
  Machine &machine = driver_.machine;
  const DeviceSet reach = machine.reach(traits.device);
  const bool copies = command.kind == Command::Kind::copy;
  std::vector<Piece> to, from;
  std::string why;
  Answer answer = machine.addresses().resolve(command.destination, command.bytes, traits.device,
                                              true, reach, &to, &why);
  if (answer == Answer::ok && copies) {
    answer = machine.addresses().resolve(command.source, command.bytes, traits.device, false, reach,
                                         &from, &why);
  }
  if (answer != Answer::ok) {
    machine.break_device(traits.device, why);
    return;
  }
  import(command.destination, &to);
  import(command.source, &from);
  if (!copies) {
    uint64_t at = 0;
    for (const Piece &piece : to) {
      if (command.pattern.size() == 1) {
        std::memset(piece.memory, static_cast<int>(command.pattern.front()), piece.bytes);
        continue;
      }
      for (uint64_t i = 0; i < piece.bytes; ++i, ++at) {
        piece.memory[i] = command.pattern[at % command.pattern.size()];
      }
    }
    return;
  }
  host::LinkMeter *link = machine.links().path(from.front().device, to.front().device);
  const uint64_t end = link != nullptr ? link->book(command.bytes, host::now_ns(), true) : 0;
  for (size_t i = 0, k = 0; i < to.size();) {
    const uint64_t bytes = std::min(to[i].bytes, from[k].bytes);
    std::memcpy(to[i].memory, from[k].memory, bytes);
    to[i].memory += bytes;
    from[k].memory += bytes;
    if ((to[i].bytes -= bytes) == 0) ++i;
    if ((from[k].bytes -= bytes) == 0) ++k;
  }
  if (link != nullptr) host::wait_until(end);
}

void CommandList::end(Pending::iterator command) noexcept {
  const std::shared_ptr<Event> signal = command->signal, reset = command->reset;
  const uint64_t number = command->number;
  if (driver_.machine.trouble(traits.device) != Answer::ok) return;  // it did not end well
  forget(command);
  if (reset != nullptr) {
    if (std::any_of(reset->waits.begin(), reset->waits.end(),
                    [&](uint64_t wait) { return wait < number; })) {
      driver_.misuse(ZE_RESULT_SUCCESS,
                     "zeCommandListAppendEventReset: event %u is reset while a command that was "
                     "appended before waits for it",
                     reset->index);
    }
    reset->signalled = reset->demanded = reset->abandoned = false;
  }
  if (signal != nullptr) {
    if (signal->signalled) {
      driver_.misuse(ZE_RESULT_SUCCESS, "event %u is signalled twice without a reset",
                     signal->index);
    }
    signal->signalled = true;
    signal->demanded = false;
  }
  driver_.tell_progress();
}

void CommandList::forget(Pending::iterator command) noexcept {
  for (const auto &event : command->waits) {
    const auto it = std::find(event->waits.begin(), event->waits.end(), command->number);
    if (it != event->waits.end()) event->waits.erase(it);
  }
  if (command->signal != nullptr) {
    std::erase_if(command->signal->signallers,
                  [&](const auto &each) { return each.second == &*command; });
  }
  if (command->reset != nullptr) --command->reset->resets;
  pending_.erase(command);
}

}  // namespace weir::sim::ze
