// SPDX-License-Identifier: Apache-2.0
//
// The register of requirements, and how a test gets ready.
#include "conformance/test.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace weir::conformance {
namespace {

struct Group {
  std::string_view prefix;
  const char *name;
};
/// In the order in which they run: a backend's first fault is then in the first group that can see it.
constexpr std::array<Group, 17> groups{{
    {"RT", "runtime"},
    {"DV", "devices"},
    {"CA", "capabilities"},
    {"PM", "physical memory"},
    {"AR", "address ranges"},
    {"VM", "mapping"},
    {"PL", "plain memory"},
    {"HM", "host memory"},
    {"ST", "streams"},
    {"FE", "fences"},
    {"CP", "copies"},
    {"PE", "peers"},
    {"EX", "export"},
    {"ER", "errors"},
    {"TH", "threads"},
    {"FA", "faults"},
    {"LI", "limits"},
}};

struct CapabilityName {
  uint64_t bit;
  const char *name;
};
constexpr std::array<CapabilityName, 20> capability_list{{
    {WEIR_CAP_VMM, "VMM"},
    {WEIR_CAP_MULTI_MAP, "MULTI_MAP"},
    {WEIR_CAP_MAP_MAY_BLOCK_DEVICE, "MAP_MAY_BLOCK_DEVICE"},
    {WEIR_CAP_STREAM_ANY_THREAD, "STREAM_ANY_THREAD"},
    {WEIR_CAP_PEER, "PEER"},
    {WEIR_CAP_EXPORT_FD, "EXPORT_FD"},
    {WEIR_CAP_BATCH_COPY, "BATCH_COPY"},
    {WEIR_CAP_KERNELS, "KERNELS"},
    {WEIR_CAP_HOST_CALL, "HOST_CALL"},
    {WEIR_CAP_HOST_ACCESS, "HOST_ACCESS"},
    {WEIR_CAP_MAP_ANY_THREAD, "MAP_ANY_THREAD"},
    {WEIR_CAP_HOST_REGISTER, "HOST_REGISTER"},
    {WEIR_CAP_EXPORT_FABRIC, "EXPORT_FABRIC"},
    {WEIR_CAP_MAP_PART, "MAP_PART"},
    {WEIR_CAP_INTEGRATED, "INTEGRATED"},
    {WEIR_CAP_SHARED_RANGE, "SHARED_RANGE"},
    {WEIR_CAP_MAP_RUN, "MAP_RUN"},
    {WEIR_CAP_ACCESS_LATER, "ACCESS_LATER"},
    {WEIR_CAP_TRANSFER_STREAM, "TRANSFER_STREAM"},
    {WEIR_CAP_NATIVE_MEMORY, "NATIVE_MEMORY"},
}};

size_t group_index(const char *id) {
  const std::string_view prefix = std::string_view(id).substr(0, 2);
  const auto *found = std::find_if(groups.begin(), groups.end(),
                                   [prefix](const Group &g) { return g.prefix == prefix; });
  return static_cast<size_t>(found - groups.begin());
}

// Filled before main() by the registrations, constant after it.
std::vector<Requirement> &registered() {
  static std::vector<Requirement> all;
  return all;
}
std::vector<Helper> &registered_helpers() {
  static std::vector<Helper> all;
  return all;
}

}  // namespace

Registration::Registration(const Requirement &requirement) { registered().push_back(requirement); }
HelperRegistration::HelperRegistration(const Helper &helper) {
  registered_helpers().push_back(helper);
}

const std::vector<Requirement> &requirements() {
  static const std::vector<Requirement> ordered = [] {
    std::vector<Requirement> all = registered();
    std::sort(all.begin(), all.end(), [](const Requirement &a, const Requirement &b) {
      const size_t left = group_index(a.id), right = group_index(b.id);
      return left != right ? left < right : std::strcmp(a.id, b.id) < 0;
    });
    return all;
  }();
  return ordered;
}

const Requirement *find_requirement(const std::string &id) {
  for (const Requirement &each : requirements()) {
    if (id == each.id) return &each;
  }
  return nullptr;
}

const Helper *find_helper(const std::string &name) {
  for (const Helper &each : registered_helpers()) {
    if (name == each.name) return &each;
  }
  return nullptr;
}

std::string group_of(const Requirement &requirement) {
  const size_t index = group_index(requirement.id);
  return index < groups.size() ? groups[index].name : "unknown group";
}

std::string capability_names(uint64_t capabilities) {
  std::string text;
  const auto add = [&text](const std::string &name) { text += (text.empty() ? "" : "+") + name; };
  for (const auto &[bit, name] : capability_list) {
    if ((capabilities & bit) != 0) add(name);
    capabilities &= ~bit;
  }
  if (capabilities != 0) add(number(capabilities));
  return text.empty() ? "none" : text;
}

std::string level_of(const Needs &needs) {
  std::string text;
  const auto add = [&text](const std::string &part) { text += (text.empty() ? "" : ", ") + part; };
  if (needs.with != 0) add(capability_names(needs.with));
  if (needs.without != 0) add("without " + capability_names(needs.without));
  if (needs.devices > 1) add(std::to_string(needs.devices) + " devices");
  if (needs.advised) add("advised");
  return text.empty() ? "required" : text;
}

Outcome Test::describe(uint32_t index, weir_be_device *description) {
  *description = weir_be_device{};
  description->struct_size = sizeof *description;
  Test &t = *this;
  MUST(device_describe, index, description);
  return {};
}

Outcome Test::prepare() {
  Test &t = *this;
  TRY(start(library, settings.options));
  MUST(device_count, &device_count);
  CHECK(settings.device < device_count, "there is no device ", settings.device, ", only ",
        device_count, " of them");
  device = settings.device;
  if (device_count > 1) other = (device + 1) % device_count;
  TRY(describe(device, &about));
  if (has(WEIR_CAP_VMM)) {
    granule = about.granule;
    CHECK(granule != 0, "VMM, and a granule of 0 bytes");
  }
  budget = std::min(about.memory_total / 4, 256 * mib);
  slack = std::min(about.memory_total / 64, 32 * mib);
  return {};
}

}  // namespace weir::conformance
