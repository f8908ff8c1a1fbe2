// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a saved program: a header, then records of fixed size, one behind the other, all numbers little-endian. The header has
// in front what tells whose bytes they are: a magic, the byte order, the format's version, the length, a checksum of everything, the
// policy's name and the pool's page size.
//
// What is read may be anything. All of it is checked before anything is allocated: what is taken has counts that fit the bytes, and every
// number in it that names something names something that is there.
#pragma once

#include "core/base/status.hpp"
#include "core/policy/saved_program.hpp"

#include <span>

namespace weir::policy {

/// What a blob is for. Another policy or page size takes other decisions about other buffers.
struct BlobTerms {
  std::string_view policy;  ///< at most 15 bytes
  uint64_t page_size = 0;
};

constexpr uint32_t blob_version = 1;
constexpr uint64_t most_blob_bytes = uint64_t{64} << 20;
constexpr uint32_t most_saved_logs = 64;
constexpr uint32_t most_saved_streams = 64;

/// How many bytes write_blob() writes.
uint64_t blob_bytes(const SavedProgram &program) noexcept;
/// `out` has room for blob_bytes().
void write_blob(const SavedProgram &program, const BlobTerms &terms, unsigned char *out) noexcept;

/// NOT_SUPPORTED: another byte order, version, policy or page size. CORRUPT: anything else that write_blob() has not written.
Status check_blob(std::span<const unsigned char> bytes, const BlobTerms &terms) noexcept;
/// Of bytes that check_blob() has taken, to an empty program; the names' text stays theirs. Throws std::bad_alloc.
void read_blob(std::span<const unsigned char> bytes, SavedProgram *program);

}  // namespace weir::policy
