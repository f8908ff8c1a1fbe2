// SPDX-License-Identifier: Apache-2.0
//
// The process's one machine, and the functions of control.h. Machine::current() lives here so that every driver,
// which must call it, brings these functions into its library.

#pragma GCC visibility push(default)
#include "tests/drivers/sim/control.h"
#pragma GCC visibility pop

#include "tests/drivers/sim/machine.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

namespace weir::sim {
namespace {

std::atomic<Machine *> running{nullptr};
std::atomic<bool> in_child{false};

struct Owner {
  std::mutex mutex;
  std::unique_ptr<Machine> machine;  // guarded by mutex, as all below
  bool ended = false;
  std::string complaint;
};

/// Never ended itself: calls may come while the process ends.
Owner &owner() {
  static Owner *const one = new Owner;
  return *one;
}

/// Ends the machine with the process, so that its workers are joined. A child made by fork() has no workers.
struct Ender {
  Ender() {
    (void)pthread_atfork(nullptr, nullptr, [] { in_child = true; });
  }
  ~Ender() {
    if (in_child) return;
    Owner &all = owner();
    const std::lock_guard hold(all.mutex);
    running = nullptr;
    all.ended = true;
    all.machine.reset();
  }
};
const Ender ender;

/// A machine that works, or why there is none. The caller holds the mutex.
std::unique_ptr<Machine> make(const char *text, std::string *complaint) {
  Options options;
  *complaint = parse_options(text != nullptr ? text : std::getenv("WEIR_SIM"), &options);
  if (!complaint->empty()) return nullptr;
  auto machine = std::make_unique<Machine>(options);
  *complaint = machine->open();
  if (!complaint->empty()) return nullptr;
  restart_calls(options);
  return machine;
}

}  // namespace

bool Machine::forked() noexcept { return in_child.load(std::memory_order_relaxed); }

Machine *Machine::current() {
  if (Machine *machine = running.load(std::memory_order_acquire)) return machine;
  Owner &all = owner();
  const std::lock_guard hold(all.mutex);
  if (all.machine == nullptr && !all.ended) {
    all.machine = make(nullptr, &all.complaint);
    if (all.machine == nullptr) {
      std::fprintf(stderr, "simulated driver: WEIR_SIM: %s\n", all.complaint.c_str());
      std::_Exit(2);
    }
    running.store(all.machine.get(), std::memory_order_release);
  }
  return all.machine.get();
}

}  // namespace weir::sim

using weir::sim::Machine;

extern "C" {

int weir_sim_configure(const char *options) {
  auto &all = weir::sim::owner();
  const std::lock_guard hold(all.mutex);
  try {
    std::unique_ptr<Machine> machine = weir::sim::make(options, &all.complaint);
    if (machine == nullptr) return -1;
    weir::sim::running.store(machine.get(), std::memory_order_release);
    all.machine.swap(machine);
    return 0;
  } catch (const std::exception &error) {
    all.complaint = error.what();
    return -1;
  }
}

const char *weir_sim_complaint(void) { return weir::sim::owner().complaint.c_str(); }

void weir_sim_fail(const char *call, uint64_t nth, int64_t code) {
  if (Machine::current() != nullptr) weir::sim::fail_call(call, nth, code);
}

void weir_sim_sticky(void) {
  Machine *machine = Machine::current();
  if (machine != nullptr) machine->stick();
}

uint64_t weir_sim_calls(const char *call) { return weir::sim::count_calls(call); }

const char *weir_sim_call_name(uint64_t index) { return weir::sim::name_call(index); }

uint64_t weir_sim_misuse(const char **text) {
  Machine *machine = Machine::current();
  if (machine != nullptr) return machine->census().misuses(text);
  if (text != nullptr) *text = "";
  return 0;
}

void weir_sim_lose_device(uint32_t device) {
  Machine *machine = Machine::current();
  if (machine != nullptr && device < machine->devices()) machine->lose(device);
}

uint64_t weir_sim_alive(const char **text) {
  Machine *machine = Machine::current();
  if (machine != nullptr) return machine->census().alive(text);
  if (text != nullptr) *text = "";
  return 0;
}

void weir_sim_resume(void) { weir::sim::resume_calls(); }

}  // extern "C"
