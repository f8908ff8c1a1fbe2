// SPDX-License-Identifier: Apache-2.0
//
// The plan for quick coding of a block, from runs of neighbours all over it: about a thousand elements, since this is
// done for every block. Differences are worth trying packed, and in no other way.

#include "core/codec/bit_planes.hpp"
#include "core/codec/elements.hpp"
#include "core/codec/entropy.hpp"
#include "core/codec/nonzero.hpp"
#include "core/codec/plane_methods.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir::codec {
namespace {

/// A group's elements, and what their differences are from.
constexpr uint64_t runs = 16, run = max_stride + bit_group;
constexpr uint64_t most = runs * run;

/// The runs, one behind the other.
struct Sample {
  unsigned char bytes[most * max_planes];
  uint64_t elements = 0, zeros = 0, negative = 0;
  uint64_t packed = 0;                 ///< elements of which there are differences ...
  uint64_t bits[max_stride + 1] = {};  ///< ... and the bits those would be packed to, by stride

  Sample(const unsigned char *in, uint64_t count, uint32_t width) noexcept {
    const uint64_t spacing = count / runs;
    if (count <= most) add(in, count, width);
    for (uint64_t i = 0; count > most && i < runs; ++i) {
      // At uneven distances, so that no period of the data hides.
      const uint64_t scattered = (i * 0x9E3779B97F4A7C15U >> 40U) % (spacing - run + 1);
      add(in + (i * spacing + scattered) * width, run, width);
    }
  }

  /// Of which differences take the fewest bits. plain: only where sums go on alike in each 16 bytes, which the wide kernels
  /// (packed_avx2.cpp) are made for; others take three times as long.
  uint8_t stride(uint32_t width, Effort effort) const noexcept {
    uint8_t best = 1;
    for (uint8_t apart = 2; apart <= max_stride; ++apart) {
      if (effort == Effort::plain && 16 % (width * apart) != 0) continue;
      if (bits[apart] < bits[best]) best = apart;
    }
    return best;
  }

 private:
  void add(const unsigned char *in, uint64_t count, uint32_t width) noexcept {
    if (count == 0) return;
    std::memcpy(bytes + elements * width, in, count * width);
    elements += count;
    with_element(width, [&]<class Element>(Element) { look<Element>(in, count); });
  }

  template <class Element>
  void look(const unsigned char *in, uint64_t count) noexcept {
    constexpr uint32_t top = 8 * sizeof(Element) - 1;
    const auto at = [in](uint64_t i) { return load_element<Element>(in + i * sizeof(Element)); };
    for (uint64_t i = 0; i < count; ++i) {
      zeros += at(i) == 0 ? 1 : 0;
      negative += at(i) >> top;
    }
    for (uint64_t group = max_stride; group + bit_group <= count; group += bit_group) {
      packed += bit_group;
      for (uint32_t apart = 1; apart <= max_stride; ++apart) {
        Element any = 0;
        for (uint64_t i = group; i < group + bit_group; ++i) {
          const auto difference = static_cast<Element>(at(i) - at(i - apart));
          any = static_cast<Element>(any |
                                     (difference ^ static_cast<Element>(0 - (difference >> top))));
        }
        bits[apart] += any == 0 ? 0 : bit_group * static_cast<uint64_t>(std::bit_width(any) + 1);
      }
    }
  }
};

/// As if zeros were strewn at random.
void add_bitmap(const Sample &sample, uint64_t count, QuickPlan *result) noexcept {
  const auto times_log = [](uint64_t value) {
    return value * log2_fixed(static_cast<uint32_t>(value)) >> 16U;
  };
  const uint64_t bits = times_log(sample.elements) - times_log(sample.zeros) -
                        times_log(sample.elements - sample.zeros);
  const uint64_t bytes = bitmap_bytes(count);
  const bool pays = entropy_pays(8 * bits, sample.elements, Effort::quick);
  result->bytes += pays ? std::max(bytes * bits / sample.elements, bytes / 8) : bytes;
  result->coded += pays ? bytes : 0;
}

/// What a plan without differences would come to for `count` elements.
QuickPlan estimate(const Sample &sample, uint64_t count, const PlanesPlan &plan,
                   Effort effort) noexcept {
  const PlaneLayout layout = plan.layout();
  unsigned char bitmap[bitmap_bytes(most)], nonzeros[most * max_planes + sparse_reach];
  unsigned char planes[most * max_planes];
  QuickPlan result{plan, planes_header_bytes + planes_entry_bytes * (layout.width + 1U), 0};
  const unsigned char *from = sample.bytes;
  uint64_t kept = sample.elements;
  if (plan.zeros) {
    add_bitmap(sample, count, &result);
    kept = take_zeros_out(from, kept, layout.width, bitmap, nonzeros);
    from = nonzeros;
  }
  if (kept == 0) return result;
  split(from, kept, layout, planes);
  const uint64_t elements = count * kept / sample.elements;
  for (uint32_t k = 0; k < layout.width; ++k) {
    if (effort == Effort::plain) {  // one value, or as it is
      const unsigned char *const plane = planes + k * kept;
      result.bytes += std::memcmp(plane, plane + 1, kept - 1) == 0 ? 1 : elements;
      continue;
    }
    ByteCounts counts{};
    count_bytes(planes + k * kept, kept, &counts);
    const uint64_t bits = huffman_bits(counts) >> 16U;
    const bool pays = entropy_pays(bits, kept, effort);
    result.bytes += pays ? elements * bits / kept / 8 : elements;
    result.coded += pays && bits > 0 ? elements : 0;
  }
  return result;
}

}  // namespace

/// Differences and what is of one sign are not rotated: there the lowest bit is better left what it is.
QuickPlan quick_plan(Form form, const unsigned char *in, uint64_t raw, Effort effort) noexcept {
  const uint32_t width = element_bytes(form);
  const uint64_t count = std::min(raw, max_block_bytes) / width;
  const Sample sample(in, count, width);
  const uint64_t positive = sample.elements - sample.negative;
  const bool one_sign = std::min(sample.negative, positive) < sample.elements / 32;
  QuickPlan best = estimate(sample, count, {form, one_sign, false, 0}, effort);
  // Without entropy coding SPARSE does better.
  if (effort != Effort::plain && sample.zeros > sample.elements / 8) {
    const QuickPlan other = estimate(sample, count, {form, one_sign, true, 0}, effort);
    if (other.bytes < best.bytes) best = other;
  }
  // Bytes are put together at a third of LZ4's speed: a group of them is too little for what it takes to find its bits.
  if (sample.packed == 0 || (effort == Effort::plain && width == 1)) return best;
  const uint8_t stride = sample.stride(width, effort);
  const uint64_t groups = count / bit_group, tail = raw - groups * bit_group * width;
  const uint64_t packed =
      planes_header_bytes + groups + sample.bits[stride] * groups * 8 / sample.packed + tail;
  // Huffman codes, which take several times as long, have to save more.
  if (packed < best.bytes + (best.coded > 0 ? raw / 16 : 0))
    best = {{form, true, false, stride, true}, packed, 0};
  return best;
}

}  // namespace weir::codec
