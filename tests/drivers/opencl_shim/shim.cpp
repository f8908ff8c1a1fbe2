// SPDX-License-Identifier: Apache-2.0
//
// The shim's state, and its controls.

#include "tests/drivers/opencl_shim/shim.hpp"

#include <dlfcn.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weir::opencl_shim {
namespace {

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "opencl shim: %s\n", why.c_str());
  std::abort();
}

bool number(std::string_view text, int *out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool flag(std::string_view text, bool *out) {
  *out = text == "1";
  return text == "0" || text == "1";
}

// ---- unified shared memory over shared virtual memory

void *host_memory(cl_context context, const cl_mem_properties_intel *, size_t size,
                  cl_uint alignment, cl_int *code) {
  void *made = Shim::get().real().clSVMAlloc(context, CL_MEM_READ_WRITE, size, alignment);
  if (code != nullptr) *code = made != nullptr ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return made;
}
void *device_memory(cl_context context, cl_device_id, const cl_mem_properties_intel *properties,
                    size_t size, cl_uint alignment, cl_int *code) {
  return host_memory(context, properties, size, alignment, code);
}
cl_int free_memory(cl_context context, void *made) {
  Shim::get().real().clSVMFree(context, made);
  return CL_SUCCESS;
}

}  // namespace

Shim &Shim::get() {
  // Never ended: a driver's threads may call until the process is gone.
  static Shim *shim = new Shim;
  return *shim;
}

Shim::Shim() {
  const char *loader = std::getenv("WEIR_OPENCL_SHIM_LOADER");
  void *library = dlopen(loader != nullptr ? loader : "libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  const auto find = [&](const char *name, auto **function) {
    void *found = dlsym(library, name);
    std::memcpy(function, &found, sizeof found);
    if (found == nullptr) give_up(std::string("the loader has no ") + name);
  };
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments) find(#name, &real_.name);
#define WEIR_OPENCL_EXTENSION(result, name, parameters, arguments)
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
  // What the first platform has; else what stands in for it.
  cl_platform_id platform = nullptr;
  if (real_.clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS) {
    const auto find_extension = [&](const char *name, auto **function) {
      void *found = real_.clGetExtensionFunctionAddressForPlatform(platform, name);
      std::memcpy(function, &found, sizeof found);
    };
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments)
#define WEIR_OPENCL_EXTENSION(result, name, parameters, arguments) \
  find_extension(#name, &real_.name);
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
  }
  if (real_.clDeviceMemAllocINTEL == nullptr) {
    real_.clHostMemAllocINTEL = host_memory;
    real_.clDeviceMemAllocINTEL = device_memory;
    real_.clMemFreeINTEL = free_memory;
    real_.clEnqueueMemcpyINTEL = real_.clEnqueueSVMMemcpy;
    real_.clEnqueueMemFillINTEL = real_.clEnqueueSVMMemFill;
  }
  const char *told = std::getenv("WEIR_OPENCL_SHIM");
  if (told != nullptr && pretend(told) != 0) give_up(std::string("WEIR_OPENCL_SHIM=") + told);
}

bool Shim::enter(const char *call, bool about_device, bool can_fail, cl_int *code) {
  std::unique_lock hold(mutex_);
  ++calls_[call];
  if (blocked_call_ == call) {
    ++blocked_;
    changed_.wait(hold, [&] { return blocked_call_ != call; });
    --blocked_;
  }
  if (!can_fail) return true;
  ++all_calls_;
  if (about_device && lost_code_ != 0) {
    *code = lost_code_;
    return false;
  }
  if (fail_in_ == 0 || (!fail_call_.empty() && fail_call_ != call) || --fail_in_ != 0) return true;
  failed_ = call;
  *code = fail_code_;
  return false;
}

void Shim::count(Object kind, int change) noexcept {
  const std::lock_guard hold(mutex_);
  alive_[kind] += change;
}

cl_int Shim::status(cl_int real) const noexcept {
  const std::lock_guard hold(mutex_);
  if (stalled_) return CL_SUBMITTED;
  return real != CL_COMPLETE && broken_status_ != 0 ? broken_status_ : real;
}

Pretence Shim::pretence() const {
  const std::lock_guard hold(mutex_);
  return pretence_;
}

int Shim::number_of(cl_device_id device) {
  const std::lock_guard hold(mutex_);
  const auto found = devices_.find(device);
  return found != devices_.end() ? found->second : 0;
}

void Shim::list(const cl_device_id *devices, cl_uint count) {
  const std::lock_guard hold(mutex_);
  for (cl_uint i = 0; i < count; ++i) devices_[devices[i]] = static_cast<int>(i);
}

void Shim::reset() {
  const std::lock_guard hold(mutex_);
  pretence_ = {};
  calls_.clear();
  all_calls_ = fail_in_ = 0;
  fail_call_.clear();
  blocked_call_.clear();
  failed_.clear();
  lost_code_ = broken_status_ = 0;
  stalled_ = false;
  alive_ = {};
}

bool Shim::set(std::string_view key, std::string_view value) {
  if (key == "platforms") return flag(value, &pretence_.platforms);
  if (key == "svm") return flag(value, &pretence_.svm);
  if (key == "host_usm") return flag(value, &pretence_.host_usm);
  if (key == "functions") return flag(value, &pretence_.functions);
  if (key == "unified") return flag(value, &pretence_.unified);
  if (key == "identity") return flag(value, &pretence_.identity);
  if (key == "gpu") return number(value, &pretence_.gpu);
  if (key == "usm") {
    if (value == "-") pretence_.usm = -1;
    return value == "-" || number(value, &pretence_.usm);
  }
  if (key == "version") {
    pretence_.version = value;
    return true;
  }
  if (key == "fail") {
    const size_t first = value.find(':'), last = value.rfind(':');
    int nth = 0, code = 0;
    if (first == value.npos || first == last ||
        !number(value.substr(first + 1, last - first - 1), &nth) ||
        !number(value.substr(last + 1), &code))
      return false;
    fail_call_ = value.substr(0, first);
    fail_in_ = static_cast<uint64_t>(nth);
    fail_code_ = code;
    return true;
  }
  return false;
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

void Shim::fail(const char *call, uint64_t nth, cl_int code) {
  const std::lock_guard hold(mutex_);
  fail_call_ = call != nullptr ? call : "";
  fail_in_ = nth;
  fail_code_ = code;
  failed_.clear();
}

uint64_t Shim::calls(const char *call) {
  const std::lock_guard hold(mutex_);
  return call != nullptr ? calls_[call] : all_calls_;
}

const char *Shim::failed() {
  const std::lock_guard hold(mutex_);
  return failed_.c_str();
}

void Shim::lose(cl_int code) {
  const std::lock_guard hold(mutex_);
  lost_code_ = code;
}

void Shim::break_commands(cl_int status) {
  const std::lock_guard hold(mutex_);
  broken_status_ = status;
}

void Shim::stall() {
  const std::lock_guard hold(mutex_);
  stalled_ = true;
}

void Shim::block(const char *call) {
  const std::lock_guard hold(mutex_);
  blocked_call_ = call;
}

uint64_t Shim::blocked() {
  const std::lock_guard hold(mutex_);
  return blocked_;
}

void Shim::resume() {
  const std::lock_guard hold(mutex_);
  blocked_call_.clear();
  changed_.notify_all();
}

uint64_t Shim::alive(const char **text) {
  const std::lock_guard hold(mutex_);
  constexpr const char *names[] = {"contexts", "queues", "events", "memory"};
  uint64_t sum = 0;
  alive_text_.clear();
  for (int kind = 0; kind < object_kinds; ++kind) {
    const int64_t each = alive_[static_cast<size_t>(kind)];
    if (each == 0) continue;
    sum += static_cast<uint64_t>(each < 0 ? -each : each);
    alive_text_ += std::string(names[kind]) + ": " + std::to_string(each) + ' ';
  }
  if (text != nullptr) *text = alive_text_.c_str();
  return sum;
}

}  // namespace weir::opencl_shim

using weir::opencl_shim::Shim;
#define WEIR_SHIM_CONTROL extern "C" __attribute__((visibility("default")))

WEIR_SHIM_CONTROL void weir_shim_reset(void) { Shim::get().reset(); }
WEIR_SHIM_CONTROL int weir_shim_pretend(const char *options) {
  return Shim::get().pretend(options);
}
WEIR_SHIM_CONTROL void weir_shim_fail(const char *call, uint64_t nth, int32_t code) {
  Shim::get().fail(call, nth, code);
}
WEIR_SHIM_CONTROL uint64_t weir_shim_calls(const char *call) { return Shim::get().calls(call); }
WEIR_SHIM_CONTROL const char *weir_shim_failed(void) { return Shim::get().failed(); }
WEIR_SHIM_CONTROL void weir_shim_lose(int32_t code) { Shim::get().lose(code); }
WEIR_SHIM_CONTROL void weir_shim_break(int32_t status) { Shim::get().break_commands(status); }
WEIR_SHIM_CONTROL void weir_shim_stall(void) { Shim::get().stall(); }
WEIR_SHIM_CONTROL void weir_shim_block(const char *call) { Shim::get().block(call); }
WEIR_SHIM_CONTROL uint64_t weir_shim_blocked(void) { return Shim::get().blocked(); }
WEIR_SHIM_CONTROL void weir_shim_resume(void) { Shim::get().resume(); }
WEIR_SHIM_CONTROL uint64_t weir_shim_alive(const char **text) { return Shim::get().alive(text); }
