// SPDX-License-Identifier: Apache-2.0
//
// Symbols: which function and line an offset in a program's file is, asked of addr2line (binutils) when a stack is shown. A recording or a
// snapshot has files and offsets only. Where addr2line is not installed, or the file is not there any more, or is another build of it,
// the offset is what is shown.
//
// An exported function that stands before an address is not the one that is there: of files without symbols only lines count.
//
// What must hold: anyone may have written the recording, which names the files, so only regular files are opened, with no shell, as long as
// a minute of processor time each; a file of another build is not asked, for its answers would be wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tool {

/// A program or library, as it was when the offsets were taken.
struct CodeFile {
  std::string path;
  std::string build_id;  ///< "": not known
  auto operator<=>(const CodeFile &) const = default;
};

struct CodeSight {
  std::string function;  ///< without its parameters; "": not known
  std::string file;      ///< of the source; "": not known
  uint64_t line = 0;
};

class Symbols {
 public:
  /// look_up() asks for it, if there is room.
  void want(const CodeFile &file, uint64_t offset);
  /// One run of addr2line for each file.
  void look_up();
  const CodeSight &find(const CodeFile &file, uint64_t offset) const;
  /// As weir frag names frames: "heat.c:31:main", "libm.so.6:cos", else "libm.so.6+0x1a2b". `exported`: the function, as far as the program
  /// itself knew it.
  std::string frame(const CodeFile &file, uint64_t offset, std::string_view exported) const;
  /// Why there are offsets where there could be names, in sentences.
  const std::vector<std::string> &notes() const noexcept { return notes_; }

 private:
  using Offsets = std::map<uint64_t, CodeSight>;

  bool is_that_build(const CodeFile &file);
  bool ask(const CodeFile &file, Offsets *offsets);
  void note(std::string text);

  std::map<CodeFile, Offsets> files_;
  size_t wanted_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace weir::tool
