// SPDX-License-Identifier: Apache-2.0
//
// One frame of zstd, in which each flush ends a block.

#include "core/trace/text_file.hpp"

#include <zstd.h>

#include <cerrno>
#include <new>

namespace weir::trace {
namespace {

constexpr size_t most_pending = size_t{256} << 10U;
/// A recording is made beside a program that has other things to do.
constexpr int level = 1;

ZSTD_CCtx *of(void *stream) noexcept { return static_cast<ZSTD_CCtx *>(stream); }

}  // namespace

TextFile::TextFile(OwnFile file, uint64_t most_bytes, bool compressed)
    : file_(std::move(file)), most_bytes_(most_bytes) {
  text_.reserve(most_pending);
  if (!compressed) return;
  coded_.resize(ZSTD_CStreamOutSize());
  stream_ = ZSTD_createCCtx();
  if (stream_ == nullptr) throw std::bad_alloc();
  (void)ZSTD_CCtx_setParameter(of(stream_), ZSTD_c_compressionLevel, level);
  (void)ZSTD_CCtx_setParameter(of(stream_), ZSTD_c_checksumFlag, 1);
}

TextFile::~TextFile() { (void)ZSTD_freeCCtx(of(stream_)); }

void TextFile::write(const void *bytes, size_t count) noexcept {
  if (error_ == 0) error_ = write_all(file_.number(), bytes, count, at_);
  at_ += count;
}

void TextFile::push(Push how) {
  if (stream_ == nullptr) {
    write(text_.data(), text_.size());
  } else {
    ZSTD_inBuffer in{text_.data(), text_.size(), 0};
    const ZSTD_EndDirective directive = how == Push::end     ? ZSTD_e_end
                                        : how == Push::flush ? ZSTD_e_flush
                                                             : ZSTD_e_continue;
    size_t left = 1;
    while (error_ == 0 && (left != 0 || in.pos < in.size)) {
      ZSTD_outBuffer out{coded_.data(), coded_.size(), 0};
      left = ZSTD_compressStream2(of(stream_), &out, &in, directive);
      if (ZSTD_isError(left) != 0) error_ = ENOMEM;
      write(coded_.data(), out.pos);
      if (how == Push::more && in.pos == in.size) break;
    }
  }
  text_.clear();
  full_ = full_ || at_ > most_bytes_;
}

void TextFile::add(std::string_view lines) {
  if (ended()) return;
  if (text_.size() + lines.size() > most_pending) push(Push::more);
  text_.insert(text_.end(), lines.begin(), lines.end());
}

void TextFile::flush() {
  if (error_ == 0 && !text_.empty()) push(Push::flush);
}

void TextFile::finish() {
  if (error_ == 0) push(Push::end);
}

}  // namespace weir::trace
