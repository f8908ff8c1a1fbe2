// SPDX-License-Identifier: Apache-2.0
//
// The grammar of "#vmt 2" from the reading side: a table of the lines, each with its fields and the keys that it may have.
// core/record/vmt_line.cpp is the writing side.
#include "tools/weir/recorded/call_reader.hpp"

#include "tools/weir/trace_cursor.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace weir::tool::recorded {

namespace {

/// Fields: n a number, N a number or "-", d a device, b an amount, s a number that may be negative, w a name, o an operation, m a
/// mode of a hold, u a mode of a use, R a range that may be left out.
struct Form {
  std::string_view kind;
  std::string_view fields;
  std::string_view keys;  ///< with a blank around each
};

constexpr Form forms[] = {
    {"u", "nuR", " flags "},
    {"o", "on", ""},
    {"b", "nnn",
     " client home flags alignment element tag priority name users shard_policy shard_devices "
     "shard_weights stripe stack "},
    {"f", "n", ""},
    {"l", "nnnon", " flags timeout_ns async waited_us "},
    {"r", "nn", ""},
    {"k", "nn", ""},
    {"m", "nndNn", " name stack "},
    {"x", "nN", ""},
    {"n", "nnw", ""},
    {"t", "n", ""},
    {"j", "n", ""},
    {"p", "w", ""},
    {"read", "nR", ""},
    {"write", "nR", ""},
    {"discard", "nR", ""},
    {"advise", "nnR", ""},
    {"name", "nw", ""},
    {"priority", "ns", ""},
    {"hold", "ndm", " flags "},
    {"unhold", "n", ""},
    {"register", "n", " flags "},
    {"unregister", "n", ""},
    {"prefetch", "nnn", ""},
    {"announce", "nnn", " flags "},
    {"refused", "snnon", " flags timeout_ns async waited_us "},
    {"synchronize", "n", ""},
    {"context", "n", " options "},
    {"device", "nd", " backend name memory granule capabilities "},
    {"link", "ndd", " kind bandwidth latency_ns "},
    {"pool", "nn",
     " flags host_budget page_size large_page_size watermark_low_permille "
     "watermark_high_permille evict_wait_ns policy name compressed_budget storage_budget "
     "storage_path_count compress_threads compress_share_percent codec idle_grace_ns "
     "segment_size recompress_idle_ns rebalance_bytes_per_second record_budget policy_memory "
     "policy_cpu_percent "},
    {"pool_device", "ndb", ""},
    {"remove_device", "nd", ""},
    {"stats", "n", "*"},
    {"end_pool", "n", ""},
    {"client", "nn", " name priority device_quota host_quota compressed_quota storage_quota "},
    {"end_client", "n", ""},
    {"stream", "nnd", " wrapped "},
    {"end_stream", "n", ""},
    {"trim", "ndnb", ""},
    {"rebalance", "nb", ""},
    {"defragment", "nd", " flags max_bytes max_moves max_ns max_cost_permille "},
    {"defragmentation", "nn", " flags bytes_per_second max_cost_permille "},
    {"policy_load", "nn", ""},
    {"module", "nw", " build_id "},
    {"stack", "nw", ""},
    {"lost", "n", ""},
    {"end", "", ""},
};
static_assert(std::size(forms) == static_cast<size_t>(CallKind::end) + 1);

constexpr size_t most_uses = size_t{1} << 24;        // of one call: weir/lease.h
constexpr size_t most_operations = size_t{1} << 24;  // of one announcement: weir/lease.h
constexpr size_t names_kept = 32;                    // of what is not known
constexpr size_t name_kept = 32;                     // bytes of each

const Form *form_of(std::string_view kind) {
  const auto found = std::find_if(std::begin(forms), std::end(forms),
                                  [kind](const Form &form) { return form.kind == kind; });
  return found == std::end(forms) ? nullptr : found;
}

bool is_known(std::string_view key, std::string_view known) {
  if (known == "*") return true;
  for (size_t at = known.find(key); at != known.npos; at = known.find(key, at + 1))
    if (at > 0 && known[at - 1] == ' ' && known[at + key.size()] == ' ') return true;
  return false;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// False: a "%" without two hexadecimal digits.
bool decode(std::string_view word, std::string &text) {
  text.clear();
  if (word == "-") return true;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      text += word[i];
      continue;
    }
    if (word.size() - i < 3 || hex(word[i + 1]) < 0 || hex(word[i + 2]) < 0) return false;
    text += static_cast<char>(hex(word[i + 1]) << 4 | hex(word[i + 2]));
    i += 2;
  }
  return true;
}

bool parse_number(std::string_view text, uint64_t &value) {
  TraceCursor cursor(text);
  return cursor.whole_number(value) && cursor.at_end();
}

bool parse_amount(std::string_view text, uint64_t &value) {
  if (text == "none") return value = WEIR_NONE, true;
  if (text == "unlimited") return value = WEIR_UNLIMITED, true;
  return parse_number(text, value);
}

bool parse_device(std::string_view text, uint64_t &value) {
  if (text == "h") return value = WEIR_DEVICE_HOST, true;
  if (text == "default") return value = WEIR_DEVICE_DEFAULT, true;
  if (text == "all") return value = WEIR_DEVICE_ALL, true;
  if (text == "any") return value = WEIR_DEVICE_ANY, true;
  return parse_number(text, value) && value < 0xffffff00;  // weir/types.h
}

bool parse_signed(std::string_view text, int64_t &value) {
  const bool negative = text.starts_with('-');
  uint64_t size = 0;
  if (!parse_number(text.substr(negative ? 1 : 0), size) || size > INT64_MAX) return false;
  value = negative ? -static_cast<int64_t>(size) : static_cast<int64_t>(size);
  return true;
}

bool parse_mode(std::string_view text, CallUse &use) {
  if (text.size() != 1) return false;
  switch (text[0]) {
    case 'R':
    case 'r':
      use.mode = WEIR_READ;
      break;
    case 'W':
    case 'w':
      use.mode = WEIR_DISCARD_WRITE;
      break;
    case 'X':
    case 'x':
      use.mode = WEIR_READ_WRITE;
      break;
    default:
      return false;
  }
  use.flags = text[0] < 'a' ? WEIR_USE_ALLOW_REMOTE : 0;
  return true;
}

}  // namespace

/// The words of a line behind its kind.
class Fields {
 public:
  explicit Fields(std::string_view line) : cursor_(line) {}

  bool at_end() const { return cursor_.at_end(); }
  bool word(std::string_view &out) { return cursor_.eat(' ') && cursor_.word(out); }
  /// Whether a range stands here: what begins with a digit is no key.
  bool range_follows() const {
    TraceCursor ahead = cursor_;
    return ahead.eat(' ') && ahead.peek() >= '0' && ahead.peek() <= '9';
  }

 private:
  TraceCursor cursor_;
};

bool CallReader::next(Call &call) {
  std::string_view text;
  while (!ended_ && line(call)) {
    if (call.kind == CallKind::use) refuse("a use outside a call that has some");
    if (call.kind == CallKind::operation) refuse("an operation outside an announcement");
    ended_ = call.kind == CallKind::end;
    if (!complete(call)) {
      incomplete_ = true;
      return false;
    }
    whole_ = file_.line_number();
    return true;
  }
  if (ended_ && file_.next(text)) refuse("a line after the end");
  return false;
}

/// Reads the lines that belong to the call; false if the file ends before.
bool CallReader::complete(Call &call) {
  call.uses.clear();
  call.operations.clear();
  switch (call.kind) {
    case CallKind::acquire:
      return follow(call, CallKind::use, call.fields[4]);
    case CallKind::refused:
      return follow(call, CallKind::use, call.fields[3]);
    case CallKind::prefetch:
      return follow(call, CallKind::use, call.fields[2]);
    case CallKind::announce:
      return follow(call, CallKind::operation, call.fields[2]);
    default:
      return true;
  }
}

bool CallReader::follow(Call &call, CallKind kind, uint64_t count) {
  const bool operations = kind == CallKind::operation;
  if (count > (operations ? most_operations : most_uses - call.uses.size()))
    refuse(operations ? "more operations than 2^24 in one call"
                      : "more uses than 2^24 in one call");
  for (uint64_t i = 0; i < count; ++i) {
    if (!line(part_)) return false;
    if (part_.kind != kind)
      refuse(std::to_string(count - i) + (operations ? " operations" : " uses") +
             " of the call before are missing");
    if (!operations) {
      call.uses.push_back(part_.uses.front());
      continue;
    }
    call.operations.push_back({part_.fields[0], part_.text, static_cast<size_t>(part_.fields[1])});
    if (!follow(call, CallKind::use, part_.fields[1])) return false;
  }
  return true;
}

/// The next line that is known.
bool CallReader::line(Call &call) {
  std::string_view text;
  while (file_.next(text)) {
    if (text.empty()) refuse("an empty line");
    std::string_view kind;
    TraceCursor cursor(text);
    if (!cursor.word(kind)) refuse("malformed line");
    const Form *form = form_of(kind);
    if (form == nullptr) {
      if (!is_name(kind)) refuse("malformed line");
      unknown("'" + std::string(kind.substr(0, name_kept)) + "'");
      continue;
    }
    call.kind = static_cast<CallKind>(form - forms);
    Fields rest(text.substr(kind.size()));
    if (!fields(rest, call, form->fields)) refuse("malformed line");
    keys(rest, call, form->kind, form->keys);
    if (call.kind != CallKind::use) return true;
    call.uses.front().flags |= number(call, "flags");
    return true;
  }
  return false;
}

bool CallReader::fields(Fields &fields, Call &call, std::string_view signature) {
  size_t slot = 0;
  std::string_view word;
  call.offset = 0;
  call.length = call_none;
  for (const char kind : signature) {
    if (kind == 'R') {
      if (!fields.range_follows()) continue;
      if (!fields.word(word) || !parse_number(word, call.offset) || !fields.word(word) ||
          (word != "-" && !parse_number(word, call.length)))
        return false;
      continue;
    }
    if (!fields.word(word)) return false;
    uint64_t unused = 0;
    uint64_t &value = slot < call.fields.size() ? call.fields[slot] : unused;
    switch (kind) {
      case 'n':
        if (!parse_number(word, value) || value == call_none) return false;
        break;
      case 'N':
        value = call_none;
        if (word != "-" && !parse_number(word, value)) return false;
        break;
      case 'd':
        if (!parse_device(word, value)) return false;
        break;
      case 'b':
        if (!parse_amount(word, value)) return false;
        break;
      case 'o':
        value = 0;
        call.text.clear();
        if (word == "-") break;
        if (word[0] != '=') {
          if (!parse_number(word, value) || value == 0) return false;
        } else if (!decode(word.substr(1), call.text) || call.text.empty()) {
          return false;
        }
        break;
      case 's':
        if (!parse_signed(word, call.number)) return false;
        continue;
      case 'w':
        if (!decode(word, call.text)) return false;
        continue;
      case 'm':
        if (word != "r" && word != "x") return false;
        call.mode = word[0];
        continue;
      default:
        call.uses.assign(1, {});
        if (!parse_mode(word, call.uses.front())) return false;
        continue;
    }
    ++slot;
  }
  if (call.kind == CallKind::use) {
    call.uses.front().buffer = call.fields[0];
    call.uses.front().offset = call.offset;
    call.uses.front().length = call.length;
  }
  return true;
}

void CallReader::keys(Fields &fields, Call &call, std::string_view kind, std::string_view known) {
  call.keys.clear();
  std::string_view word;
  while (!fields.at_end()) {
    if (!fields.word(word)) refuse("malformed line");
    const size_t equals = word.find('=');
    if (equals == word.npos || equals + 1 == word.size() || !is_name(word.substr(0, equals)))
      refuse("malformed line");
    const std::string_view name = word.substr(0, equals);
    if (!is_known(name, known)) {
      unknown("'" + std::string(name.substr(0, name_kept)) + "' of '" + std::string(kind) + "'");
      continue;
    }
    for (const CallKey &key : call.keys)
      if (key.name == name) refuse("a key twice");
    call.keys.push_back({std::string(name), std::string(word.substr(equals + 1))});
  }
}

void CallReader::unknown(const std::string &what) {
  if (unknown_.size() < names_kept || unknown_.contains(what))
    ++unknown_[what];
  else
    ++more_unknown_;
}

namespace {

const CallKey *find(const Call &call, std::string_view name) {
  for (const CallKey &key : call.keys)
    if (key.name == name) return &key;
  return nullptr;
}

std::string bad(std::string_view key) {
  return "'" + std::string(key) + "' has a value that it can't have";
}

/// The words between commas.
template <class Take>
bool each_word(std::string_view text, Take &&take) {
  for (;;) {
    const size_t comma = text.find(',');
    if (!take(text.substr(0, comma))) return false;
    if (comma == text.npos) return true;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

uint64_t CallReader::number(const Call &call, std::string_view key, uint64_t fallback) const {
  const CallKey *found = find(call, key);
  if (found == nullptr) return fallback;
  uint64_t value = 0;
  if (!parse_amount(found->value, value)) refuse(bad(key));
  return value;
}

int64_t CallReader::signed_number(const Call &call, std::string_view key) const {
  const CallKey *found = find(call, key);
  int64_t value = 0;
  if (found != nullptr && !parse_signed(found->value, value)) refuse(bad(key));
  return value;
}

std::string CallReader::text(const Call &call, std::string_view key) const {
  const CallKey *found = find(call, key);
  std::string value;
  if (found != nullptr && !decode(found->value, value)) refuse(bad(key));
  return value;
}

uint64_t CallReader::device(const Call &call, std::string_view key, uint64_t fallback) const {
  const CallKey *found = find(call, key);
  uint64_t value = fallback;
  if (found != nullptr && !parse_device(found->value, value)) refuse(bad(key));
  return value;
}

std::vector<uint32_t> CallReader::devices(const Call &call, std::string_view key) const {
  std::vector<uint32_t> values;
  const CallKey *found = find(call, key);
  if (found == nullptr) return values;
  const bool good = each_word(found->value, [&values](std::string_view word) {
    uint64_t value = 0;
    if (!parse_device(word, value)) return false;
    values.push_back(static_cast<uint32_t>(value));
    return true;
  });
  if (!good) refuse(bad(key));
  return values;
}

std::vector<uint32_t> CallReader::numbers(const Call &call, std::string_view key) const {
  std::vector<uint32_t> values;
  const CallKey *found = find(call, key);
  if (found == nullptr) return values;
  const bool good = each_word(found->value, [&values](std::string_view word) {
    uint64_t value = 0;
    if (!parse_number(word, value) || value > UINT32_MAX) return false;
    values.push_back(static_cast<uint32_t>(value));
    return true;
  });
  if (!good) refuse(bad(key));
  return values;
}

std::vector<std::string> CallReader::notes() const {
  std::vector<std::string> notes;
  if (!ended_) {
    const char *where = file_.cut() || incomplete_ ? "it is cut off" : "it has no 'end'";
    notes.push_back(std::string(where) +
                    ": the program was killed or still runs, and what counts is "
                    "up to the last whole event, line " +
                    std::to_string(file_.line_number()));
  }
  for (const auto &[what, count] : unknown_)
    notes.push_back(what + " is not known to this version and was left out, " +
                    std::to_string(count) + (count == 1 ? " time" : " times"));
  if (more_unknown_ != 0) notes.push_back("so were " + std::to_string(more_unknown_) + " others");
  return notes;
}

}  // namespace weir::tool::recorded
