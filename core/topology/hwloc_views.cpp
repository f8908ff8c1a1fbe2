// SPDX-License-Identifier: Apache-2.0
//
// Runtimes are told by the names of their devices, as older files have no subtypes. OpenCL counts by platform, and one card
// may be in several: "opencl0d0" and "opencl1d0" are two views. Level Zero likewise by driver; it has the parts of a card
// within the card ("ze0.0", "ze0.1"), or each by itself where it is told to be flat. NVML always counts cards, not slices.

#include "core/topology/hwloc_views.hpp"

#include <algorithm>
#include <utility>

namespace weir::topology {
namespace {

std::string_view platform_of(Runtime runtime, hwloc_obj_t object) {
  if (runtime == Runtime::level_zero) return info_of(object, "LevelZeroDriverIndex");
  if (runtime != Runtime::opencl) return {};
  const std::string_view name = text_of(object->name);
  return name.substr(0, name.rfind('d'));
}

}  // namespace

std::vector<hwloc_obj_t> listed(hwloc_obj_t first) {
  std::vector<hwloc_obj_t> all;
  for (; first != nullptr; first = first->next_sibling) all.push_back(first);
  return all;
}

std::string_view info_of(hwloc_obj_t object, const char *name) {
  return text_of(hwloc_obj_get_info_by_name(object, name));
}

Runtime runtime_of(hwloc_obj_t object) {
  if (object->type != HWLOC_OBJ_OS_DEVICE) return Runtime::other;
  const uint32_t kind = number_of(object->attr->osdev.type);
  if (kind != HWLOC_OBJ_OSDEV_GPU && kind != HWLOC_OBJ_OSDEV_COPROC) return Runtime::other;
  static constexpr std::pair<std::string_view, Runtime> names[] = {
      {"cuda", Runtime::cuda}, {"nvml", Runtime::nvml},     {"rsmi", Runtime::rsmi},
      {"hip", Runtime::hip},   {"ze", Runtime::level_zero}, {"opencl", Runtime::opencl}};
  const std::string_view name = text_of(object->name), type = info_of(object, "OpenCLDeviceType");
  for (const auto &[prefix, runtime] : names) {
    if (!name.starts_with(prefix) || name.find_first_of("0123456789") != prefix.size()) continue;
    const bool other = runtime == Runtime::opencl && !type.empty() && type != "GPU";
    return other ? Runtime::other : runtime;
  }
  return Runtime::other;
}

std::vector<hwloc_obj_t> parts_within(hwloc_obj_t object, Runtime runtime) {
  std::vector<hwloc_obj_t> parts = listed(object->io_first_child);
  std::erase_if(parts, [&](hwloc_obj_t part) { return runtime_of(part) != runtime; });
  return parts;
}

Views::Views(hwloc_obj_t function, const std::vector<hwloc_obj_t> &beside) {
  if (runtime_of(function) != Runtime::other) take(function);
  if (function->type == HWLOC_OBJ_PCI_DEVICE)
    for (hwloc_obj_t child : listed(function->io_first_child)) take(child);
  for (hwloc_obj_t each : beside) take(each);
  for (View &view : views_) {
    if (view.parts.size() == 1) {
      view.whole = view.parts.front();
      view.parts = parts_within(view.whole, view.runtime);
    }
    if (view.parts.size() > part_count() || (tells_parts(view) && view.runtime > teller_->runtime))
      teller_ = &view;
  }
}

void Views::take(hwloc_obj_t object) {
  const Runtime runtime = runtime_of(object);
  if (runtime == Runtime::other) return;
  const std::string_view platform = platform_of(runtime, object);
  auto view = std::find_if(views_.begin(), views_.end(), [&](const View &each) {
    return each.runtime == runtime && each.platform == platform;
  });
  if (view == views_.end()) view = views_.insert(view, {runtime, platform, nullptr, {}});
  view->parts.push_back(object);
}

}  // namespace weir::topology
