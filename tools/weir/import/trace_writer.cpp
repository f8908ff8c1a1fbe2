// SPDX-License-Identifier: Apache-2.0
//
// Lines in, a file out.
#include "tools/weir/import/trace_writer.hpp"

#include "tools/weir/error.hpp"

#include <utility>
#include <zstd.h>

namespace weir::tool {
namespace {

constexpr size_t lines_kept = size_t{1} << 20;
static_assert(lines_kept >= record::vmt_longest_line);

}  // namespace

void TraceWriter::ContextFree::operator()(ZSTD_CCtx_s *context) const noexcept {
  ZSTD_freeCCtx(context);
}

TraceWriter::TraceWriter(bool compressed)
    : memory_(lines_kept), lines_(memory_.data(), memory_.size()) {
  if (!compressed) return;
  zstd_.reset(ZSTD_createCCtx());
  if (!zstd_) throw ToolError("out of memory");
  ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, 9);
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::say(const std::function<bool(record::VmtLines &)> &line) {
  if (line(lines_)) return;
  flush(false);
  if (!line(lines_)) throw ToolError("a line of a trace has no room");
}

std::string TraceWriter::take() {
  flush(true);
  return std::move(file_);
}

void TraceWriter::flush(bool last) {
  const std::string_view text = lines_.text();
  if (!zstd_) {
    file_.append(text);
  } else {
    ZSTD_inBuffer in{text.data(), text.size(), 0};
    std::vector<char> packed(ZSTD_CStreamOutSize());
    for (size_t left = 1; last ? left != 0 : in.pos < in.size;) {
      ZSTD_outBuffer out{packed.data(), packed.size(), 0};
      left = ZSTD_compressStream2(zstd_.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left) != 0)
        throw ToolError(std::string("cannot compress a trace: ") + ZSTD_getErrorName(left));
      file_.append(packed.data(), out.pos);
    }
  }
  lines_.clear();
}

}  // namespace weir::tool
