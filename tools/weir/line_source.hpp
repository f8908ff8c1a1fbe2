// SPDX-License-Identifier: Apache-2.0
//
// LineSource: the lines of a text file, plain or zstd-compressed (told apart by its first bytes),
// read as a stream. It holds one buffer, never the whole text. A line it hands out is valid until
// the next call.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct ZSTD_DCtx_s;

namespace weir::tool {

class LineSource {
 public:
  /// Throws ToolError when the file can't be opened.
  explicit LineSource(std::string path);
  ~LineSource();
  LineSource(const LineSource &) = delete;
  LineSource &operator=(const LineSource &) = delete;

  /// The next line without its line end; false at the end of the file. `terminated` tells whether
  /// the line ended in LF. Throws ToolError on a read or decompression error, and on a line of more
  /// than 1 MiB.
  bool next(std::string_view &line, bool &terminated);

  /// From now on a compressed frame that has no end is the end of the file, and no error.
  void accept_cut() noexcept { accepts_cut_ = true; }
  /// Whether that is where the file has ended.
  bool cut() const noexcept { return cut_; }

  const std::string &path() const noexcept { return path_; }
  uint64_t bytes_read() const noexcept { return bytes_read_; }  ///< of the file, as stored
  uint64_t file_bytes() const noexcept { return file_bytes_; }  ///< 0 if unknown

 private:
  struct FileCloser {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
  };
  struct ContextFree {
    void operator()(ZSTD_DCtx_s *context) const noexcept;
  };

  bool refill();
  size_t read_file(char *to, size_t capacity);
  size_t read_compressed(char *to, size_t capacity);

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::unique_ptr<ZSTD_DCtx_s, ContextFree> zstd_;
  std::vector<char> text_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<char> stored_;
  size_t stored_begin_ = 0;
  size_t stored_end_ = 0;
  size_t frame_hint_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t file_bytes_ = 0;
  bool at_end_ = false;
  bool accepts_cut_ = false;
  bool cut_ = false;
};

}  // namespace weir::tool
