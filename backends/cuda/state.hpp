// SPDX-License-Identifier: Apache-2.0
//
// One start of the backend: the driver, its devices, and everything made on them. Several may exist; each retains the
// devices' contexts for itself. Ends everything that is left, in the order in which it can.
#pragma once

#include "backends/cuda/copies.hpp"
#include "backends/cuda/granules.hpp"
#include "backends/cuda/links.hpp"

#include <optional>
#include <string>

struct weir_be_state {
  weir_be_state() = default;
  ~weir_be_state();
  weir_be_state(const weir_be_state &) = delete;
  weir_be_state &operator=(const weir_be_state &) = delete;

  /// On failure *reason says why.
  weir_result open(const weir_be_start &desc, std::string *reason);

  weir_result device(uint32_t index, weir::cuda::Device **found) noexcept;
  /// The context for what belongs to no device: of one in use, or else of the first. It is chosen once, as what is made in
  /// a context is ended in the same.
  weir_result host_context(weir::cuda::abi::Context *context);
  weir::cuda::Granules granules(weir::cuda::Device &device) noexcept { return {api, device}; }

  weir_log_callback log = nullptr;
  void *log_user = nullptr;
  char version[16] = "";
  weir::cuda::Options options;
  weir::cuda::Api api;
  weir::common::RangeTable ranges;  ///< of all devices: unified addressing has one address space
  std::vector<std::unique_ptr<weir::cuda::Device>> devices;
  std::atomic<weir::cuda::abi::Context> chosen_host_context{nullptr};
  weir::cuda::HostMemory host{api};
  weir::cuda::Links links{api};
  std::optional<weir::cuda::Streams> streams;
  std::optional<weir::cuda::Copies> copies;
};
