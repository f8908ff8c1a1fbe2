// SPDX-License-Identifier: Apache-2.0
//
// A block is written as often as it has grown, always to the same place.

#include "core/trace/block_file.hpp"

#include <cerrno>
#include <cstring>

namespace weir::trace {

bool BlockFile::write_block() noexcept {
  if (!dirty_) return error_ == 0;
  std::memset(text_.data() + used_, ' ', block - used_);
  if (error_ == 0) error_ = write_all(file_.number(), text_.data(), block, at_);
  dirty_ = false;
  return error_ == 0;
}

bool BlockFile::append(std::string_view text) noexcept {
  if (error_ != 0) return false;
  if (text.size() + 1 > block) {
    error_ = EMSGSIZE;
    return false;
  }
  if (used_ + text.size() + 1 > block) {
    if (!write_block()) return false;
    at_ += block;
    used_ = 0;
  }
  std::memcpy(text_.data() + used_, text.data(), text.size());
  used_ += text.size();
  text_[used_++] = '\n';
  dirty_ = true;
  return true;
}

bool BlockFile::line(std::string_view text) noexcept {
  // One block is kept for the last line.
  full_ = full_ || at_ + 3 * block > most_bytes_;
  return !full_ && append(text);
}

bool BlockFile::flush() noexcept { return write_block(); }

int BlockFile::finish(std::string_view last) noexcept {
  if (append(last)) (void)write_block();
  return error_;
}

}  // namespace weir::trace
