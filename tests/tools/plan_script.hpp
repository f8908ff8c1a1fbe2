// SPDX-License-Identifier: Apache-2.0
//
// PlanScript: builds plans an operation at a time, for tests of what walks a plan.
#pragma once

#include "tools/weir/plan.hpp"

#include <cstdint>
#include <vector>

namespace weir::test {

struct ScriptUse {
  uint32_t block;
  tool::PlanKind kind;
  tool::PlanSpan span{};  ///< of the *_span kinds
};

class PlanScript {
 public:
  void birth(uint64_t bytes) {
    const auto block = static_cast<uint32_t>(plan_.block_bytes.size());
    plan_.events.push_back(block << 3 | tool::plan_alloc);
    plan_.block_bytes.push_back(bytes);
  }
  void operation(const std::vector<ScriptUse> &uses, const std::vector<uint32_t> &frees = {},
                 uint64_t flops = 0) {
    tool::PlanOperation &operation = plan_.operations.emplace_back();
    operation.prelude = prelude_;
    operation.body = plan_.events.size();
    operation.spans = plan_.spans.size();
    operation.flops = flops;
    for (const ScriptUse &use : uses) {
      plan_.events.push_back(use.block << 3 | use.kind);
      if (tool::plan_has_span(use.kind)) plan_.spans.push_back(use.span);
    }
    for (const uint32_t block : frees) plan_.events.push_back(block << 3 | tool::plan_free);
    operation.end = prelude_ = plan_.events.size();
  }
  const tool::Plan &plan() const { return plan_; }

 private:
  tool::Plan plan_;
  uint64_t prelude_ = 0;
};

}  // namespace weir::test
