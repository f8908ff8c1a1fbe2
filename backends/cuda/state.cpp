// SPDX-License-Identifier: Apache-2.0
//
// Start and end.

#include "backends/cuda/state.hpp"

#include "backends/cuda/fault.hpp"

#include <cstdio>

using weir::cuda::Device;
using weir::cuda::refuse;
namespace abi = weir::cuda::abi;

weir_result weir_be_state::open(const weir_be_start &desc, std::string *reason) {
  log = desc.log;
  log_user = desc.log_user;
  WEIR_BACKEND_TRY(weir::cuda::parse_options(desc.options, &options, reason));
  WEIR_BACKEND_TRY(api.load(reason));
  std::snprintf(version, sizeof version, "%d.%d", api.version() / 1000, api.version() % 1000 / 10);
  const auto failed = [&](weir_result result) {
    *reason = weir::cuda::text_of(api, weir::common::last_native());
    return result;
  };
  const auto check = [&](abi::Result result, const char *call) {
    return result == abi::result::success
               ? WEIR_SUCCESS
               : failed(weir::cuda::failure(api, nullptr, result, "%s", call));
  };
  int count = 0;
  WEIR_BACKEND_TRY(check(api.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (count <= 0) {
    *reason = "CUDA driver " + std::string(version) + " found, but no device it can use";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  std::vector<abi::Device> handles(static_cast<size_t>(count));
  for (uint32_t i = 0; i < handles.size(); ++i) {
    WEIR_BACKEND_TRY(check(api.cuDeviceGet(&handles[i], static_cast<int>(i)), "cuDeviceGet"));
    devices.push_back(std::make_unique<Device>(api, options, ranges, i));
    if (const weir_result result = devices[i]->open(handles[i]); result != WEIR_SUCCESS)
      return failed(result);
    const std::string &remark = devices[i]->remark();
    if (log != nullptr && !remark.empty()) {
      log(log_user, WEIR_LOG_WARNING, ("cuda: " + remark).c_str());
    }
  }
  for (const auto &each : devices) {
    if (const weir_result result = each->open_peers(handles); result != WEIR_SUCCESS)
      return failed(result);
  }
  streams.emplace(api, static_cast<uint32_t>(devices.size()));
  copies.emplace(api, *streams, host);
  return WEIR_SUCCESS;
}

weir_be_state::~weir_be_state() {
  if (!streams) return;  // nothing was started, and the driver is not to be called
  streams->clear();
  for (const auto &each : devices) {
    if (each->known_context() == nullptr) continue;
    granules(*each).clear();
    plain_clear(api, *each);
  }
  for (const auto &each : devices) granules(*each).clear_ranges();
  if (const abi::Context context = chosen_host_context.load(); context != nullptr)
    host.clear(context);
  for (const auto &each : devices) each->release();
}

weir_result weir_be_state::device(uint32_t index, Device **found) noexcept {
  if (index >= devices.size()) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "there is no device %u, only %zu of them", index,
                  devices.size());
  }
  *found = devices[index].get();
  return WEIR_SUCCESS;
}

weir_result weir_be_state::host_context(abi::Context *context) {
  abi::Context chosen = chosen_host_context.load(std::memory_order_acquire);
  if (chosen == nullptr) {
    abi::Context offered = nullptr;
    for (const auto &each : devices) {
      if (offered == nullptr) offered = each->known_context();
    }
    if (offered == nullptr) WEIR_BACKEND_TRY(devices.front()->context(&offered));
    if (chosen_host_context.compare_exchange_strong(chosen, offered)) chosen = offered;
  }
  *context = chosen;
  return WEIR_SUCCESS;
}
