// SPDX-License-Identifier: Apache-2.0
//
// The driver's beginning and end with its machine, and what all its functions ask.
#include "tests/drivers/level_zero/driver.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/drivers/level_zero/command_list.hpp"
#include "tests/drivers/level_zero/control.h"

namespace weir::sim {

std::unique_ptr<Attachment> make_attachment(Machine &machine) {
  ze::DriverOptions options;
  const std::string wrong = ze::parse_options(std::getenv("WEIR_SIM_ZE"), &options);
  if (!wrong.empty()) {
    // No test may run on a driver it did not ask for.
    std::fprintf(stderr, "simulated Level Zero driver: WEIR_SIM_ZE: %s\n", wrong.c_str());
    std::_Exit(2);
  }
  return std::make_unique<ze::Driver>(machine, options);
}

}  // namespace weir::sim

namespace weir::sim::ze {
namespace {

/// The links' ends, numbered device by device in the order of their peers.
void make_ports(const Options &options, std::vector<std::unique_ptr<Device>> &devices) {
  std::vector<uint8_t> used(devices.size(), 0);
  for (uint32_t a = 0; a < devices.size(); ++a) {
    for (uint32_t b = 0; b < a; ++b) {
      if (!linked(options, a, b)) continue;
      FabricPort port;
      port.device = a;
      port.peer = b;
      port.number = ++used[a];
      port.remote_number = ++used[b];
      devices[a]->ports.push_back(port);
      std::swap(port.device, port.peer);
      std::swap(port.number, port.remote_number);
      devices[b]->ports.push_back(port);
    }
  }
}

}  // namespace

bool Driver::initialised = false;

bool Driver::wants_sysman() noexcept {
  const char *sysman = std::getenv("ZES_ENABLE_SYSMAN");
  return sysman != nullptr && std::strcmp(sysman, "1") == 0;
}

Driver::Driver(Machine &on, const DriverOptions &with)
    : machine(on), options(with), sysman(wants_sysman()) {
  for (uint32_t i = 0; i < machine.devices(); ++i) {
    auto device = std::make_unique<Device>();
    device->index = device->module.device = i;
    devices.push_back(std::move(device));
  }
  make_ports(machine.options(), devices);
  // The API has no switch for it: devices that can reach each other do.
  for (uint32_t a = 0; a < machine.devices(); ++a) {
    for (uint32_t b = 0; b < machine.devices(); ++b) {
      if (a != b && can_access(a, b)) machine.enable_peer(a, b);
    }
  }
}

Driver::~Driver() {
  for (const auto &list : lists.all()) list->stop();
}

Driver *Driver::current() noexcept {
  Machine *machine = Machine::forked() ? nullptr : Machine::current();
  return machine != nullptr ? static_cast<Driver *>(&machine->attachment()) : nullptr;
}

uint32_t Driver::version() const noexcept {
  const uint32_t asked = machine.options().version;
  return asked == 0 ? ZE_MAKE_VERSION(1, 4) : ZE_MAKE_VERSION(asked / 1000, asked % 1000);
}

bool Driver::can_access(uint32_t device, uint32_t peer) const noexcept {
  const Options &given = machine.options();
  return device == peer || (given.peer && given.links != Topology::none);
}

DeviceSet Driver::accessors(uint32_t device) const noexcept {
  DeviceSet set = 0;
  for (uint32_t i = 0; i < machine.devices(); ++i) {
    if (can_access(i, device)) set |= device_bit(i);
  }
  return set;
}

uint64_t Driver::page_size(uint64_t bytes) const noexcept {
  constexpr uint64_t large = uint64_t{2} << 20;
  const uint64_t granule = machine.options().granule;
  return bytes < large ? granule : std::max(granule, options.large_page);
}

uint64_t Driver::max_alloc() const noexcept {
  const uint64_t memory = machine.options().memory;
  return options.max_alloc != 0 && options.max_alloc < memory ? options.max_alloc : memory;
}

ze_result_t Driver::misuse(ze_result_t result, const char *format, ...) noexcept {
  char text[256];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  machine.census().misuse("%s", text);
  return result;
}

ze_result_t Driver::null_pointer(const char *call, const char *name) noexcept {
  return misuse(ZE_RESULT_ERROR_INVALID_NULL_POINTER, "%s: %s is NULL", call, name);
}

ze_result_t Driver::bad_handle(const char *call, const char *kind, const void *bad) noexcept {
  return misuse(
      bad == nullptr ? ZE_RESULT_ERROR_INVALID_NULL_HANDLE : ZE_RESULT_ERROR_INVALID_ARGUMENT,
      "%s: %p is no %s", call, bad, kind);
}

ze_result_t Driver::result_of(Answer answer) noexcept {
  switch (answer) {
    case Answer::ok:
      return ZE_RESULT_SUCCESS;
    case Answer::not_ready:
    case Answer::timeout:
      return ZE_RESULT_NOT_READY;
    case Answer::invalid:
    case Answer::registered_already:
    case Answer::not_registered:
      return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    case Answer::out_of_memory:
    case Answer::no_addresses:
      return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    case Answer::out_of_host_memory:
    case Answer::system:
      return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    case Answer::illegal_address:
    case Answer::lost:
      return ZE_RESULT_ERROR_DEVICE_LOST;
  }
  return ZE_RESULT_ERROR_UNKNOWN;
}

ze_result_t Driver::state_of(uint32_t index) const noexcept {
  return result_of(machine.trouble(index));
}

Device *Driver::device(const void *bad_or_good) const noexcept {
  for (const auto &each : devices) {
    if (static_cast<const Object *>(each.get()) == bad_or_good) return each.get();
  }
  return nullptr;
}

}  // namespace weir::sim::ze

extern "C" __attribute__((visibility("default"))) uint64_t weir_sim_level_zero_unregistered(void) {
  weir::sim::ze::Driver *driver = weir::sim::ze::Driver::current();
  if (driver == nullptr) return 0;
  const std::lock_guard lock(driver->mutex);
  return driver->unregistered;
}

extern "C" __attribute__((visibility("default"))) uint64_t weir_sim_level_zero_busy_lists(void) {
  weir::sim::ze::Driver *driver = weir::sim::ze::Driver::current();
  if (driver == nullptr) return 0;
  const std::lock_guard lock(driver->mutex);
  return static_cast<uint64_t>(std::count_if(driver->running.begin(), driver->running.end(),
                                             [](const auto *list) { return !list->idle(); }));
}

extern "C" __attribute__((visibility("default"))) uint64_t weir_sim_level_zero_copy_lists(void) {
  weir::sim::ze::Driver *driver = weir::sim::ze::Driver::current();
  if (driver == nullptr) return 0;
  const std::lock_guard lock(driver->mutex);
  return static_cast<uint64_t>(
      std::count_if(driver->running.begin(), driver->running.end(),
                    [](const auto *list) { return list->traits.copies_only; }));
}
