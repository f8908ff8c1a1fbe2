// SPDX-License-Identifier: Apache-2.0
//
// The codec's functions over codec::Codec. Each call has a codec of its own, which works on the calling thread alone:
// calls share nothing.
//
// Must never let an exception through, and must answer any blob, however damaged, with a result.

#include "core/base/descriptor.hpp"
#include "core/base/status.hpp"
#include "core/codec/codec.hpp"

#include <weir/codec.h>

#include <cinttypes>

namespace {

using weir::fail;
using weir::Status;
using weir::Workers;
using weir::codec::BlobShape;
using weir::codec::Codec;
using weir::codec::CodecChoice;
using weir::codec::CodecPlan;
using weir::codec::Effort;
using weir::codec::Form;

static_assert(weir::codec::method_count <= WEIR_CODEC_SLOTS);
static_assert(static_cast<int>(weir::codec::MethodId::planes) == WEIR_CODEC_PLANES);
static_assert(static_cast<int>(weir::codec::MethodId::narrow) == WEIR_CODEC_NARROW);
static_assert(static_cast<int>(Form::f64) == WEIR_ELEMENT_F64);

constexpr uint64_t max_bytes = uint64_t{1} << 50U;
constexpr weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;

/// A codec for one call, on this thread. What it makes it makes when it needs it.
struct OneCall {
  weir::Clock clock;
  Workers workers{0, 100, clock};
  Codec codec;
  OneCall(CodecChoice choice, bool sums) : codec(workers, choice, {.sums = sums, .ready = false}) {}
};

Status check(const weir_compress_desc &desc, CodecChoice *choice) {
  if (desc.level > WEIR_COMPRESS_LEVEL_DENSE) return fail(invalid, "desc.level is %u", desc.level);
  if (desc.element >= weir::codec::form_count)
    return fail(invalid, "desc.element is %u", desc.element);
  if (desc.reserved != 0) return fail(invalid, "desc.reserved is %u, not 0", desc.reserved);
  if ((desc.flags & ~uint64_t{WEIR_COMPRESS_NO_CHECKSUM}) != 0)
    return fail(invalid, "desc.flags 0x%" PRIx64 " has unknown bits", desc.flags);
  if (!Codec::parse(desc.codec, choice))
    return fail(invalid, "there is no codec \"%s\"", desc.codec);
  return {};
}

Status check_ranges(const void *in, uint64_t bytes, const void *out, uint64_t capacity) {
  if (bytes > max_bytes) return fail(invalid, "bytes is %" PRIu64 ", more than 2^50", bytes);
  if (in == nullptr && bytes != 0) return fail(invalid, "in is NULL");
  if (out == nullptr) return fail(invalid, "out is NULL");
  const uint64_t bound = weir_compress_bound(bytes);
  if (capacity < bound) {
    return fail(invalid,
                "capacity is %" PRIu64 ", less than the %" PRIu64 " that a blob of %" PRIu64
                " bytes can have",
                capacity, bound, bytes);
  }
  const auto from = reinterpret_cast<uintptr_t>(in);
  const auto to = reinterpret_cast<uintptr_t>(out);
  if (bytes != 0 && from < to + bound && to < from + bytes)
    return fail(invalid, "in and out overlap");
  return {};
}

Status read(const void *blob, uint64_t bytes, BlobShape *shape) {
  if (blob == nullptr) return fail(invalid, "blob is NULL");
  const char *wrong = BlobShape::read(static_cast<const unsigned char *>(blob), bytes, shape);
  if (wrong == nullptr) return {};
  return fail(WEIR_ERROR_CORRUPT, "a blob of %" PRIu64 " bytes is malformed: %s", bytes, wrong);
}

}  // namespace

uint64_t weir_compress_bound(uint64_t bytes) {
  return bytes <= max_bytes ? Codec::bound(bytes, true) : 0;
}

weir_result weir_compress(const weir_compress_desc *desc, const void *in, uint64_t bytes, void *out,
                          uint64_t capacity, uint64_t *blob_bytes) {
  if (blob_bytes == nullptr) return fail(invalid, "blob_bytes is NULL").code();
  *blob_bytes = 0;
  weir_compress_desc full = WEIR_COMPRESS_DESC_INIT;
  if (desc != nullptr) {
    if (Status read = weir::read_descriptor(desc, "desc", &full); !read) return read.code();
  }
  CodecChoice choice = CodecChoice::automatic;
  if (Status valid = check(full, &choice); !valid) return valid.code();
  const bool sums = (full.flags & WEIR_COMPRESS_NO_CHECKSUM) == 0;
  if (Status valid = check_ranges(in, bytes, out, capacity); !valid) return valid.code();
  if (bytes == 0) {
    const BlobShape empty{0, sums};
    empty.begin(static_cast<unsigned char *>(out));
    *blob_bytes = empty.payload_at();
    return WEIR_SUCCESS;
  }
  OneCall call(choice, sums);
  CodecPlan plan;
  plan.hint = static_cast<Form>(full.element);
  const Effort effort = full.level == WEIR_COMPRESS_LEVEL_DENSE ? Effort::dense : Effort::quick;
  *blob_bytes = call.codec.encode(in, bytes, out, true, &plan, Workers::Urgency::demand, effort);
  return WEIR_SUCCESS;
}

weir_result weir_decompress(const void *blob, uint64_t blob_bytes, void *out, uint64_t capacity,
                            uint64_t *bytes) {
  if (bytes != nullptr) *bytes = 0;
  BlobShape shape{0, false};
  if (Status valid = read(blob, blob_bytes, &shape); !valid) return valid.code();
  if (shape.raw > capacity) {
    return fail(invalid, "capacity is %" PRIu64 ", less than the blob's %" PRIu64 " raw bytes",
                capacity, shape.raw)
        .code();
  }
  if (shape.raw == 0) {
    if (blob_bytes == shape.payload_at()) return WEIR_SUCCESS;
    return fail(WEIR_ERROR_CORRUPT, "an empty blob has %" PRIu64 " bytes", blob_bytes).code();
  }
  if (out == nullptr) return fail(invalid, "out is NULL").code();
  OneCall call(CodecChoice::lz4, false);  // the choice is of no matter here
  const Status status =
      call.codec.decode(blob, blob_bytes, out, shape.raw, Workers::Urgency::demand);
  if (status && bytes != nullptr) *bytes = shape.raw;
  return status.code();
}

weir_result weir_compressed_info_get(const void *blob, uint64_t blob_bytes,
                                     weir_compressed_info *info) {
  BlobShape shape{0, false};
  if (Status valid = read(blob, blob_bytes, &shape); !valid) return valid.code();
  weir_compressed_info full = WEIR_COMPRESSED_INFO_INIT;
  full.raw_bytes = shape.raw;
  full.block_bytes = BlobShape::block_bytes;
  full.blocks = shape.blocks();
  full.checksums = shape.sums ? 1 : 0;
  const auto *bytes = static_cast<const unsigned char *>(blob);
  full.version = bytes[4];
  uint64_t end = shape.payload_at();
  for (uint64_t i = 0; i < shape.blocks(); ++i) {
    const auto entry = weir::codec::load_little<uint64_t>(bytes + shape.entry_at(i));
    const uint64_t method = entry >> BlobShape::method_shift;
    const uint64_t next = entry & BlobShape::end_mask;
    if (next <= end || next > blob_bytes || method == 0 || method >= weir::codec::method_count) {
      return fail(WEIR_ERROR_CORRUPT, "entry %" PRIu64 " of a blob's table is 0x%" PRIx64, i, entry)
          .code();
    }
    full.methods[method].raw_bytes += shape.length(i);
    full.methods[method].coded_bytes += next - end;
    end = next;
  }
  if (end != blob_bytes) {
    return fail(WEIR_ERROR_CORRUPT,
                "a blob of %" PRIu64 " bytes ends after %" PRIu64 ", by its table", blob_bytes, end)
        .code();
  }
  return weir::write_output(full, "info", info).code();
}
