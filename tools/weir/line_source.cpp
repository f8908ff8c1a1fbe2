// SPDX-License-Identifier: Apache-2.0
//
// LineSource: buffering, decompression and line splitting; see line_source.hpp for the contract.
#include "line_source.hpp"

#include "error.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <zstd.h>

namespace weir::tool {
namespace {

constexpr size_t text_bytes = size_t{2} << 20;
constexpr size_t longest_line = size_t{1} << 20;
constexpr size_t stored_bytes = size_t{256} << 10;
constexpr unsigned char zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

}  // namespace

void LineSource::ContextFree::operator()(ZSTD_DCtx_s *context) const noexcept {
  ZSTD_freeDCtx(context);
}

LineSource::LineSource(std::string path) : path_(std::move(path)) {
  file_.reset(std::fopen(path_.c_str(), "rbe"));
  if (!file_) throw ToolError("cannot open trace '" + path_ + "': " + std::strerror(errno));
  struct stat status {};
  if (fstat(fileno(file_.get()), &status) == 0) {
    if (S_ISDIR(status.st_mode))
      throw ToolError("cannot read trace '" + path_ + "': it is a directory");
    if (S_ISREG(status.st_mode)) file_bytes_ = static_cast<uint64_t>(status.st_size);
  }
  text_.resize(text_bytes);
  stored_.resize(stored_bytes);
  stored_end_ = read_file(stored_.data(), stored_.size());
  if (stored_end_ >= sizeof zstd_magic &&
      std::memcmp(stored_.data(), zstd_magic, sizeof zstd_magic) == 0) {
    zstd_.reset(ZSTD_createDCtx());
    if (!zstd_) throw ToolError("out of memory while opening trace '" + path_ + "'");
    ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, 31);
  }
}

LineSource::~LineSource() = default;

size_t LineSource::read_file(char *to, size_t capacity) {
  const size_t got = std::fread(to, 1, capacity, file_.get());
  if (got < capacity && std::ferror(file_.get()) != 0)
    throw ToolError("cannot read trace '" + path_ + "': " + std::strerror(errno));
  bytes_read_ += got;
  return got;
}

size_t LineSource::read_compressed(char *to, size_t capacity) {
  ZSTD_outBuffer out{to, capacity, 0};
  while (out.pos == 0) {
    if (stored_begin_ == stored_end_) {
      stored_begin_ = 0;
      stored_end_ = read_file(stored_.data(), stored_.size());
      if (stored_end_ == 0) {
        cut_ = frame_hint_ != 0;
        if (cut_ && !accepts_cut_)
          throw ToolError("trace '" + path_ + "' is cut short: it ends inside a compressed frame");
        return 0;
      }
    }
    ZSTD_inBuffer in{stored_.data(), stored_end_, stored_begin_};
    frame_hint_ = ZSTD_decompressStream(zstd_.get(), &out, &in);
    if (ZSTD_isError(frame_hint_) != 0)
      throw ToolError("cannot decompress trace '" + path_ + "': " + ZSTD_getErrorName(frame_hint_));
    stored_begin_ = in.pos;
  }
  return out.pos;
}

bool LineSource::refill() {
  if (at_end_) return false;
  if (begin_ != 0) {
    std::memmove(text_.data(), text_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  size_t got = 0;
  if (zstd_) {
    got = read_compressed(text_.data() + end_, text_.size() - end_);
  } else if (stored_begin_ < stored_end_) {
    got = stored_end_ - stored_begin_;
    std::memcpy(text_.data() + end_, stored_.data() + stored_begin_, got);
    stored_begin_ = stored_end_;
  } else {
    got = read_file(text_.data() + end_, text_.size() - end_);
  }
  end_ += got;
  at_end_ = got == 0;
  return got != 0;
}

bool LineSource::next(std::string_view &line, bool &terminated) {
  size_t scanned = begin_;
  for (;;) {
    const char *start = text_.data() + begin_;
    const void *found =
        scanned < end_ ? std::memchr(text_.data() + scanned, '\n', end_ - scanned) : nullptr;
    if (found != nullptr) {
      const auto length = static_cast<size_t>(static_cast<const char *>(found) - start);
      line = {start, length};
      begin_ += length + 1;
      terminated = true;
      return true;
    }
    const size_t pending = end_ - begin_;
    if (pending > longest_line)
      throw ToolError("trace '" + path_ + "' has a line of more than 1 MiB");
    if (refill()) {
      scanned = begin_ + pending;
      continue;
    }
    if (pending == 0) return false;
    line = {text_.data() + begin_, pending};
    begin_ = end_;
    terminated = false;
    return true;
  }
}

}  // namespace weir::tool
