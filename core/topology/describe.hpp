// SPDX-License-Identifier: Apache-2.0
//
// A machine in words and pictures: JSON for tools, a tree with a matrix and an SVG for people. Each reads the machine and
// nothing else; figures are one way, in powers of ten, and each is shown with where it is from.
#pragma once

#include "core/topology/machine.hpp"

#include <string>
#include <vector>

namespace weir::topology {

std::string describe_json(const Machine &machine);
std::string describe_text(const Machine &machine);
std::string describe_svg(const Machine &machine);

/// A row of the matrix: "D3" is device 3 of the context, "G3" a device that no backend offers.
struct Row {
  uint32_t device = none;  ///< index in Machine::devices(), or host_end
  std::string label;
};
/// The context's devices by their number, then the other devices; for a device with tiles its tiles, unless a backend offers it whole.
std::vector<Row> rows_of(const Machine &machine);

/// "150", "15.8", "0.25": gigabytes a second.
std::string gigabytes(uint64_t bandwidth);
/// "NV" for WEIR_LINK_NVLINK.
const char *short_name(uint32_t kind) noexcept;
/// "32 GiB", "67.5 MiB".
std::string memory_text(uint64_t bytes);

}  // namespace weir::topology
