// SPDX-License-Identifier: Apache-2.0
//
// Merging of uses: a sweep over the edges of one block's ranges. Most operations name each block
// once, so that case costs a sort and no more.
#include "operation_uses.hpp"

#include <algorithm>

namespace weir::tool {
namespace {

UseMode mode_of(PlanKind kind) {
  switch (plan_mode(kind)) {
    case plan_read:
      return UseMode::read;
    case plan_write:
      return UseMode::overwrite;
    default:
      return UseMode::update;
  }
}

/// One use a block: the hull of its uses.
void hulls(std::vector<BlockUse> &uses) {
  size_t kept = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (kept != 0 && uses[kept - 1].block == uses[i].block) {
      BlockUse &hull = uses[kept - 1];
      hull.length = uses[i].offset + uses[i].length - hull.offset;
      if (hull.mode != UseMode::read || uses[i].mode != UseMode::read) hull.mode = UseMode::update;
    } else {
      uses[kept++] = uses[i];
    }
  }
  uses.resize(kept);
}

}  // namespace

void UseMerger::merge(const Plan &plan, const PlanOperation &operation,
                      std::vector<BlockUse> &out) {
  raw_.clear();
  out.clear();
  uint64_t span = operation.spans;
  for (uint64_t i = operation.body; i < operation.end; ++i) {
    const PlanKind kind = plan_kind(plan.events[i]);
    if (!plan_is_use(kind)) continue;
    BlockUse &use = raw_.emplace_back();
    use.block = plan_block(plan.events[i]);
    use.mode = mode_of(kind);
    use.length = plan.block_bytes[use.block];
    if (plan_has_span(kind)) {
      use.offset = plan.spans[span].offset;
      use.length = plan.spans[span].length;
      ++span;
    }
  }
  const auto earlier = [](const BlockUse &a, const BlockUse &b) {
    return a.block != b.block ? a.block < b.block : a.offset < b.offset;
  };
  if (!std::is_sorted(raw_.begin(), raw_.end(), earlier))
    std::sort(raw_.begin(), raw_.end(), earlier);
  for (size_t begin = 0; begin < raw_.size();) {
    size_t end = begin + 1;
    while (end < raw_.size() && raw_[end].block == raw_[begin].block) ++end;
    if (end == begin + 1)
      out.push_back(raw_[begin]);
    else
      merge_block(begin, end, out);
    begin = end;
  }
  if (out.size() > limit) hulls(out);
}

void UseMerger::merge_block(size_t begin, size_t end, std::vector<BlockUse> &out) {
  edges_.clear();
  for (size_t i = begin; i < end; ++i) {
    const BlockUse &use = raw_[i];
    const int32_t reads = use.mode != UseMode::overwrite ? 1 : 0;
    const int32_t writes = use.mode != UseMode::read ? 1 : 0;
    edges_.push_back({use.offset, reads, writes});
    edges_.push_back({use.offset + use.length, -reads, -writes});
  }
  std::sort(edges_.begin(), edges_.end(), [](const Edge &a, const Edge &b) { return a.at < b.at; });
  const uint32_t block = raw_[begin].block;
  const size_t first = out.size();
  int32_t reads = 0;
  int32_t writes = 0;
  uint64_t from = 0;
  for (const Edge &edge : edges_) {
    if (edge.at != from && (reads != 0 || writes != 0)) {
      const UseMode mode = writes == 0  ? UseMode::read
                           : reads == 0 ? UseMode::overwrite
                                        : UseMode::update;
      if (out.size() > first && out.back().mode == mode &&
          out.back().offset + out.back().length == from)
        out.back().length += edge.at - from;
      else
        out.push_back({from, edge.at - from, block, mode});
    }
    from = edge.at;
    reads += edge.reads;
    writes += edge.writes;
  }
}

}  // namespace weir::tool
