// SPDX-License-Identifier: Apache-2.0
//
// Finding the plugin beside the program, starting it, and telling a real device from a simulated one: by the libraries
// that the process has loaded once it is started, which no option can hide.

#include "bench/device/device.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <set>

namespace weir::bench {
namespace {

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(1);
}

/// lib/weir/1 of the tree that this program is in, unless the environment names another lib.
std::string plugin_path(const std::string &backend) {
  std::string lib;
  if (const char *named = std::getenv("WEIR_LIB_DIR"); named != nullptr && *named != '\0') {
    lib = named;
  } else {
    char self[PATH_MAX] = {};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) give_up("/proc/self/exe");
    lib = self;
    lib = lib.substr(0, lib.rfind('/')) + "/../lib";
  }
  return lib + "/weir/1/libweir_backend_" + backend + ".so";
}

/// The names of loaded libraries that are a vendor's runtime, or stand for one.
std::string loaded_runtimes() {
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::string name = line.substr(line.rfind('/') + 1);
    for (const char *prefix :
         {"libcuda.so", "libnvidia-ml.so", "libamdhip64.so", "libze_", "libvulkan", "libweir_sim_",
          "libweir_hip_over_cuda", "libweir_watched_"}) {
      if (name.starts_with(prefix)) names.insert(name);
    }
  }
  std::string joined;
  for (const std::string &name : names) joined += (joined.empty() ? "" : " ") + name;
  return joined;
}

}  // namespace

Backend::Backend(const Settings &settings) : settings_(settings) {
  const std::string path = plugin_path(settings.backend);
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) give_up(dlerror());
  void *symbol = dlsym(library_, WEIR_BACKEND_QUERY_SYMBOL);
  if (symbol == nullptr) give_up(path + " is no backend");
  std::memcpy(&query_, &symbol, sizeof query_);
  table_ = query_(WEIR_BACKEND_ABI_MAJOR);
  if (table_ == nullptr) give_up(path + " speaks another ABI");
  options_ = options(settings.backend + '.');
  const std::string bare = options("");
  const weir_be_start start = {sizeof start, 0, bare.c_str(), nullptr, nullptr, nullptr};
  const char *reason = "";
  if (table_->start(&start, &state_, &reason) != WEIR_SUCCESS) {
    if (!settings.optional) give_up(settings.backend + ": " + reason);
    std::fprintf(stderr, "skipped: %s: %s\n", settings.backend.c_str(), reason);
    std::exit(77);
  }
  uint32_t count = 0;
  must(table_->device_count(state_, &count), "device_count");
  if (count == 0) give_up(settings.backend + ": no device");
  device_.struct_size = sizeof device_;
  must(table_->device_describe(state_, 0, &device_), "device_describe");
  libraries_ = loaded_runtimes();
  // The simulated machines' devices say so, whatever the file is called that they come from; so do Vulkan's on the CPU.
  real_ = settings.backend != "host" && libraries_.find("libweir_sim_") == std::string::npos &&
          std::strstr(device_.name, "Simulated") == nullptr &&
          std::strstr(version(), "on the CPU") == nullptr;
}

Backend::~Backend() {
  // The library stays: a runtime's threads may still be in it.
  table_->stop(state_);
}

/// What the command line gave; the host backend has to be told how large its device is, too. `prefix` is what a context wants
/// before each key.
std::string Backend::options(const std::string &prefix) const {
  std::string text = settings_.options.empty() ? "" : prefix + settings_.options;
  if (settings_.backend != "host") return text;
  const uint64_t memory = 4 * settings_.bytes + 64 * settings_.allocation_max + 128 * mib;
  return (text.empty() ? "" : text + ';') + prefix + "memory=" + std::to_string(memory / mib) +
         "M;" + prefix + "granule=2M";
}

weir_context_desc Backend::context() const {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_HOST_BACKEND | WEIR_CONTEXT_NO_SEARCH;
  desc.backends = &query_;
  desc.backend_count = 1;
  desc.options = options_.c_str();
  return desc;
}

void Backend::must(weir_result result, const char *call) const {
  if (result == WEIR_SUCCESS) return;
  give_up(std::string(call) + ": " + weir_result_string(result) + ": " +
          (state_ == nullptr ? "not started"
                             : table_->error_text(state_, table_->last_error_code(state_))));
}

Pinned::Pinned(const Backend &backend, uint64_t bytes) : backend_(backend), bytes_(bytes) {
  backend_.must(backend_.table().host_allocate(backend_.state(), bytes_, &memory_),
                "host_allocate");
  std::memset(memory_, 1, bytes_);
}

Pinned::~Pinned() {
  backend_.must(backend_.table().host_free(backend_.state(), memory_, bytes_), "host_free");
}

Plain::Plain(const Backend &backend, uint64_t bytes) : backend_(backend), bytes_(bytes) {
  backend_.must(backend_.table().plain_allocate(backend_.state(), 0, bytes_, 4096, &address_),
                "plain_allocate");
}

Plain::~Plain() {
  backend_.must(backend_.table().plain_free(backend_.state(), 0, address_, bytes_), "plain_free");
}

Queue::Queue(const Backend &backend) : backend_(backend) {
  backend_.must(backend_.table().stream_create(backend_.state(), 0, 0, &stream_), "stream_create");
}

Queue::~Queue() {
  backend_.must(backend_.table().stream_destroy(backend_.state(), stream_), "stream_destroy");
}

void *Queue::native() const {
  void *native = nullptr;
  backend_.must(backend_.table().stream_native(backend_.state(), stream_, &native),
                "stream_native");
  return native;
}

void Queue::copy(uint64_t to, uint64_t from, uint64_t bytes) const {
  const weir_be_copy copy = {to, from, bytes};
  backend_.must(backend_.table().copy_async(backend_.state(), stream_, &copy), "copy_async");
}

void Queue::wait() const {
  backend_.must(backend_.table().stream_synchronize(backend_.state(), stream_),
                "stream_synchronize");
}

}  // namespace weir::bench
