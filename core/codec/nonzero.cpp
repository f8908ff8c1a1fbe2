// SPDX-License-Identifier: Apache-2.0
//
// Whole groups by SPARSE's kernels where they lie, and what is left as one more group, filled up with zeros.

#include "core/codec/nonzero.hpp"

#include "core/codec/little_endian.hpp"

#include <cassert>
#include <cstring>

namespace weir::codec {

uint64_t take_zeros_out(const unsigned char *in, uint64_t count, uint32_t width,
                        unsigned char *bitmap, unsigned char *kept, CpuLevel level) noexcept {
  assert(width == 1 || width == 2 || width == 4 || width == 8);
  const SparseKernels &kernels = sparse_kernels(width, level);
  const uint64_t groups = count / sparse_group, rest = count % sparse_group;
  uint64_t nonzeros = kernels.mark(in, groups, bitmap);
  unsigned char *const end = kernels.pack(in, groups, bitmap, kept);
  if (rest == 0) return nonzeros;
  unsigned char last[sparse_group * 8] = {}, map[sparse_group / 8];
  std::memcpy(last, in + groups * sparse_group * width, rest * width);
  nonzeros += kernels.mark(last, 1, map);
  (void)kernels.pack(last, 1, map, end);
  std::memcpy(bitmap + 8 * groups, map, bitmap_bytes(rest));
  return nonzeros;
}

uint64_t kept_of(const unsigned char *bitmap, uint64_t count) noexcept {
  const uint64_t groups = count / sparse_group, rest = count % sparse_group;
  unsigned char last[8] = {};
  std::memcpy(last, bitmap + 8 * groups, bitmap_bytes(rest));
  if (rest == 0 || load_little<uint64_t>(last) >> rest == 0) {
    const SparseKernels &kernels = sparse_kernels(1, cpu_level());
    return kernels.count(bitmap, groups) + kernels.count(last, 1);
  }
  return UINT64_MAX;
}

void put_zeros_back(const unsigned char *bitmap, uint64_t count, uint32_t width,
                    const unsigned char *kept, unsigned char *out, CpuLevel level) noexcept {
  const SparseKernels &kernels = sparse_kernels(width, level);
  const uint64_t groups = count / sparse_group, rest = count % sparse_group;
  const unsigned char *const from = kernels.unpack(kept, groups, bitmap, out, false);
  if (rest == 0) return;
  unsigned char last[sparse_group * 8], map[8] = {};
  std::memcpy(map, bitmap + 8 * groups, bitmap_bytes(rest));
  (void)kernels.unpack(from, 1, map, last, false);
  std::memcpy(out + groups * sparse_group * width, last, rest * width);
}

}  // namespace weir::codec
