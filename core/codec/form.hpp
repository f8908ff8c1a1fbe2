// SPDX-License-Identifier: Apache-2.0
//
// Form: what the elements of a block are taken for. A guess never costs correctness: every method gives back the same
// bytes whatever form it was told. The numbers stand in blobs: never reused.
#pragma once

#include <cstdint>

namespace weir::codec {

enum class Form : uint8_t { bytes = 0, f16 = 1, bf16 = 2, f32 = 3, f64 = 4 };
constexpr uint32_t form_count = 5;

constexpr uint32_t element_bytes(Form form) {
  if (form == Form::f64) return 8;
  if (form == Form::f32) return 4;
  return form == Form::f16 || form == Form::bf16 ? 2 : 1;
}

}  // namespace weir::codec
