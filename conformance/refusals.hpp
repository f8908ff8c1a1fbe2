// SPDX-License-Identifier: Apache-2.0
//
// One table of calls that must be refused: what a comment of the interface does not allow and a backend can see, and what no
// device has. Each is made from good things that stand (standing.hpp), so that one argument alone is wrong. Dead and made up
// handles and addresses are not tried; 0 and NULL, which are none, are.
#pragma once

#include "conformance/standing.hpp"

#include <vector>

namespace weir::conformance {

/// Every output that there is, and whether something was written.
class Outs {
 public:
  struct Values {
    uint64_t a, b;
    void *memory;
    weir_be_stream stream;
    weir_be_fence fence;
    weir_be_granule granule;
    int32_t fd;
    uint32_t reserved;
    weir_be_device about;
    weir_be_link link;
    weir_be_fabric_handle handle;
  };
  Outs() noexcept;
  bool untouched_still() const noexcept;
  Values is;

 private:
  Values was_;
};

struct Refusal {
  const char *entry;
  const char *why;
  Needs needs;     ///< of the device that stands
  bool peer;       ///< needs one that the device reaches
  bool by_number;  ///< refused because of the device's number, which the call is told
  Want want;
  bool (*there)(const weir_backend_table &);
  weir_result (*call)(const Standing &s, Outs::Values &o, uint32_t number);

  bool applies(const Standing &s) const;
  std::string text(const Standing &s) const;
  /// Makes the call and judges its result and its outputs.
  Outcome judge(const Standing &s, uint32_t number) const;
  /// Makes the call for what comes after it: any error will do.
  Outcome make(const Standing &s) const;
};

const std::vector<Refusal> &refusals();

}  // namespace weir::conformance
