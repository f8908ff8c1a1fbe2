// SPDX-License-Identifier: Apache-2.0
//
// Names: where they are cut, and what is shown of bytes that are no text. Every one, two and three bytes there are, against a decoder
// written the other way round.

#include "core/base/name.hpp"

#include "tests/support/cmocka.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

using namespace weir;

/// As many bytes as the encoding of a code point has that these decode to, and that encodes to these; 0: none.
size_t by_encoding(const unsigned char *bytes, size_t count) {
  for (size_t length = 1; length <= 4 && length <= count; ++length) {
    const uint32_t lead_bits[] = {0, 7, 5, 4, 3};
    uint32_t point = bytes[0] & ((1U << lead_bits[length]) - 1);
    bool tail = true;
    for (size_t i = 1; i < length; ++i) {
      tail = tail && (bytes[i] & 0xc0U) == 0x80;
      point = point << 6U | (bytes[i] & 0x3fU);
    }
    if (!tail || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) continue;
    unsigned char made[4];
    size_t size = 0;
    if (point < 0x80) {
      made[size++] = static_cast<unsigned char>(point);
    } else if (point < 0x800) {
      made[size++] = static_cast<unsigned char>(0xc0 | point >> 6U);
    } else if (point < 0x10000) {
      made[size++] = static_cast<unsigned char>(0xe0 | point >> 12U);
      made[size++] = static_cast<unsigned char>(0x80 | (point >> 6U & 0x3f));
    } else {
      made[size++] = static_cast<unsigned char>(0xf0 | point >> 18U);
      made[size++] = static_cast<unsigned char>(0x80 | (point >> 12U & 0x3f));
      made[size++] = static_cast<unsigned char>(0x80 | (point >> 6U & 0x3f));
    }
    if (point >= 0x80) made[size++] = static_cast<unsigned char>(0x80 | (point & 0x3f));
    if (size == length && std::memcmp(made, bytes, length) == 0) return length;
  }
  return 0;
}

void compare(const unsigned char *bytes, size_t count) {
  const size_t wanted = by_encoding(bytes, count);
  const size_t found = utf8_character({reinterpret_cast<const char *>(bytes), count});
  if (found != wanted)
    fail_msg("%02x %02x %02x %02x (%zu): %zu, not %zu", bytes[0], bytes[1], bytes[2], bytes[3],
             count, found, wanted);
}

void characters_are_recognised(void **) {
  assert_int_equal(utf8_character({}), 0);
  unsigned char bytes[4] = {0, 0, 0, 0x80};
  for (uint32_t all = 0; all < 1U << 24U; ++all) {
    bytes[0] = static_cast<unsigned char>(all >> 16U);
    bytes[1] = static_cast<unsigned char>(all >> 8U);
    bytes[2] = static_cast<unsigned char>(all);
    if (bytes[2] != 0 && bytes[2] != 0x7f && bytes[2] != 0x80 && bytes[2] != 0xbf &&
        bytes[2] != 0xc0)
      continue;  // of the third byte its borders
    for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{4}}) compare(bytes, count);
    bytes[3] = static_cast<unsigned char>(bytes[3] == 0x80 ? 0xbf : bytes[3] == 0xbf ? 0x7f : 0x80);
  }
}

std::string shown_in(std::string_view name, size_t capacity) {
  std::string text(capacity + 1, '#');
  const size_t length = show_name(name, text.data(), capacity);
  assert_true(length < capacity);
  assert_int_equal(text[length], 0);
  assert_int_equal(text[capacity], '#');
  return text.substr(0, length);
}

void what_is_no_text_is_escaped(void **) {
  const std::pair<std::string_view, const char *> cases[] = {
      {"weights", "weights"},
      {"Gewicht \xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8a",
       "Gewicht \xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8a"},
      {"a\nb\x1b[2Jc\x7f", "a\\x0ab\\x1b[2Jc\\x7f"},
      {"\xc2\x9b"
       "2J",
       "\\xc2\\x9b"
       "2J"},  // a control character of two bytes
      {"\xc2\xa0", "\xc2\xa0"},
      {"\xff\xfe", "\\xff\\xfe"},
      {"\xc0\xaf", "\\xc0\\xaf"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},
      {std::string_view("nul\0in", 6), "nul\\x00in"}};
  for (const auto &[name, wanted] : cases) {
    assert_string_equal(shown(name).c_str(), wanted);
    assert_string_equal(shown_in(name, 100).c_str(), wanted);
  }
}

void what_does_not_fit_ends_in_dots(void **) {
  assert_string_equal(shown_in("1234567", 8).c_str(), "1234567");
  assert_string_equal(shown_in("12345678", 8).c_str(), "1234...");
  assert_string_equal(shown_in("1234\xe2\x82\xac"
                               "5",
                               8)
                          .c_str(),
                      "1234...");
  assert_string_equal(shown_in("123\xff", 8).c_str(), "123\\xff");
  assert_string_equal(shown_in("1234\xff", 8).c_str(), "1234...");
  assert_string_equal(shown_in("\xff\xff", 8).c_str(), "\\xff...");
  assert_string_equal(shown_in("12345", 4).c_str(), "...");
  assert_string_equal(QuotedName("w").c_str(), " \"w\"");
  assert_string_equal(QuotedName("").c_str(), "");
  const std::string quoted = QuotedName(std::string(300, 'x')).c_str();
  assert_true(quoted.size() == 79 && quoted.ends_with("xxx...\""));
  // Wherever it is cut, nothing follows the quote.
  for (size_t before = 50; before < 90; ++before) {
    for (const char *piece : {"x", "\xf0\x9f\x8c\x8a", "\xff"}) {
      const std::string name = std::string(before, 'a') + piece + "bcdefghijklmnopqrstuvwxyz";
      const std::string text = QuotedName(name).c_str();
      assert_true(text.ends_with(shown(name).size() <= 76 ? "z\"" : "...\""));
      assert_int_equal(std::count(text.begin(), text.end(), '"'), 2);
    }
  }
}

void names_are_cut_between_characters(void **) {
  assert_true(kept_name(nullptr).empty());
  assert_true(kept_name("").empty());
  const std::string full(255, 'n');
  assert_true(kept_name(full.c_str()) == full);
  assert_true(kept_name((full + "n").c_str()) == full);
  for (const char *character : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x8c\x8a"}) {
    const size_t length = std::strlen(character);
    for (size_t before = 255 - length; before <= 255; ++before) {
      const std::string start(before, 'n');
      const bool fits = before + length <= 255;
      assert_true(kept_name((start + character + "end").c_str()) ==
                  (fits ? (start + character + "end").substr(0, 255) : start.substr(0, 255)));
    }
  }
  // Bytes that are no text are cut where they are.
  const std::string none(300, '\xff');
  assert_int_equal(kept_name(none.c_str()).size(), 255);
  assert_int_equal(kept_name((std::string(254, 'n') + "\xe2"
                                                      "abc")
                                 .c_str())
                       .size(),
                   255);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(characters_are_recognised),
      cmocka_unit_test(what_is_no_text_is_escaped),
      cmocka_unit_test(what_does_not_fit_ends_in_dots),
      cmocka_unit_test(names_are_cut_between_characters),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
