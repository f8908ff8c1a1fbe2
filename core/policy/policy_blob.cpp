// SPDX-License-Identifier: Apache-2.0
//
// Blobs written, checked and read, record by record, in the one order that Layout has.

#include "core/policy/policy_blob.hpp"

#include "core/codec/checksum.hpp"
#include "core/codec/little_endian.hpp"
#include "core/policy/program_log.hpp"

#include <algorithm>
#include <array>

namespace weir::policy {
namespace {

using codec::load_little;
using codec::store_little;

constexpr std::array<unsigned char, 8> blob_magic = {'W', 'E', 'I', 'R', 'p', 'l', 'c', 'y'};
constexpr uint32_t order_mark = 0x01020304, other_order = 0x04030201;
constexpr uint64_t policy_room = 16;

// Where the header's fields are.
constexpr uint64_t order_at = 8, version_at = 12, length_at = 16, sum_at = 24, policy_at = 32,
                   page_size_at = policy_at + policy_room, names_at = page_size_at + 8,
                   text_at = names_at + 4, logs_at = text_at + 4, reserved_at = logs_at + 4,
                   header_bytes = reserved_at + 4;

// Sizes of records.
constexpr uint64_t log_bytes = 24, name_bytes = 4, life_bytes = 8, operation_bytes = 18,
                   birth_bytes = 6, death_bytes = 4, use_bytes = 16;

/// How many records of each kind a log has.
struct LogCounts {
  uint32_t streams, lives, operations, births, deaths, uses;

  uint64_t bytes() const noexcept {
    return lives * life_bytes + operations * operation_bytes + births * birth_bytes +
           deaths * death_bytes + uses * use_bytes;
  }
};

LogCounts counts_of(const SavedLog &log) noexcept {
  const auto count = [](const auto &records) { return static_cast<uint32_t>(records.size()); };
  return {log.streams,       count(log.lives),  count(log.operations),
          count(log.births), count(log.deaths), count(log.uses)};
}

uint64_t checksum_of_blob(std::span<const unsigned char> bytes) noexcept {
  codec::PageChecksum sum;
  sum.add(bytes.data(), sum_at);
  sum.add(bytes.data() + sum_at + 8, bytes.size() - sum_at - 8);
  return sum.sum();
}

/// Numbers one behind the other.
class Writer {
 public:
  explicit Writer(unsigned char *at) : at_(at) {}
  template <class Word>
  void put(Word word) noexcept {
    store_little(at_, word);
    at_ += sizeof word;
  }
  void put(const void *bytes, size_t count) noexcept {
    if (count != 0) std::memcpy(at_, bytes, count);
    at_ += count;
  }

 private:
  unsigned char *at_;
};

/// Whoever reads has seen that there are enough.
class Reader {
 public:
  explicit Reader(const unsigned char *at) : at_(at) {}
  template <class Word>
  Word get() noexcept {
    const Word word = load_little<Word>(at_);
    at_ += sizeof word;
    return word;
  }
  const unsigned char *skip(uint64_t count) noexcept {
    const unsigned char *from = at_;
    at_ += count;
    return from;
  }

 private:
  const unsigned char *at_;
};

LogCounts get_counts(Reader *in) noexcept {
  LogCounts counts{};
  for (uint32_t *each : {&counts.streams, &counts.lives, &counts.operations, &counts.births,
                         &counts.deaths, &counts.uses})
    *each = in->get<uint32_t>();
  return counts;
}
SavedOperation get_operation(Reader *in) noexcept {
  SavedOperation operation{};
  operation.name = in->get<uint32_t>();
  operation.deaths = in->get<uint32_t>();
  for (uint16_t *each : {&operation.stream, &operation.given, &operation.uses,
                         &operation.all_births, &operation.births})
    *each = in->get<uint16_t>();
  return operation;
}
SavedBirth get_birth(Reader *in) noexcept {
  SavedBirth birth{};
  birth.life = in->get<uint32_t>();
  birth.rank = in->get<uint16_t>();
  return birth;
}
SavedUse get_use(Reader *in) noexcept {
  SavedUse use{};
  for (uint32_t *each : {&use.life, &use.begin, &use.end}) *each = in->get<uint32_t>();
  use.slot = in->get<uint16_t>();
  use.mode = in->get<uint16_t>();
  return use;
}

void put_log(Writer *out, const SavedLog &log) noexcept {
  for (const uint64_t bytes : log.lives) out->put(bytes);
  for (const SavedOperation &each : log.operations) {
    out->put(each.name);
    out->put(each.deaths);
    for (const uint16_t word : {each.stream, each.given, each.uses, each.all_births, each.births})
      out->put(word);
  }
  for (const SavedBirth &each : log.births) {
    out->put(each.life);
    out->put(each.rank);
  }
  for (const uint32_t life : log.deaths) out->put(life);
  for (const SavedUse &each : log.uses) {
    for (const uint32_t word : {each.life, each.begin, each.end}) out->put(word);
    out->put(each.slot);
    out->put(each.mode);
  }
}

// ---- checks ----

Status corrupt(const char *what) noexcept {
  return fail(WEIR_ERROR_CORRUPT, "the saved policy is damaged: %s", what);
}

/// Where each kind of a log's records begins.
struct LogPlaces {
  LogPlaces(const LogCounts &counts, const unsigned char *at)
      : lives(at),
        operations(lives + counts.lives * life_bytes),
        births(operations + counts.operations * operation_bytes),
        deaths(births + counts.births * birth_bytes),
        uses(deaths + counts.deaths * death_bytes) {}
  const unsigned char *lives, *operations, *births, *deaths, *uses;
};

/// An operation's own fields, and its births and uses, whose order they are in.
const char *wrong_operation(const SavedOperation &operation, const LogCounts &counts,
                            uint32_t names, Reader *births, Reader *uses) noexcept {
  const bool named = operation.name != 0 && operation.name <= names;
  if (!named && operation.name != shared_name && operation.name < unnamed)
    return "an operation has a name that is not there";
  if (operation.stream >= counts.streams) return "an operation is of a stream that is not there";
  if (operation.uses > operation.given || operation.births > operation.all_births)
    return "an operation has more uses or births than it was given";
  uint32_t next = 0;
  for (uint32_t index = 0; index < operation.births; ++index) {
    const SavedBirth birth = get_birth(births);
    if (birth.life >= counts.lives || birth.rank < next || birth.rank >= operation.all_births)
      return "a birth is of no buffer, or out of its order";
    next = birth.rank + 1U;
  }
  next = 0;
  for (uint32_t index = 0; index < operation.uses; ++index) {
    const SavedUse use = get_use(uses);
    if (use.life >= counts.lives || use.slot < next || use.slot >= operation.given)
      return "a use is of no buffer, or out of its order";
    if (use.begin > use.end || use.mode > (use_needs | use_writes | use_whole))
      return "a use has no range, or no mode";
    next = use.slot + 1U;
  }
  return nullptr;
}

/// The operations' shares come to what there is, and no record names what is not there.
const char *wrong_log(const LogCounts &counts, const LogPlaces &places, uint32_t names) noexcept {
  constexpr uint64_t largest_buffer = uint64_t{1} << 48;
  Reader lives(places.lives);
  for (uint32_t index = 0; index < counts.lives; ++index)
    if (lives.get<uint64_t>() > largest_buffer) return "a buffer is larger than there can be";
  uint64_t births_left = counts.births, deaths_left = counts.deaths, uses_left = counts.uses;
  Reader operations(places.operations), births(places.births), uses(places.uses);
  for (uint32_t index = 0; index < counts.operations; ++index) {
    const SavedOperation operation = get_operation(&operations);
    if (operation.births > births_left || operation.deaths > deaths_left ||
        operation.uses > uses_left)
      return "an operation has more records than there are";
    births_left -= operation.births;
    deaths_left -= operation.deaths;
    uses_left -= operation.uses;
    const char *wrong = wrong_operation(operation, counts, names, &births, &uses);
    if (wrong != nullptr) return wrong;
  }
  if (births_left != 0 || deaths_left != 0 || uses_left != 0)
    return "there are records of no operation";
  Reader deaths(places.deaths);
  for (uint32_t index = 0; index < counts.deaths; ++index)
    if (deaths.get<uint32_t>() >= counts.lives) return "a death is of no buffer";
  return nullptr;
}

/// Whose it is; the rest has its checksum.
Status check_header(std::span<const unsigned char> bytes, const BlobTerms &terms) noexcept {
  const unsigned char *at = bytes.data();
  if (bytes.size() > most_blob_bytes)
    return fail(WEIR_ERROR_CORRUPT, "a saved policy has at most %llu bytes, these are %llu",
                llu(most_blob_bytes), llu(bytes.size()));
  if (bytes.size() < header_bytes) return corrupt("it is shorter than its header");
  if (!std::equal(blob_magic.begin(), blob_magic.end(), at))
    return fail(WEIR_ERROR_CORRUPT, "these bytes are no saved policy");
  const auto order = load_little<uint32_t>(at + order_at);
  const auto version = load_little<uint32_t>(at + version_at);
  if (order == other_order)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "the saved policy's numbers are in another byte order (%#x, not %#x)", order,
                order_mark);
  if (order != order_mark) return corrupt("its byte order is none");
  if (version != blob_version)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "the saved policy is of version %u of its format; this library knows %u", version,
                blob_version);
  if (const auto length = load_little<uint64_t>(at + length_at); length != bytes.size())
    return fail(WEIR_ERROR_CORRUPT, "the saved policy had %llu bytes, these are %llu", llu(length),
                llu(bytes.size()));
  if (load_little<uint64_t>(at + sum_at) != checksum_of_blob(bytes))
    return corrupt("its checksum is another");
  const char *name = reinterpret_cast<const char *>(at + policy_at);
  if (std::string_view(name, strnlen(name, policy_room)) != terms.policy)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "what was saved was learned by the policy \"%.*s\", and the pool's is \"%.*s\"",
                static_cast<int>(policy_room), name, static_cast<int>(terms.policy.size()),
                terms.policy.data());
  if (const auto size = load_little<uint64_t>(at + page_size_at); size != terms.page_size)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "what was saved was learned with pages of %llu bytes, and the pool's have %llu",
                llu(size), llu(terms.page_size));
  return {};
}

/// The header's counts against the bytes there are.
const char *wrong_counts(std::span<const unsigned char> bytes) noexcept {
  Reader header(bytes.data() + names_at);
  const auto names = header.get<uint32_t>(), text = header.get<uint32_t>(),
             logs = header.get<uint32_t>();
  if (names > most_names || logs > most_saved_logs || header.get<uint32_t>() != 0)
    return "it has more names or logs than there can be";
  uint64_t needed = header_bytes + logs * log_bytes + names * name_bytes + text;
  if (needed > bytes.size()) return "its counts are above its bytes";
  for (uint32_t index = 0; index < logs; ++index) {
    const LogCounts counts = get_counts(&header);
    if (counts.streams > most_saved_streams) return "it has more streams than there can be";
    needed += counts.bytes();
  }
  return needed == bytes.size() ? nullptr : "its counts do not come to its bytes";
}

/// Names are of a length that names have, and come to the text there is; none has a 0 in it.
const char *wrong_names(const unsigned char *lengths, uint32_t names, uint32_t text) noexcept {
  Reader in(lengths);
  uint64_t all = 0;
  for (uint32_t index = 0; index < names; ++index) {
    const auto length = in.get<uint32_t>();
    if (length == 0 || length > longest_name) return "a name is empty or too long";
    all += length;
  }
  if (all != text) return "the names do not come to their text";
  if (text != 0 && std::memchr(in.skip(text), 0, text) != nullptr) return "a name has a 0 in it";
  return nullptr;
}

/// Where the parts of checked bytes are.
struct BlobParts {
  explicit BlobParts(std::span<const unsigned char> bytes) : logs_in(bytes.data() + header_bytes) {
    Reader header(bytes.data() + names_at);
    names = header.get<uint32_t>();
    text = header.get<uint32_t>();
    logs = header.get<uint32_t>();
    lengths = bytes.data() + header_bytes + logs * log_bytes;
    records = lengths + names * name_bytes + text;
  }
  uint32_t names = 0, text = 0, logs = 0;
  Reader logs_in;
  const unsigned char *lengths = nullptr, *records = nullptr;
};

void read_log(const LogCounts &counts, const LogPlaces &places, SavedLog *log) {
  log->streams = counts.streams;
  Reader lives(places.lives), operations(places.operations), births(places.births),
      deaths(places.deaths), uses(places.uses);
  const auto fill = [](auto *records, uint32_t count, auto &&get) {
    records->reserve(count);
    for (uint32_t index = 0; index < count; ++index) records->push_back(get());
  };
  fill(&log->lives, counts.lives, [&] { return lives.get<uint64_t>(); });
  fill(&log->operations, counts.operations, [&] { return get_operation(&operations); });
  fill(&log->births, counts.births, [&] { return get_birth(&births); });
  fill(&log->deaths, counts.deaths, [&] { return deaths.get<uint32_t>(); });
  fill(&log->uses, counts.uses, [&] { return get_use(&uses); });
}

}  // namespace

uint64_t blob_bytes(const SavedProgram &program) noexcept {
  uint64_t bytes =
      header_bytes + program.logs.size() * log_bytes + program.names.size() * name_bytes;
  for (const std::string_view name : program.names) bytes += name.size();
  for (const SavedLog &log : program.logs) bytes += counts_of(log).bytes();
  return bytes;
}

void write_blob(const SavedProgram &program, const BlobTerms &terms, unsigned char *out) noexcept {
  const uint64_t length = blob_bytes(program);
  uint64_t text = 0;
  for (const std::string_view name : program.names) text += name.size();
  std::array<char, policy_room> policy{};
  terms.policy.copy(policy.data(), policy_room - 1);
  Writer to(out);
  to.put(blob_magic.data(), blob_magic.size());
  to.put(order_mark);
  to.put(blob_version);
  to.put(length);
  to.put(uint64_t{0});  // the checksum, in the end
  to.put(policy.data(), policy.size());
  to.put(terms.page_size);
  for (const uint64_t count : {program.names.size(), text, program.logs.size(), size_t{0}})
    to.put(static_cast<uint32_t>(count));
  for (const SavedLog &log : program.logs) {
    const LogCounts counts = counts_of(log);
    for (const uint32_t count : {counts.streams, counts.lives, counts.operations, counts.births,
                                 counts.deaths, counts.uses})
      to.put(count);
  }
  for (const std::string_view name : program.names) to.put(static_cast<uint32_t>(name.size()));
  for (const std::string_view name : program.names) to.put(name.data(), name.size());
  for (const SavedLog &log : program.logs) put_log(&to, log);
  store_little(out + sum_at, checksum_of_blob({out, length}));
}

Status check_blob(std::span<const unsigned char> bytes, const BlobTerms &terms) noexcept {
  WEIR_TRY(check_header(bytes, terms));
  const char *wrong = wrong_counts(bytes);
  if (wrong != nullptr) return corrupt(wrong);
  BlobParts parts(bytes);
  wrong = wrong_names(parts.lengths, parts.names, parts.text);
  for (uint32_t index = 0; wrong == nullptr && index < parts.logs; ++index) {
    const LogCounts counts = get_counts(&parts.logs_in);
    wrong = wrong_log(counts, LogPlaces(counts, parts.records), parts.names);
    parts.records += counts.bytes();
  }
  return wrong == nullptr ? Status() : corrupt(wrong);
}

void read_blob(std::span<const unsigned char> bytes, SavedProgram *program) {
  BlobParts parts(bytes);
  Reader lengths(parts.lengths), text(parts.lengths + parts.names * name_bytes);
  program->names.reserve(parts.names);
  for (uint32_t index = 0; index < parts.names; ++index) {
    const auto length = lengths.get<uint32_t>();
    program->names.emplace_back(reinterpret_cast<const char *>(text.skip(length)), length);
  }
  program->logs.reserve(parts.logs);
  std::pmr::memory_resource *memory = program->logs.get_allocator().resource();
  for (uint32_t index = 0; index < parts.logs; ++index) {
    const LogCounts counts = get_counts(&parts.logs_in);
    read_log(counts, LogPlaces(counts, parts.records), &program->logs.emplace_back(memory));
    parts.records += counts.bytes();
  }
}

}  // namespace weir::policy
