// SPDX-License-Identifier: Apache-2.0
//
// Loading the backend under test and its simulated driver, and kernels by copies. The table's functions have no user
// pointer before start(), so what start() made is kept in one place of the program.

#include "tests/support/target.hpp"

#include <weir/weir.h>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::test {
namespace {

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "target: %s\n", why.c_str());
  std::fflush(nullptr);
  _exit(99);
}

std::string environment(const char *name, const char *fallback) {
  const char *value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

template <class Function>
void find(void *library, const char *name, Function **out) {
  void *symbol = dlsym(library, name);
  if (symbol == nullptr) give_up(std::string("no symbol ") + name);
  std::memcpy(out, &symbol, sizeof symbol);
}

bool has_driver() { return !environment("WEIR_TEST_DRIVER", "").empty(); }

/// Backends started now, the newest last.
std::mutex states_mutex;
std::vector<weir_be_state *> states;

/// On a device of silicon a stream of each device is held until the process ends: a runtime makes what it needs to use a
/// device once, not for every context of every test, which takes it the better part of a second.
void keep_awake() {
  static const bool done = [] {
    const weir_backend_table &table = *Target::get().table();
    const weir_be_start desc = {sizeof desc, 0, "", nullptr, nullptr, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    uint32_t count = 0;
    if (table.start(&desc, &state, &reason) != WEIR_SUCCESS ||
        table.device_count(state, &count) != WEIR_SUCCESS)
      return true;
    for (uint32_t device = 0; device < count; ++device) {
      weir_be_stream stream = nullptr;
      (void)table.stream_create(state, device, 0, &stream);
    }
    return true;
  }();
  (void)done;
}

weir_result remember(const weir_be_start *desc, weir_be_state **state, const char **reason) {
  const weir_result result = Target::get().table()->start(desc, state, reason);
  if (result != WEIR_SUCCESS) return result;
  {
    const std::lock_guard hold(states_mutex);
    states.push_back(*state);
  }
  if (Target::get().real()) keep_awake();
  return result;
}

/// Pinned memory for kernels by copies. Ended with the backend that gave it.
struct Staging {
  weir_be_state *state = nullptr;
  void *memory = nullptr;
  uint64_t bytes = 0;
};

/// One kernel by copies, from its launch until the stream has passed it.
struct Flight {
  Staging staging;
  weir_host_function function = nullptr;
  void *user = nullptr;

  static void land(void *self) {
    std::unique_ptr<Flight> flight(static_cast<Flight *>(self));
    if (flight->function != nullptr) flight->function(flight->user);
    // A host function must not call the runtime: the memory is given back by the next launch.
    const std::lock_guard hold(mutex);
    landed.push_back(flight->staging);
  }
  static Staging take(weir_be_state *state, uint64_t bytes) {
    {
      const std::lock_guard hold(mutex);
      for (Staging &old : landed) {
        if (old.state != state || old.bytes < bytes) continue;
        const Staging found = old;
        old = landed.back();
        landed.pop_back();
        return found;
      }
    }
    Staging fresh{state, nullptr, bytes};
    if (Target::get().table()->host_allocate(state, bytes, &fresh.memory) != WEIR_SUCCESS)
      give_up("no pinned memory for a kernel");
    return fresh;
  }

  static void drop(weir_be_state *state) {
    const std::lock_guard hold(mutex);
    std::erase_if(landed, [state](const Staging &old) { return old.state == state; });
  }

  static std::mutex mutex;
  static std::vector<Staging> landed;
};
std::mutex Flight::mutex;
std::vector<Staging> Flight::landed;

void forget(weir_be_state *state) {
  {
    const std::lock_guard hold(states_mutex);
    std::erase(states, state);
  }
  Flight::drop(state);
  Target::get().table()->stop(state);
}

/// Which device a stream is of, as its maker said: some runtimes cannot tell.
struct Devices {
  std::mutex mutex;
  std::map<const void *, uint32_t> of;  ///< streams as the backend knows them, and native ones
  void note(const void *stream, uint32_t device) {
    const std::lock_guard hold(mutex);
    of[stream] = device;
  }
  uint32_t find(const void *stream) {
    const std::lock_guard hold(mutex);
    const auto found = of.find(stream);
    return found != of.end() ? found->second : 0;
  }
} devices;

weir_result note_created(weir_be_state *state, uint32_t device, uint64_t flags,
                         weir_be_stream *stream) {
  const weir_result result = Target::get().table()->stream_create(state, device, flags, stream);
  if (result == WEIR_SUCCESS) devices.note(*stream, device);
  return result;
}
weir_result note_wrapped(weir_be_state *state, uint32_t device, void *native,
                         weir_be_stream *stream) {
  const weir_result result = Target::get().table()->stream_wrap(state, device, native, stream);
  if (result == WEIR_SUCCESS) devices.note(*stream, device);
  return result;
}
weir_result note_native(weir_be_state *state, weir_be_stream stream, void **native) {
  const weir_result result = Target::get().table()->stream_native(state, stream, native);
  if (result == WEIR_SUCCESS) devices.note(*native, devices.find(stream));
  return result;
}

/// A size of the host's options, scaled to pages of another size.
std::string scaled(std::string_view text, uint64_t from, uint64_t to) {
  uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value).ptr;
  const std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  const uint64_t unit = suffix == "K"   ? 1U << 10U
                        : suffix == "M" ? 1U << 20U
                        : suffix == "G" ? 1U << 30U
                                        : 1;
  return std::to_string(value * unit / from * to);
}

bool any_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

Target &Target::get() {
  static Target target;
  return target;
}

Target::Target() : name_(environment("WEIR_TEST_BACKEND", "host")) {
  strict_ = environment("WEIR_TEST_MODE", "alias") == "strict";
  // Large memory in Level Zero has pages of 2 MiB unless the driver is told otherwise, and a real HIP runtime is not
  // trusted with less.
  const bool small = host() || name_ == "cuda" || (name_ == "hip" && has_driver());
  const char *usual = small ? "16384" : "2097152";
  page_ = std::strtoull(environment("WEIR_TEST_PAGE", usual).c_str(), nullptr, 10);
  if (host()) return;
  load_driver();
  load_backend();
  // A driver's own threads and locks are gone by the time static destructors run.
  if (simulated()) std::atexit([] { Target::get().inspect(); });
}

void Target::load_backend() {
  const std::string path =
      environment("WEIR_LIB_DIR", "lib") + "/weir/1/libweir_backend_" + name_ + ".so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  weir_backend_query_fn entry = nullptr;
  find(library, WEIR_BACKEND_QUERY_SYMBOL, &entry);
  real_table_ = entry(WEIR_BACKEND_ABI_MAJOR);
  if (real_table_ == nullptr) give_up(path + " speaks another ABI");
  table_ = *real_table_;
  table_.start = remember;
  table_.stop = forget;
  table_.stream_create = note_created;
  table_.stream_wrap = note_wrapped;
  table_.stream_native = note_native;
}

void Target::load_driver() {
  if (!has_driver()) return;
  const std::string driver = environment("WEIR_TEST_DRIVER", "");
  void *library = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  find(library, "weir_sim_configure", &configure_);
  find(library, "weir_sim_complaint", &complaint_);
  find(library, "weir_sim_alive", &alive_);
  find(library, "weir_sim_misuse", &misuse_);
  if (name_ != "hip") return;
  void *hip = dlopen(environment("WEIR_HIP_LIBRARY", "").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (hip == nullptr) give_up(dlerror());
  find(hip, "hipGetDeviceCount", &count_devices_);
  find(hip, "hipSetDevice", &set_device_);
  find(hip, "hipDeviceReset", &reset_device_);
}

/// A HIP runtime keeps its devices' contexts until the program ends, or is told.
void Target::release_contexts() {
  int left = 0;
  if (count_devices_ == nullptr || count_devices_(&left) != 0) return;
  // Downwards: the thread's device is 0 again at the end, as in a program that has named none.
  for (; left > 0; --left) {
    if (set_device_(left - 1) == 0) (void)reset_device_();
  }
}

weir_backend_query_fn Target::query() const noexcept { return host() ? nullptr : captured; }

const weir_backend_table *Target::captured(uint32_t abi_major) {
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &get().table_ : nullptr;
}

weir_be_state *Target::state() const noexcept {
  const std::lock_guard hold(states_mutex);
  return states.empty() ? nullptr : states.back();
}

std::string Target::options(std::string_view host_options, uint64_t host_page) {
  if (host()) return std::string(host_options);
  std::string machine = std::string("mode=") + (strict_ ? "strict" : "alias");
  if (const std::string more = environment("WEIR_TEST_MACHINE", ""); !more.empty())
    machine += ';' + more;
  std::string own;
  // Off where drivers are not trusted with it; the simulated ones are, and what batches is to be tested.
  if (simulated() && name_ != "level_zero") own = ';' + name_ + ".batch_copy=1";
  // A driver on the CPU stands for a card here.
  if (name_ == "vulkan") own = ";vulkan.cpu=1;vulkan.integrated=0";
  for (std::string_view rest = host_options; !rest.empty();) {
    std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.starts_with("host.")) pair.remove_prefix(5);
    const std::string key(pair.substr(0, pair.find('=')));
    const std::string_view value = pair.substr(std::min(pair.size(), key.size() + 1));
    if (any_of(key, {"memory", "granule"})) {
      machine += ';' + key + '=' + scaled(value, host_page, page_);
      if (name_ == "vulkan") own += ";vulkan." + key + '=' + scaled(value, host_page, page_);
      // The simulated runtime is sound, so its small granules are used.
      if (key == "granule" && name_ == "hip" && simulated())
        own += ";hip.granule=" + scaled(value, host_page, page_);
    } else if (any_of(key, {"devices", "link_bandwidth", "peer_bandwidth", "link_latency_ns"})) {
      machine += ';' + key + '=' + std::string(value);
    } else if (key == "granule_large" && value != "0") {
      own += ';' + name_ + ".granule_large=" + scaled(value, host_page, page_);
    } else if (name_ == "vulkan" &&
               any_of(key, {"peer", "host_call", "shared_range", "access_later"})) {
      continue;  // it has no such things
    } else if (any_of(key, {"vmm", "peer", "register"}) ||
               (name_ == "level_zero" && key == "transfer_stream") ||
               (name_ != "level_zero" && key == "map_run") ||
               (name_ != "level_zero" &&
                any_of(key, {"multi_map", "batch_copy", "host_call", "granule_large"}))) {
      own += ';' + name_ + '.' + key + '=' + std::string(value);
    }
  }
  // The simulated driver is one that keeps nothing of what another card imported, unless a test wants to see that.
  if (name_ == "level_zero" && simulated() && environment("WEIR_TEST_CARDS", "meet") == "meet")
    own += ";level_zero.peer_cards=1";
  if (!own.empty()) own.erase(0, 1);
  const bool in_use = state() != nullptr;
  if (!simulated() || (in_use && machine == machine_)) return own;
  if (in_use) give_up("a second machine is asked for while the first is in use: " + machine);
  inspect();
  if (configure_(machine.c_str()) != 0) give_up(complaint_());
  machine_ = machine;
  return own;
}

void Target::inspect() {
  if (!simulated()) return;
  release_contexts();
  const char *text = "";
  if (const uint64_t alive = alive_(&text); alive != 0)
    give_up(std::to_string(alive) + " objects are left in the simulated machine: " + text);
  if (const uint64_t misuse = misuse_(&text); misuse != 0)
    give_up(std::to_string(misuse) + " calls of the simulated driver were misuse: " + text);
}

namespace {

/// A stream of the C ABI as the backend's own table knows it.
class Queue {
 public:
  explicit Queue(weir_stream stream) {
    void *native = nullptr;
    result_ = weir_stream_native(stream, &native);
    if (result_ == WEIR_SUCCESS)
      result_ = table().stream_wrap(state_, devices.find(native), native, &handle_);
  }
  ~Queue() {
    if (handle_ != nullptr) (void)table().stream_destroy(state_, handle_);
  }
  Queue(const Queue &) = delete;
  Queue &operator=(const Queue &) = delete;

  static const weir_backend_table &table() { return *Target::get().table(); }
  weir_result result() const { return result_; }
  weir_be_state *state() const { return state_; }
  /// Copies between `device` and pinned memory, page by page: a copy must not span two maps.
  weir_result copy(Access access, uint64_t device, uint64_t pinned, uint64_t bytes) const {
    const uint64_t page = Target::get().page();
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t at = device + done;
      const uint64_t size = std::min(bytes - done, page - at % page);
      const weir_be_copy copy = access == Access::read ? weir_be_copy{pinned + done, at, size}
                                                       : weir_be_copy{at, pinned + done, size};
      const weir_result result = table().copy_async(state_, handle_, &copy);
      if (result != WEIR_SUCCESS) {
        std::fprintf(stderr, "a kernel's copy failed: %s\n",
                     table().error_text(state_, table().last_error_code(state_)));
        return result;
      }
      done += size;
    }
    return WEIR_SUCCESS;
  }
  weir_result wait() const { return table().stream_synchronize(state_, handle_); }

 private:
  weir_be_state *state_ = Target::get().state();
  weir_be_stream handle_ = nullptr;
  weir_result result_ = WEIR_SUCCESS;
};

uint64_t number(const void *memory) { return reinterpret_cast<uint64_t>(memory); }

}  // namespace

weir_result launch(weir_stream stream, Access access, uint64_t *address, uint64_t bytes,
                   weir_host_function function, void *user) {
  if (!Target::get().by_copies()) return weir_stream_host_call(stream, function, user);
  const Queue queue(stream);
  if (queue.result() != WEIR_SUCCESS) return queue.result();
  auto flight = std::make_unique<Flight>();
  flight->staging = Flight::take(queue.state(), bytes);
  const uint64_t device = *address, staged = number(flight->staging.memory);
  *address = staged;
  weir_result result = WEIR_SUCCESS;
  if (access == Access::write) {
    function(user);
    result = queue.copy(access, device, staged, bytes);
  } else {
    flight->function = function;
    flight->user = user;
    result = queue.copy(access, device, staged, bytes);
  }
  if (result != WEIR_SUCCESS) return result;
  return weir_stream_host_call(stream, Flight::land, flight.release());
}

void read_device(weir_stream stream, uint64_t address, void *to, uint64_t bytes) {
  const Target &target = Target::get();
  if (!target.by_copies()) {
    if (weir_stream_synchronize(stream) != WEIR_SUCCESS) give_up(weir_last_error());
    std::memcpy(to, reinterpret_cast<const void *>(address), bytes);
    return;
  }
  const Queue queue(stream);
  const Staging staging = Flight::take(queue.state(), bytes);
  if (queue.result() != WEIR_SUCCESS ||
      queue.copy(Access::read, address, number(staging.memory), bytes) != WEIR_SUCCESS ||
      queue.wait() != WEIR_SUCCESS)
    give_up("device memory cannot be read");
  std::memcpy(to, staging.memory, bytes);
  const std::lock_guard hold(Flight::mutex);
  Flight::landed.push_back(staging);
}

void write_device(weir_stream stream, uint64_t address, const void *from, uint64_t bytes) {
  const Target &target = Target::get();
  if (!target.by_copies()) {
    if (weir_stream_synchronize(stream) != WEIR_SUCCESS) give_up(weir_last_error());
    std::memcpy(reinterpret_cast<void *>(address), from, bytes);
    return;
  }
  const Queue queue(stream);
  const Staging staging = Flight::take(queue.state(), bytes);
  std::memcpy(staging.memory, from, bytes);
  if (queue.result() != WEIR_SUCCESS ||
      queue.copy(Access::write, address, number(staging.memory), bytes) != WEIR_SUCCESS ||
      queue.wait() != WEIR_SUCCESS)
    give_up("device memory cannot be written");
  const std::lock_guard hold(Flight::mutex);
  Flight::landed.push_back(staging);
}

}  // namespace weir::test
