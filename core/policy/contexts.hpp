// SPDX-License-Identifier: Apache-2.0
//
// Contexts: where in the program the last operations of a stream were done before, in the same order. For each of four lengths, a table
// says at which operation so many operations in a row ended last. It is keyed by a rolling hash, so that a length costs the same
// whatever it is.
//
// Invariants: a table is direct-mapped and keeps a part of the hash, so that a wrong answer is rare and not excluded; what it says may
// have been forgotten by the log. All memory is allocated at the start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::policy {

class Contexts {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  /// Operations in a row; longest first.
  static constexpr std::array<uint32_t, 4> lengths = {512, 64, 8, 1};

  /// Throws std::bad_alloc. `entries`, a power of two, for each length; numbers of streams are below `streams`.
  Contexts(uint32_t entries, uint32_t streams, std::pmr::memory_resource *memory);

  /// The stream's next operation has this shape. find() and put() are about the operations up to it.
  void push(uint32_t stream, uint32_t shape) noexcept;
  /// The operation at which the last lengths[length] operations ended before, or none.
  uint32_t find(size_t length) const noexcept {
    const Place &place = places_[length];
    if (!place.there) return none;
    const Entry &entry = table(length)[place.slot];
    return entry.tag == place.tag ? entry.operation : none;
  }
  /// As find(), as if all of them were of that stream.
  uint32_t find_on(uint32_t stream, size_t length) const noexcept;
  /// They end at this operation.
  void put(uint32_t operation) noexcept;
  /// Nothing is known.
  void clear() noexcept;

  size_t bytes() const noexcept {
    return entries_.capacity() * sizeof(Entry) + streams_.capacity() * sizeof(Stream);
  }
  /// For each stream.
  static size_t bytes_of_stream() noexcept { return sizeof(Stream); }
  static constexpr size_t bytes_of_entry = 4 * 8;

 private:
  struct Entry {
    uint32_t tag = 0;  ///< is never 0 in an entry that is taken
    uint32_t operation = 0;
  };
  struct Place {
    uint64_t sum = 0;  ///< of the operations in a row, whatever their stream
    uint32_t slot = 0, tag = 0;
    bool there = false;  ///< the stream has had so many operations
  };
  struct Stream {
    uint64_t operations = 0;
    std::array<uint64_t, lengths[0] + 1>
        sums{};  ///< hashes of all up to each of the last operations
  };
  /// Where operations of that sum are in the table, if they are of that stream.
  void locate(uint32_t stream, Place *place) const noexcept;
  Entry *table(size_t length) noexcept {
    return entries_.data() + length * (entries_.size() / lengths.size());
  }
  const Entry *table(size_t length) const noexcept {
    return entries_.data() + length * (entries_.size() / lengths.size());
  }

  std::pmr::vector<Entry> entries_;  ///< the tables, one behind the other
  std::pmr::vector<Stream> streams_;
  std::array<uint64_t, lengths.size()> powers_{};
  std::array<Place, lengths.size()> places_{};  ///< of the operation that was pushed last
};

}  // namespace weir::policy
