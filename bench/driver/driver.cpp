// SPDX-License-Identifier: Apache-2.0
//
// Loading the driver, its one context, and the objects that the figures share.

#include "bench/driver/driver.hpp"

#include "bench/device/ptx.hpp"
#include "bench/look_up.hpp"

#include <cmath>
#include <cstring>
#include <thread>

namespace weir::bench {
namespace {

constexpr int not_ready = 600;
constexpr uint32_t threads = 256;

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "bench_driver: %s\n", why.c_str());
  std::exit(1);
}

}  // namespace

Driver::Driver(bool with_context) {
  void *library = open_cuda();
  if (library == nullptr) give_up(dlerror());
  const LookUp look_up(library);
#define WEIR_DRIVER_FIND(name, version, parameters) (void)look_up.find(#name, version, &this->name);
#define WEIR_DRIVER_NEED(name, version, parameters) \
  if (!look_up.find(#name, version, &this->name))   \
    give_up(std::string("the driver has no ") + #name);
  WEIR_DRIVER_CALLS(WEIR_DRIVER_NEED)
  WEIR_DRIVER_MORE_CALLS(WEIR_DRIVER_FIND)
#undef WEIR_DRIVER_NEED
#undef WEIR_DRIVER_FIND
  must(cuInit(0), "cuInit");
  must(cuDeviceGetCount(&devices_), "cuDeviceGetCount");
  if (devices_ == 0) give_up("no device");
  char name[128] = "";
  must(cuDeviceGetName(name, sizeof name, device()), "cuDeviceGetName");
  real_ = std::strstr(name, "Simulated") == nullptr;
  if (with_context) retain();
}

void Driver::retain() {
  must(cuDevicePrimaryCtxRetain(&context_, device()), "cuDevicePrimaryCtxRetain");
  must(cuCtxPushCurrent(context_), "cuCtxPushCurrent");
}

Driver::~Driver() {
  if (context_ == nullptr) return;
  void *popped = nullptr;
  must(cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
  must(cuDevicePrimaryCtxRelease(device()), "cuDevicePrimaryCtxRelease");
}

std::string Driver::words(int code) const {
  const char *text = nullptr;
  if (cuGetErrorString == nullptr || cuGetErrorString(code, &text) != 0 || text == nullptr)
    text = "?";
  return std::string(text) + " (" + std::to_string(code) + ")";
}

void Driver::must(int code, const char *call) const {
  if (code != 0) give_up(std::string(call) + ": " + words(code));
}

int Driver::attribute(int which) const {
  int value = 0;
  return cuDeviceGetAttribute(&value, which, device()) == 0 ? value : 0;
}

GranuleProperties Driver::properties() const {
  constexpr int pinned = 1;
  GranuleProperties wanted{};
  wanted.type = pinned;
  wanted.place = {on_device, device()};
  return wanted;
}

void Driver::introduce(const DriverSettings &settings) const {
  char name[128] = "";
  must(cuDeviceGetName(name, sizeof name, device()), "cuDeviceGetName");
  int version = 0;
  must(cuDriverGetVersion(&version), "cuDriverGetVersion");
  size_t free_bytes = 0, total = 0;
  must(cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo");
  Json("driver")
      .count("schema", 1)
      .text("device", name)
      .count("driver_version", static_cast<uint64_t>(version))
      .count("devices", static_cast<uint64_t>(devices_))
      .count("real", real_ ? 1 : 0)
      .count("memory_total_bytes", total)
      .count("memory_free_bytes", free_bytes)
      .count("repetitions", static_cast<uint64_t>(settings.repetitions))
      .print();
}

Json Driver::begin(const char *benchmark, const char *what, const char *yardstick) const {
  Json json(benchmark);
  json.text("what", what).text("yardstick", yardstick);
  return json;
}

void Driver::say(Json json, const Pair &pair, size_t samples, const char *unit) const {
  json.number("ratio", pair.ratio)
      .number("ratio_low", pair.ratio_low)
      .number("ratio_high", pair.ratio_high)
      .count("samples", samples);
  if (real_) {
    json.number("value", pair.subject).number("yardstick_value", pair.yardstick).text("unit", unit);
  }
  json.print();
}

void Driver::skip(Json json, const std::string &reason) {
  json.text("skipped", reason.c_str()).print();
}

PlainCopy::PlainCopy(const Driver &driver, uint64_t bytes) : driver_(driver) {
  driver_.must(driver_.cuMemHostAlloc(&host_, bytes, 0), "cuMemHostAlloc");
  std::memset(host_, 1, bytes);
  driver_.must(driver_.cuMemAlloc(&device_, bytes), "cuMemAlloc");
  driver_.must(driver_.cuStreamCreate(&stream_, 1), "cuStreamCreate");
  (void)up_ns(bytes);
}

PlainCopy::~PlainCopy() {
  driver_.must(driver_.cuStreamDestroy(stream_), "cuStreamDestroy");
  driver_.must(driver_.cuMemFree(device_), "cuMemFree");
  driver_.must(driver_.cuMemFreeHost(host_), "cuMemFreeHost");
}

double PlainCopy::copy_ns(uint64_t to, uint64_t from, uint64_t bytes) const {
  const double start = now_ns();
  driver_.must(driver_.cuMemcpyAsync(to, from, bytes, stream_), "cuMemcpyAsync");
  driver_.must(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return now_ns() - start;
}

Work::Work(const Driver &driver, double ms) : driver_(driver), ns_(ms * 1e6) {
  driver_.must(driver_.cuStreamCreate(&stream_, 1), "cuStreamCreate");
  constexpr int multiprocessors = 16;
  if (driver_.cuModuleLoadData == nullptr || driver_.cuLaunchKernel == nullptr ||
      driver_.cuModuleLoadData(&module_, kernels_ptx) != 0)
    return;
  driver_.must(driver_.cuModuleGetFunction(&kernel_, module_, "weir_bench_compute"),
               "cuModuleGetFunction");
  blocks_ = static_cast<uint32_t>(std::max(1, driver_.attribute(multiprocessors))) * 4;
  driver_.must(driver_.cuMemAlloc(&out_, uint64_t{blocks_} * threads * sizeof(float)),
               "cuMemAlloc");
  calibrate();
}

Work::~Work() {
  driver_.must(driver_.cuStreamDestroy(stream_), "cuStreamDestroy");
  if (out_ != 0) driver_.must(driver_.cuMemFree(out_), "cuMemFree");
  if (module_ != nullptr) driver_.must(driver_.cuModuleUnload(module_), "cuModuleUnload");
}

void Work::calibrate() {
  const double wanted = ns_;
  (void)timed();
  for (int i = 0; i < 5; ++i) {
    const double more = std::clamp(wanted / std::max(timed(), 1.0), 0.01, 200.0);
    rounds_ = static_cast<uint32_t>(std::clamp(rounds_ * more, 1.0, 4e9));
  }
  ns_ = timed();
}

double Work::timed() {
  const double start = now_ns();
  launch();
  wait();
  return now_ns() - start;
}

void Work::start() { launch(); }

void Work::launch() {
  if (kernel_ != nullptr) {
    void *parameters[] = {&out_, &rounds_};
    driver_.must(driver_.cuLaunchKernel(kernel_, blocks_, 1, 1, threads, 1, 1, 0, stream_,
                                        parameters, nullptr),
                 "cuLaunchKernel");
    return;
  }
  if (driver_.cuLaunchHostFunc == nullptr)
    give_up("the driver runs neither kernels nor host functions");
  const auto sleep = [](void *ns) {
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(static_cast<int64_t>(*static_cast<double *>(ns))));
  };
  driver_.must(driver_.cuLaunchHostFunc(stream_, sleep, &ns_), "cuLaunchHostFunc");
}

bool Work::running() const {
  const int code = driver_.cuStreamQuery(stream_);
  if (code != not_ready) driver_.must(code, "cuStreamQuery");
  return code == not_ready;
}

void Work::wait() const {
  driver_.must(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace weir::bench
