// SPDX-License-Identifier: Apache-2.0
//
// For tests of weir_last_error_report: the text, what it has to have in it, and buffers with names.
#pragma once

#include "tests/unit/interleaving.hpp"

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace weir::test {

inline std::string report() {
  size_t needed = 0;
  ok(weir_last_error_report(nullptr, 0, &needed));
  std::string text(needed + 4096, '\0');
  ok(weir_last_error_report(text.data(), text.size(), &needed));
  text.resize(needed - 1);
  return text;
}

/// The report on the refusal that has just been answered has all of these words.
inline void expect_report(std::initializer_list<const char *> words) {
  const std::string before = weir_last_error(), text = report();
  for (const char *each : words)
    if (text.find(each) == std::string::npos) fail_msg("no \"%s\" in:\n%s", each, text.c_str());
  assert_true(text.starts_with(before));
  assert_string_equal(weir_last_error(), before.c_str());  // asking changes nothing
}

inline weir_buffer buffer(World &world, const char *name, uint64_t pages,
                          weir_client client = nullptr) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = pages * page_bytes;
  desc.name = name;
  desc.client = client;
  weir_buffer made = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &made));
  return made;
}

inline std::string amount(uint64_t pages) {
  return "(" + std::to_string(pages * page_bytes) + " bytes)";
}

inline void destroy_all(World &world, const std::vector<weir_buffer> &made) {
  for (weir_buffer each : made) ok(weir_buffer_destroy(world.pool, each));
}

}  // namespace weir::test
