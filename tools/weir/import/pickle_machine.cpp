// SPDX-License-Identifier: Apache-2.0
//
// Python's pickletools has the list of operations. A list may hold itself: a reader goes down into one no further than it knows its shape.
#include "tools/weir/import/pickle_machine.hpp"

#include "tools/weir/error.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <unordered_map>
#include <utility>

namespace weir::tool {
namespace {

using Type = PickleValue::Type;

/// Why an operation is not carried out: nullptr, it may be.
const char *refused_name(unsigned char code) {
  switch (code) {
    case 'c':
      return "GLOBAL";
    case 0x93:
      return "STACK_GLOBAL";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 0x81:
      return "NEWOBJ";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

/// Runs once.
class PickleMachine {
 public:
  /// All outlive it. Lists and dicts that it makes go to `lists`; `name` is for errors.
  PickleMachine(const std::string &bytes, const std::string &name, const PickleLimits &limits,
                std::vector<std::vector<PickleValue>> *lists)
      : bytes_(bytes), name_(name), limits_(limits), lists_(*lists) {}

  PickleValue run() {
    for (;;) {
      start_ = at_;
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') {
        if (stack_.size() != 1 || !marks_.empty()) refuse("it ends with more than one value");
        return stack_.back();
      }
      if (const char *name = refused_name(code)) refuse_call(code, name);
      if (!number(code) && !text(code) && !container(code) && !memory(code))
        refuse("an unknown opcode: " + std::to_string(code));
      if (stack_.size() > limits_.stack) refuse("more values at once than are allowed");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string &reason) const {
    throw ToolError("'" + name_ + "', byte " + std::to_string(start_) + ": " + reason);
  }

  /// GLOBAL says itself what it names.
  [[noreturn]] void refuse_call(unsigned char code, const std::string &name) {
    std::string what;
    if (code == 'c' || code == 'i') {
      const std::string_view module = line(), global = line();
      for (const char c :
           std::string(module.substr(0, 60)) + "." + std::string(global.substr(0, 60)))
        what += c > ' ' && c < 127 ? c : '?';
      what = " '" + what + "'";
    }
    refuse("it asks for " + name + what +
           ", which would run code: only plain data is read, nothing of this file was used");
  }

  // ---- the file ----

  const char *take(uint64_t count) {
    if (count > bytes_.size() - at_) refuse("the file is cut short");
    const char *data = bytes_.data() + at_;
    at_ += count;
    return data;
  }
  uint64_t little(unsigned count) {
    const char *data = take(count);
    uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i)
      value |= uint64_t{static_cast<unsigned char>(data[i])} << (8 * i);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) refuse("the file is cut short");
    const std::string_view text = std::string_view(bytes_).substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  // ---- the stack ----

  void push(PickleValue value) {
    if (++made_ > limits_.values) refuse("more values than are allowed");
    stack_.push_back(value);
  }
  void push_integer(int64_t number) {
    PickleValue value;
    value.type = Type::integer;
    value.integer = number;
    push(value);
  }
  void push_boolean(bool truth) {
    PickleValue value;
    value.type = Type::boolean;
    value.integer = truth ? 1 : 0;
    push(value);
  }
  void push_real(double number) {
    PickleValue value;
    value.type = Type::real;
    value.real = number;
    push(value);
  }
  void push_text(uint64_t length) {
    if (length > UINT32_MAX) refuse("a text of more than 4 GiB");
    PickleValue value;
    value.type = Type::text;
    value.at = static_cast<uint64_t>(take(length) - bytes_.data());
    value.length = static_cast<uint32_t>(length);
    push(value);
  }
  void push_list(Type type, std::vector<PickleValue> elements = {}) {
    PickleValue value;
    value.type = type;
    value.at = lists_.size();
    lists_.push_back(std::move(elements));
    depths_.push_back(1);
    for (const PickleValue &element : lists_.back()) deepen(value.at, element);
    push(value);
  }
  PickleValue pop() {
    if (stack_.size() <= floor()) refuse("it needs a value, and its stack is empty");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  /// What was pushed since the last mark.
  std::vector<PickleValue> pop_mark() {
    if (marks_.empty()) refuse("it goes back to a mark, and has set none");
    std::vector<PickleValue> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                    stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  std::vector<PickleValue> pop_some(size_t count) {
    std::vector<PickleValue> values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }
  const PickleValue &top(Type type) {
    if (stack_.size() <= floor() || stack_.back().type != type)
      refuse(type == Type::dict ? "it puts an item into what is no dict"
                                : "it puts something into what is no list");
    return stack_.back();
  }

  void deepen(uint64_t list, const PickleValue &element) {
    if (element.type != Type::list && element.type != Type::dict) return;
    const uint32_t depth = depths_[element.at] + 1;
    if (depth > limits_.depth) refuse("lists in lists, more than are allowed");
    depths_[list] = std::max<uint8_t>(depths_[list], static_cast<uint8_t>(depth));
  }
  void put_in(Type type, const std::vector<PickleValue> &values) {
    const uint64_t list = top(type).at;
    if (type == Type::dict && values.size() % 2 != 0) refuse("a key without a value");
    std::vector<PickleValue> &elements = lists_[list];
    // Each value was pushed, and so counted.
    for (const PickleValue &value : values) {
      deepen(list, value);
      elements.push_back(value);
    }
  }

  // ---- operations ----

  bool number(unsigned char code) {
    switch (code) {
      case 'N':
        push({});
        return true;
      case 0x88:
      case 0x89:
        push_boolean(code == 0x88);
        return true;
      case 'K':
        push_integer(static_cast<int64_t>(little(1)));
        return true;
      case 'M':
        push_integer(static_cast<int64_t>(little(2)));
        return true;
      case 'J':
        push_integer(static_cast<int32_t>(static_cast<uint32_t>(little(4))));
        return true;
      case 0x8a:
        long_number(little(1));
        return true;
      case 0x8b:
        long_number(little(4));
        return true;
      case 'I':
      case 'L':
        number_line(code);
        return true;
      case 'F':
        push_real(std::strtod(std::string(line().substr(0, 64)).c_str(), nullptr));
        return true;
      case 'G': {
        uint64_t bits = 0;
        const char *data = take(8);
        for (int i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(data[i]);
        push_real(std::bit_cast<double>(bits));
        return true;
      }
      default:
        return false;
    }
  }

  /// Two's complement. What has no room in 64 bits is no number that is looked at here: an address has.
  void long_number(uint64_t count) {
    const char *data = take(count);
    if (count == 0) return push_integer(0);
    const bool negative = (data[count - 1] & 0x80) != 0;
    uint64_t value = negative ? ~uint64_t{0} : 0;
    for (uint64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(data[i]);
      if (i >= 8) {
        if (byte != (negative ? 0xff : 0)) return push({});
        continue;
      }
      const unsigned shift = static_cast<unsigned>(8 * i);
      value = (value & ~(uint64_t{0xff} << shift)) | uint64_t{byte} << shift;
    }
    push_integer(static_cast<int64_t>(value));
  }

  void number_line(unsigned char code) {
    std::string_view digits = line();
    if (code == 'I' && (digits == "00" || digits == "01")) return push_boolean(digits == "01");
    if (code == 'L' && digits.ends_with('L')) digits.remove_suffix(1);
    const bool sign = digits.starts_with('-');
    if (digits.size() == (sign ? 1U : 0U) ||
        digits.find_first_not_of("0123456789", sign ? 1 : 0) != digits.npos)
      refuse("a text where a number must be");
    if (digits.size() > 24) return push({});
    errno = 0;
    const long long value = std::strtoll(std::string(digits).c_str(), nullptr, 10);
    if (errno != 0) return push({});
    push_integer(value);
  }

  bool text(unsigned char code) {
    switch (code) {
      case 0x8c:  // SHORT_BINUNICODE
      case 'C':   // SHORT_BINBYTES
      case 'U':   // SHORT_BINSTRING
        push_text(little(1));
        return true;
      case 'X':  // BINUNICODE
      case 'B':  // BINBYTES
      case 'T':  // BINSTRING
        push_text(little(4));
        return true;
      case 0x8d:  // BINUNICODE8
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        push_text(little(8));
        return true;
      case 'V':  // UNICODE, its escapes as they are
      case 'S': {
        const std::string_view whole = line();
        const uint64_t quotes = code == 'S' && whole.size() >= 2 ? 1 : 0;
        const uint64_t after = at_;
        at_ = after - whole.size() - 1 + quotes;
        push_text(whole.size() - 2 * quotes);
        at_ = after;
        return true;
      }
      default:
        return false;
    }
  }

  bool container(unsigned char code) {
    switch (code) {
      case '(':
        if (marks_.size() == limits_.marks) refuse("marks in marks, more than are allowed");
        marks_.push_back(stack_.size());
        return true;
      case ']':
      case ')':
      case 0x8f:  // EMPTY_SET
        push_list(Type::list);
        return true;
      case '}':
        push_list(Type::dict);
        return true;
      case 'l':
      case 't':
      case 0x91:  // FROZENSET
        push_list(Type::list, pop_mark());
        return true;
      case 'd': {
        std::vector<PickleValue> values = pop_mark();
        if (values.size() % 2 != 0) refuse("a key without a value");
        push_list(Type::dict, std::move(values));
        return true;
      }
      case 0x85:
      case 0x86:
      case 0x87:
        push_list(Type::list, pop_some(code - 0x84U));
        return true;
      case 'a':
        put_in(Type::list, pop_some(1));
        return true;
      case 'e':
      case 0x90:  // ADDITEMS
        put_in(Type::list, pop_mark());
        return true;
      case 's':
        put_in(Type::dict, pop_some(2));
        return true;
      case 'u':
        put_in(Type::dict, pop_mark());
        return true;
      default:
        return false;
    }
  }

  bool memory(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        if (const uint64_t protocol = little(1); protocol > 5)
          refuse("protocol " + std::to_string(protocol) + " is not known");
        return true;
      case 0x95:  // FRAME
        (void)little(8);
        return true;
      case '0':
        if (stack_.size() > floor())
          stack_.pop_back();
        else
          (void)pop_mark();
        return true;
      case '1':
        (void)pop_mark();
        return true;
      case '2':
        push(PickleValue(peek()));
        return true;
      case 'p':
        remember(index_line());
        return true;
      case 'q':
        remember(little(1));
        return true;
      case 'r':
        remember(little(4));
        return true;
      case 0x94:  // MEMOIZE
        remember(memo_.size());
        return true;
      case 'g':
        recall(index_line());
        return true;
      case 'h':
        recall(little(1));
        return true;
      case 'j':
        recall(little(4));
        return true;
      default:
        return false;
    }
  }

  const PickleValue &peek() const {
    if (stack_.size() <= floor()) refuse("it needs a value, and its stack is empty");
    return stack_.back();
  }
  uint64_t index_line() {
    const std::string_view digits = line();
    uint64_t index = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || index > UINT32_MAX)
        refuse("an index of the memo that is no number");
      index = index * 10 + static_cast<uint64_t>(c - '0');
    }
    return index;
  }
  void remember(uint64_t index) {
    memo_[index] = peek();
    if (memo_.size() > limits_.memo) refuse("more entries in the memo than are allowed");
  }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end())
      refuse("it asks for entry " + std::to_string(index) +
             " of its memo, which it has not written");
    push(found->second);
  }

  const std::string &bytes_;
  const std::string &name_;
  const PickleLimits &limits_;
  std::vector<std::vector<PickleValue>> &lists_;
  size_t at_ = 0;
  size_t start_ = 0;  ///< of the operation
  uint64_t made_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::vector<uint8_t> depths_;  ///< by list
  std::unordered_map<uint64_t, PickleValue> memo_;
};

}  // namespace

PickleValue run_pickle(const std::string &bytes, const std::string &name,
                       const PickleLimits &limits, std::vector<std::vector<PickleValue>> *lists) {
  return PickleMachine(bytes, name, limits, lists).run();
}

}  // namespace weir::tool
