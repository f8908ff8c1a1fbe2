// SPDX-License-Identifier: Apache-2.0
//
// Finding the devices. Every way in which a machine can be without Vulkan ends here, with a sentence.

#include "backends/vulkan/platform.hpp"

#include "backends/common/signals.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace weir::vulkan {
namespace {

std::string version_words(uint32_t version, bool patch) {
  std::string text = std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
                     std::to_string(VK_API_VERSION_MINOR(version));
  return patch ? text + "." + std::to_string(VK_API_VERSION_PATCH(version)) : text;
}

/// Printable, and ending within its field.
template <size_t size>
void give_text(const std::string &text, char (&field)[size]) {
  std::snprintf(field, size, "%s", text.c_str());
  for (char *at = field; *at != '\0'; ++at) {
    if (static_cast<unsigned char>(*at) < 0x20 || static_cast<unsigned char>(*at) > 0x7e) *at = '?';
  }
}

}  // namespace

Platform::~Platform() {
  devices_.clear();
  // The program's own is not kept here.
  if (instance_ != VK_NULL_HANDLE) api_.DestroyInstance(instance_, nullptr);
}

void Platform::remark(const std::string &device, const std::string &why) {
  remarks_.push_back("device \"" + device + "\" is left out: " + why);
}

weir_result Platform::make_instance(std::string *why) {
  uint32_t version = 0;
  VkResult result = loader_.EnumerateInstanceVersion(&version);
  if (result != VK_SUCCESS || version < VK_API_VERSION_1_2) {
    *why = loader_.library.name() + " knows Vulkan " + version_words(version, false) +
           ", 1.2 is needed";
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "%s", why->c_str());
  }
  VkApplicationInfo program{};
  program.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  program.pEngineName = "weir";
  program.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &program;
  result = loader_.CreateInstance(&info, nullptr, &instance_);
  if (result != VK_SUCCESS) {
    instance_ = VK_NULL_HANDLE;
    *why = std::string("vkCreateInstance failed with ") + name_of(result);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
      *why += ": the Vulkan loader found no driver (drivers' manifests lie in vulkan/icd.d)";
    return runtime_refusal(result, "vkCreateInstance");
  }
  version_text_ = "Vulkan " + version_words(version, true);
  const char *missing = nullptr;
  if (api_.find(loader_.get, instance_, &missing)) return WEIR_SUCCESS;
  *why = loader_.library.name() + " has no " + missing;
  if (api_.DestroyInstance != nullptr) api_.DestroyInstance(instance_, nullptr);
  instance_ = VK_NULL_HANDLE;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "%s", why->c_str());
}

/// Devices on the CPU only where there is no other, or they were asked for.
std::vector<Facts> Platform::usable(std::string *why) {
  uint32_t count = 0;
  VkResult result = api_.EnumeratePhysicalDevices(instance_, &count, nullptr);
  std::vector<VkPhysicalDevice> handles(result == VK_SUCCESS ? count : 0);
  if (!handles.empty()) {
    result = api_.EnumeratePhysicalDevices(instance_, &count, handles.data());
    handles.resize(result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0);
  }
  std::vector<Facts> fit;
  for (const VkPhysicalDevice handle : handles) {
    Facts facts = read_facts(api_, handle);
    const std::string reason = unfit(facts);
    if (reason.empty()) {
      fit.push_back(std::move(facts));
    } else {
      remark(facts.name, reason);
    }
  }
  const bool others =
      std::any_of(fit.begin(), fit.end(), [](const Facts &each) { return !each.on_cpu(); });
  if (others && !options_.cpu) {
    for (const Facts &facts : fit)
      if (facts.on_cpu())
        remark(facts.name, "it runs on the CPU, and there is a GPU (vulkan.cpu=1 takes it)");
    fit.erase(
        std::remove_if(fit.begin(), fit.end(), [](const Facts &each) { return each.on_cpu(); }),
        fit.end());
  }
  if (!fit.empty()) return fit;
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
    *why = std::string("vkEnumeratePhysicalDevices failed with ") + name_of(result);
  } else if (handles.empty()) {
    *why = "Vulkan has no device on this machine";
  }
  for (const std::string &each : remarks_) *why += (why->empty() ? "" : "; ") + each;
  return fit;
}

weir_result Platform::find_devices(std::string *why) {
  std::vector<Facts> fit = usable(why);
  if (fit.empty()) return refuse(WEIR_ERROR_NOT_SUPPORTED, "%s", why->c_str());
  // Host memory must be every device's, and each is a VkDevice of its own: those that can't import it are left out.
  if (fit.size() > 1) {
    const auto last = std::remove_if(fit.begin(), fit.end(), [&](const Facts &facts) {
      if (facts.host_import) return false;
      remark(facts.name, "there are several devices, and it has not VK_EXT_external_memory_host");
      return true;
    });
    if (last != fit.begin())
      fit.erase(last, fit.end());
    else
      fit.resize(1);
  }
  // Two drivers of one card tell one UUID, and a UUID tells devices apart.
  for (size_t i = 1; i < fit.size(); ++i) {
    const bool known =
        std::any_of(fit.begin(), fit.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Facts &earlier) { return earlier.uuid == fit[i].uuid; });
    if (known) fit[i].uuid = {};
  }
  weir_result first = WEIR_SUCCESS;
  for (const Facts &facts : fit) {
    auto device =
        std::make_unique<Device>(api_, facts, options_, static_cast<uint32_t>(devices_.size()));
    std::string reason;
    const weir_result result = device->start(&reason);
    if (result == WEIR_SUCCESS) {
      version_text_ += "; " + facts.driver + (facts.on_cpu() ? ", on the CPU" : "");
      devices_.push_back(std::move(device));
      continue;
    }
    if (first == WEIR_SUCCESS) first = result;
    remark(facts.name, reason);
    *why += (why->empty() ? "" : "; ") + reason;
  }
  return devices_.empty() ? first : WEIR_SUCCESS;
}

weir_result Platform::start(const Options &options, std::string *why) {
  options_ = options;
  // Of the threads that drivers make with an instance and a device.
  const common::SignalsBlocked blocked;
  if (!loader_.open(options_.library, why))
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "%s", why->c_str());
  WEIR_BACKEND_TRY(make_instance(why));
  return find_devices(why);
}

weir_result Platform::check_device(uint32_t device) const noexcept {
  if (device < devices_.size()) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "device %u of %zu", device, devices_.size());
}

void describe(const Device &device, weir_be_device *full) {
  const Facts &facts = device.facts();
  full->numa_node = UINT32_MAX;
  full->capabilities = device.capabilities();
  full->memory_total = device.memory();
  full->granule = device.granule();
  full->granule_large = device.granule_large();
  // An aligned reservation may need up to its alignment more than its size.
  if (device.granule() != 0) full->address_space = facts.sparse_space / 2;
  give_text(facts.name, full->name);
  give_text(facts.pci_address, full->pci_address);
  std::copy(facts.uuid.begin(), facts.uuid.end(), full->uuid);
}

/// Each device is a VkDevice alone: there is no path between two of them but through the host.
void describe_link(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link) {
  link->direct = 1;
  if (from == to) {
    link->kind = WEIR_LINK_SAME;
    return;
  }
  if (from == WEIR_DEVICE_HOST || to == WEIR_DEVICE_HOST) {
    const Device &device = platform.device(from == WEIR_DEVICE_HOST ? to : from);
    link->kind = device.integrated() ? WEIR_LINK_MEMORY : WEIR_LINK_PCIE;
    link->hops = 1;
    return;
  }
  link->kind = WEIR_LINK_NONE;
  link->direct = 0;
}

}  // namespace weir::vulkan
