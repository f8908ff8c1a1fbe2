// SPDX-License-Identifier: Apache-2.0
//
// The shim's state.

#include "tests/drivers/vulkan_shim/shim.hpp"

#include "tests/drivers/sim/stuck.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weir::vulkan_shim {
namespace {

constexpr const char *const call_names[] = {
#define WEIR_SHIM_NAME(name) "vk" #name,
    WEIR_SHIM_CALLS(WEIR_SHIM_NAME)
#undef WEIR_SHIM_NAME
};
constexpr const char *const kind_names[] = {"instances", "devices",    "buffers",
                                            "memory",    "semaphores", "pools"};

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "vulkan shim: %s\n", why.c_str());
  std::abort();
}

template <class Number>
bool read_number(std::string_view text, Number *out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_size(std::string_view text, int64_t *out) {
  unsigned shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift != 0) text.remove_suffix(1);
  if (!read_number(text, out) || *out < 0) return false;
  *out <<= shift;
  return true;
}

bool read_version(std::string_view text, int64_t *out) {
  const size_t dot = text.find('.');
  uint32_t major = 0, minor = 0;
  if (dot == text.npos || !read_number(text.substr(0, dot), &major) ||
      !read_number(text.substr(dot + 1), &minor))
    return false;
  *out = VK_MAKE_API_VERSION(0, major, minor, 0);
  return true;
}

struct Key {
  std::string_view name;
  int64_t Pretence::*value;
};
constexpr std::array<Key, 20> keys{{
    {"devices", &Pretence::devices},
    {"gpu", &Pretence::gpu},
    {"integrated", &Pretence::integrated},
    {"timeline", &Pretence::timeline},
    {"address", &Pretence::address},
    {"local", &Pretence::local},
    {"heap", &Pretence::heap},
    {"coherent", &Pretence::coherent},
    {"budget", &Pretence::budget},
    {"compute", &Pretence::compute},
    {"queues", &Pretence::queues},
    {"transfer", &Pretence::transfer},
    {"allocation", &Pretence::allocation},
    {"allocations", &Pretence::allocations},
    {"identity", &Pretence::identity},
    {"sparse", &Pretence::sparse},
    {"aliased", &Pretence::aliased},
    {"exports", &Pretence::exports},
    {"space", &Pretence::space},
    {"grain", &Pretence::grain},
}};

/// What the specification lets answer so.
constexpr bool tells_of_loss(Call call) {
  return call == call_QueueSubmit || call == call_QueueBindSparse || call == call_WaitSemaphores ||
         call == call_GetSemaphoreCounterValue || call == call_DeviceWaitIdle ||
         call == call_CreateDevice;
}

}  // namespace

Shim &Shim::get() {
  static Shim shim;
  return shim;
}

Shim::Shim() {
  const char *named = std::getenv("WEIR_VULKAN_SHIM_LOADER");
  const char *path = named != nullptr ? named : "libvulkan.so.1";
  void *loader = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) give_up(dlerror());
  void *found = dlsym(loader, "vkGetInstanceProcAddr");
  if (found == nullptr) give_up(std::string(path) + " has no vkGetInstanceProcAddr");
  std::memcpy(&real_.get, &found, sizeof found);
  find_functions(VK_NULL_HANDLE);
  // Mesa's driver stays, though no instance may use it: LeakSanitizer knows libraries that are gone no more.
  (void)dlopen("libvulkan_lvp.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const char *told = std::getenv("WEIR_VULKAN_SHIM");
  if (told != nullptr && pretend(told) != 0)
    give_up(std::string("WEIR_VULKAN_SHIM has a key or a value that is not known: ") + told);
}

void Shim::find_functions(VkInstance instance) noexcept {
#define WEIR_SHIM_FIND(name)                                                              \
  if (const auto found = reinterpret_cast<PFN_vk##name>(real_.get(instance, "vk" #name))) \
    real_.name = found;
  WEIR_SHIM_CALLS(WEIR_SHIM_FIND)
#undef WEIR_SHIM_FIND
}

// ---- calls

bool Shim::lost_for(Call call) const noexcept {
  if (!lost_) return false;
  return tells_of_loss(call) ||
         (lost_kind_ == WEIR_SHIM_LOST_EVERYWHERE && call >= first_of_devices);
}

bool Shim::enter(Call call, VkResult *code) {
  const std::string_view name = call_names[call];
  std::unique_lock hold(mutex_);
  ++calls_[call];
  bool fails = false;
  if (code != nullptr) {
    ++all_calls_;
    const uint64_t own = calls_[call], any = all_calls_;
    hold.unlock();
    sim::stuck_if_asked(call_names[call], own, any);
    hold.lock();
    if (lose_in_ != 0 && --lose_in_ == 0) {
      lost_ = true;
      changed_.notify_all();
    }
    if (fail_in_ != 0 && (fail_call_.empty() || fail_call_ == name)) fails = --fail_in_ == 0;
    if (fails) *code = fail_code_;
    if (denied_code_ != VK_SUCCESS && denied_call_ == name) {
      *code = denied_code_;
      fails = true;
    }
  }
  if (blocked_call_ == name && blocked_ == 0) {
    ++blocked_;
    changed_.notify_all();
    changed_.wait(hold, [&] { return blocked_call_ != name; });
    --blocked_;
  }
  if (code == nullptr) return true;
  if (lost_for(call)) {
    *code = VK_ERROR_DEVICE_LOST;
    fails = true;
  }
  if (fails) failed_ = name;
  if (fails && *code == VK_ERROR_DEVICE_LOST) told_of_loss_ = true;
  return !fails;
}

void Shim::finish(VkDevice device) {
  {
    const std::lock_guard hold(mutex_);
    if (!told_of_loss_) return;
  }
  (void)real_.DeviceWaitIdle.load()(device);
}

bool Shim::held(uint64_t timeout_ns) {
  std::unique_lock hold(mutex_);
  if (!stalled_ || lost_) return false;
  constexpr uint64_t most = 1'000'000'000;
  changed_.wait_for(hold, std::chrono::nanoseconds(std::min(timeout_ns, most)),
                    [&] { return !stalled_ || lost_; });
  told_of_loss_ = told_of_loss_ || lost_;
  return true;
}

// ---- objects

void Shim::misused(const std::string &what) {
  const std::lock_guard hold(mutex_);
  if (misuses_++ == 0) misuse_text_ = what;
}

void Shim::made(Object kind, uint64_t handle, uint64_t owner) {
  const std::lock_guard hold(mutex_);
  alive_[kind].emplace(handle, owner);
}

void Shim::ended(Object kind, uint64_t handle) {
  if (handle == 0) return;
  bool known = false, orphans = false;
  {
    const std::lock_guard hold(mutex_);
    known = alive_[kind].erase(handle) != 0;
    if (kind == devices) {
      for (const auto &objects : alive_)
        orphans = orphans || std::any_of(objects.begin(), objects.end(),
                                         [&](const auto &each) { return each.second == handle; });
    }
  }
  if (!known) misused(std::string("what was ended does not live: ") + kind_names[kind]);
  if (orphans) misused("a device was ended before its objects");
}

uint64_t Shim::count(Object kind) const {
  const std::lock_guard hold(mutex_);
  return alive_[kind].size();
}

void Shim::begin_use(VkQueue queue) {
  bool alone = false;
  {
    const std::lock_guard hold(mutex_);
    alone = used_.insert(queue).second;
  }
  if (!alone) misused("two threads use one queue");
}

void Shim::end_use(VkQueue queue) {
  const std::lock_guard hold(mutex_);
  used_.erase(queue);
}

// ---- other handles

std::vector<VkPhysicalDevice> Shim::list(const std::vector<VkPhysicalDevice> &there,
                                         int64_t wanted) {
  const std::lock_guard hold(mutex_);
  there_ = there;
  std::vector<VkPhysicalDevice> all = there;
  if (wanted < 0 || there.empty()) return all;
  const size_t count = std::min(static_cast<size_t>(wanted), most_devices);
  all.resize(std::min(count, all.size()));
  while (all.size() < count)
    all.push_back(reinterpret_cast<VkPhysicalDevice>(&device_tokens_[all.size()]));
  return all;
}

unsigned Shim::number_of(VkPhysicalDevice device) const {
  const std::lock_guard hold(mutex_);
  for (unsigned i = 0; i < most_devices; ++i)
    if (device == reinterpret_cast<VkPhysicalDevice>(const_cast<char *>(&device_tokens_[i])))
      return i;
  const auto at = std::find(there_.begin(), there_.end(), device);
  return at != there_.end() ? static_cast<unsigned>(at - there_.begin()) : 0;
}

VkPhysicalDevice Shim::real_of(VkPhysicalDevice device) const {
  const std::lock_guard hold(mutex_);
  for (unsigned i = 0; i < most_devices; ++i)
    if (device == reinterpret_cast<VkPhysicalDevice>(const_cast<char *>(&device_tokens_[i])))
      return there_[i % there_.size()];
  return device;
}

VkQueue Shim::alias(VkQueue real, uint32_t family, uint32_t index) {
  const std::lock_guard hold(mutex_);
  const auto known = std::find_if(
      queue_tokens_.begin(), queue_tokens_.begin() + static_cast<std::ptrdiff_t>(aliases_),
      [&](const Alias &each) {
        return each.real == real && each.family == family && each.index == index;
      });
  size_t place = static_cast<size_t>(known - queue_tokens_.begin());
  if (place == aliases_) {
    // Those of devices that are gone make room.
    if (aliases_ == most_queues)
      place = 0;
    else
      ++aliases_;
    queue_tokens_[place] = {real, family, index};
  }
  return reinterpret_cast<VkQueue>(&queue_tokens_[place]);
}

VkQueue Shim::real_of(VkQueue queue) const {
  const std::lock_guard hold(mutex_);
  for (const Alias &each : queue_tokens_)
    if (queue == reinterpret_cast<VkQueue>(const_cast<Alias *>(&each))) return each.real;
  return queue;
}

// ---- what it is told

Pretence Shim::pretence() const {
  const std::lock_guard hold(mutex_);
  return pretence_;
}

bool Shim::set(std::string_view key, std::string_view value) {
  for (const Key &each : keys)
    if (each.name == key) return read_size(value, &(pretence_.*(each.value)));
  if (key == "loader") return read_version(value, &pretence_.loader);
  if (key == "version") return read_version(value, &pretence_.version);
  if (key == "without") pretence_.without = value;
  if (key == "missing") pretence_.missing = value;
  if (key == "without" || key == "missing") return true;
  if (key != "fail") return false;
  const size_t first = value.find(':'), last = value.rfind(':');
  int code = 0;
  if (first == value.npos || first == last ||
      !read_number(value.substr(first + 1, last - first - 1), &fail_in_) ||
      !read_number(value.substr(last + 1), &code))
    return false;
  fail_call_ = value.substr(0, first);
  fail_code_ = static_cast<VkResult>(code);
  return true;
}

int Shim::pretend(const char *options) {
  const std::lock_guard hold(mutex_);
  pretence_ = {};
  std::string_view rest = options;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(pair.size() < rest.size() ? pair.size() + 1 : rest.size());
    const size_t equals = pair.find('=');
    if (equals == pair.npos || !set(pair.substr(0, equals), pair.substr(equals + 1))) return -1;
  }
  return 0;
}

void Shim::reset() {
  const std::lock_guard hold(mutex_);
  pretence_ = {};
  calls_ = {};
  all_calls_ = fail_in_ = lose_in_ = misuses_ = 0;
  failed_.clear();
  misuse_text_.clear();
  blocked_call_.clear();
  denied_code_ = VK_SUCCESS;
  lost_kind_ = 0;
  lost_ = told_of_loss_ = stalled_ = false;
  for (auto &objects : alive_) objects.clear();
  changed_.notify_all();
}

void Shim::fail(const char *call, uint64_t nth, VkResult code) {
  const std::lock_guard hold(mutex_);
  fail_call_ = call != nullptr ? call : "";
  fail_in_ = nth;
  fail_code_ = code;
  failed_.clear();
}

void Shim::deny(const char *call, VkResult code) {
  const std::lock_guard hold(mutex_);
  denied_call_ = call;
  denied_code_ = code;
}

uint64_t Shim::calls(const char *call) const {
  const std::lock_guard hold(mutex_);
  if (call == nullptr) return all_calls_;
  for (unsigned i = 0; i < call_count; ++i)
    if (std::strcmp(call, call_names[i]) == 0) return calls_[i];
  give_up(std::string("there is no call ") + call);
}

const char *Shim::failed() const {
  const std::lock_guard hold(mutex_);
  return failed_.c_str();
}

void Shim::lose(int kind, uint64_t nth) {
  const std::lock_guard hold(mutex_);
  lost_kind_ = kind;
  lost_ = false;
  lose_in_ = kind != 0 ? nth : 0;
}

bool Shim::lost() const {
  const std::lock_guard hold(mutex_);
  return lost_;
}

void Shim::stall() {
  const std::lock_guard hold(mutex_);
  stalled_ = true;
}

void Shim::block(const char *call) {
  const std::lock_guard hold(mutex_);
  blocked_call_ = call;
}

void Shim::wait_blocked() {
  std::unique_lock hold(mutex_);
  changed_.wait(hold, [&] { return blocked_ != 0; });
}

void Shim::resume() {
  const std::lock_guard hold(mutex_);
  blocked_call_.clear();
  stalled_ = false;
  changed_.notify_all();
}

uint64_t Shim::alive(const char **text) {
  const std::lock_guard hold(mutex_);
  uint64_t sum = 0;
  alive_text_.clear();
  for (int kind = 0; kind < object_kinds; ++kind) {
    const size_t each = alive_[static_cast<size_t>(kind)].size();
    if (each == 0) continue;
    sum += each;
    alive_text_ += std::string(kind_names[kind]) + ": " + std::to_string(each) + ' ';
  }
  if (text != nullptr) *text = alive_text_.c_str();
  return sum;
}

uint64_t Shim::misuse(const char **text) {
  const std::lock_guard hold(mutex_);
  if (text != nullptr) *text = misuse_text_.c_str();
  return misuses_;
}

}  // namespace weir::vulkan_shim
