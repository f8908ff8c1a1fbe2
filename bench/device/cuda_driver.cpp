// SPDX-License-Identifier: Apache-2.0
//
// The driver's functions, each looked up once, in the form of the version that has our signature.

#include "bench/device/cuda_driver.hpp"

#include "bench/look_up.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace weir::bench {

struct CudaDriver::Calls {
  int (*init)(unsigned flags);
  int (*error_string)(int result, const char **text);
  int (*device_get)(int *device, int ordinal);
  int (*attribute)(int *value, int attribute, int device);
  int (*retain)(void **context, int device);
  int (*release)(int device);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*module_load)(void **module, const void *image, unsigned count, int *options, void **values);
  int (*module_unload)(void *module);
  int (*function)(Function *function, void *module, const char *name);
  int (*launch)(Function kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, void *stream,
                void **parameters, void **extra);
  int (*synchronize)(void *stream);
  int (*allocate)(uint64_t *address, size_t bytes, void *stream);
  int (*free)(uint64_t address, void *stream);
  int (*pool_of)(void **pool, int device);
  int (*pool_set)(void *pool, int attribute, void *value);

  /// The first name that the driver lacks, or nullptr.
  const char *find(const LookUp &look_up) {
    const auto get = [&](const char *name, int version, auto *slot) -> const char * {
      return look_up.find(name, version, slot) ? nullptr : name;
    };
    for (const char *missing :
         {get("cuInit", 2000, &init), get("cuGetErrorString", 6000, &error_string),
          get("cuDeviceGet", 2000, &device_get), get("cuDeviceGetAttribute", 2000, &attribute),
          get("cuDevicePrimaryCtxRetain", 7000, &retain),
          get("cuDevicePrimaryCtxRelease", 11000, &release), get("cuCtxPushCurrent", 4000, &push),
          get("cuCtxPopCurrent", 4000, &pop), get("cuModuleLoadDataEx", 2010, &module_load),
          get("cuModuleUnload", 2000, &module_unload), get("cuModuleGetFunction", 2000, &function),
          get("cuLaunchKernel", 4000, &launch), get("cuStreamSynchronize", 2000, &synchronize),
          get("cuMemAllocAsync", 11020, &allocate), get("cuMemFreeAsync", 11020, &free),
          get("cuDeviceGetDefaultMemPool", 11020, &pool_of),
          get("cuMemPoolSetAttribute", 11020, &pool_set)}) {
      if (missing != nullptr) return missing;
    }
    return nullptr;
  }
};

std::unique_ptr<CudaDriver> CudaDriver::open(std::string *reason) {
  void *library = open_cuda();
  if (library == nullptr) {
    *reason = dlerror();
    return nullptr;
  }
  if (dlsym(library, "weir_sim_configure") != nullptr) {
    *reason = "the CUDA driver is simulated: it runs no kernels";
    return nullptr;
  }
  auto calls = std::make_unique<Calls>();
  if (const char *missing = calls->find(LookUp(library)); missing != nullptr) {
    *reason = std::string("the CUDA driver has no ") + missing;
    return nullptr;
  }
  std::unique_ptr<CudaDriver> driver(new CudaDriver);
  driver->calls_ = std::move(calls);
  driver->library_ = library;
  Calls &call = *driver->calls_;
  constexpr int multiprocessor_count = 16;
  int count = 0;
  driver->must(call.init(0), "cuInit");
  driver->must(call.device_get(&driver->device_, 0), "cuDeviceGet");
  driver->must(call.attribute(&count, multiprocessor_count, driver->device_),
               "cuDeviceGetAttribute");
  driver->must(call.retain(&driver->context_, driver->device_), "cuDevicePrimaryCtxRetain");
  driver->must(call.push(driver->context_), "cuCtxPushCurrent");
  driver->multiprocessors_ = static_cast<uint32_t>(count);
  driver->keep_freed_memory();
  return driver;
}

CudaDriver::~CudaDriver() {
  if (context_ == nullptr) return;
  if (module_ != nullptr) must(calls_->module_unload(module_), "cuModuleUnload");
  void *popped = nullptr;
  must(calls_->pop(&popped), "cuCtxPopCurrent");
  must(calls_->release(device_), "cuDevicePrimaryCtxRelease");
}

void CudaDriver::must(int result, const char *call) const {
  if (result == 0) return;
  const char *text = nullptr;
  (void)calls_->error_string(result, &text);
  std::fprintf(stderr, "bench_device: %s: %s (%d)\n", call, text != nullptr ? text : "?", result);
  std::exit(1);
}

void CudaDriver::keep_freed_memory() const {
  constexpr int release_threshold = 4;
  void *pool = nullptr;
  uint64_t everything = UINT64_MAX;
  must(calls_->pool_of(&pool, device_), "cuDeviceGetDefaultMemPool");
  must(calls_->pool_set(pool, release_threshold, &everything), "cuMemPoolSetAttribute");
}

void CudaDriver::load(const char *ptx) {
  constexpr int error_log = 5, error_log_size = 6;
  std::vector<char> log(8192, '\0');
  int options[] = {error_log, error_log_size};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  const int result = calls_->module_load(&module_, ptx, 2, options, values);
  if (result != 0) std::fprintf(stderr, "%.*s\n", static_cast<int>(log.size()), log.data());
  must(result, "cuModuleLoadDataEx");
}

CudaDriver::Function CudaDriver::kernel(const char *name) const {
  Function function = nullptr;
  must(calls_->function(&function, module_, name), "cuModuleGetFunction");
  return function;
}

void CudaDriver::launch(Function kernel, uint32_t blocks, uint32_t threads, void *stream,
                        void **parameters) const {
  must(calls_->launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
       "cuLaunchKernel");
}

void CudaDriver::synchronize(void *stream) const {
  must(calls_->synchronize(stream), "cuStreamSynchronize");
}

uint64_t CudaDriver::allocate(uint64_t bytes, void *stream) const {
  uint64_t address = 0;
  must(calls_->allocate(&address, bytes, stream), "cuMemAllocAsync");
  return address;
}

void CudaDriver::free(uint64_t address, void *stream) const {
  must(calls_->free(address, stream), "cuMemFreeAsync");
}

}  // namespace weir::bench
