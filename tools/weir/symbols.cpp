// SPDX-License-Identifier: Apache-2.0
//
// Running addr2line. It reads and writes files without names, not pipes: neither side can wait for the other.
#include "symbols.hpp"

#include "core/base/build_id.hpp"
#include "trace_file.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

extern char **environ;

namespace weir::tool {
namespace {

constexpr size_t most_wanted = size_t{1} << 20;  // offsets
constexpr size_t most_notes = 8;
constexpr size_t longest_function = 120;
constexpr rlim_t most_seconds = 60;  // of the processor's time, for one file
constexpr size_t most_note_bytes = size_t{1} << 20;

using NamelessFile = std::unique_ptr<FILE, int (*)(FILE *)>;

std::string base_name(const std::string &path) { return path.substr(path.rfind('/') + 1); }

std::string in_hex(uint64_t number) {
  char text[24];
  (void)std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(number));
  return text;
}

class OpenedFile {
 public:
  explicit OpenedFile(const std::string &path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenedFile() {
    if (number_ >= 0) (void)close(number_);
  }
  OpenedFile(const OpenedFile &) = delete;
  OpenedFile &operator=(const OpenedFile &) = delete;

  bool is_regular() const {
    struct stat status {};
    return number_ >= 0 && fstat(number_, &status) == 0 && S_ISREG(status.st_mode);
  }
  bool read(void *to, size_t bytes, uint64_t at) const {
    return at <= INT64_MAX &&
           pread(number_, to, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }

 private:
  int number_;
};

/// "" where it has none, or is no program of this kind of machine.
std::string build_id_of(const OpenedFile &file) {
  Elf64_Ehdr head;
  if (!file.read(&head, sizeof head, 0) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB ||
      head.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  for (size_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!file.read(&part, sizeof part, head.e_phoff + i * sizeof part)) return {};
    if (part.p_type != PT_NOTE || part.p_filesz > most_note_bytes) continue;
    std::vector<std::byte> notes(part.p_filesz);
    if (!file.read(notes.data(), notes.size(), part.p_offset)) return {};
    if (std::string id = build_id_of_notes(notes); !id.empty()) return id;
  }
  return {};
}

/// Whether it has a table of all its functions, not of those alone that others may call.
bool has_symbols(const OpenedFile &file) {
  Elf64_Ehdr head;
  if (!file.read(&head, sizeof head, 0) || head.e_shentsize != sizeof(Elf64_Shdr)) return false;
  for (size_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!file.read(&section, sizeof section, head.e_shoff + i * sizeof section)) return false;
    if (section.sh_type == SHT_SYMTAB) return true;
  }
  return false;
}

std::string demangled(const std::string &name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void *)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

/// "weir::(anonymous namespace)::use(int, char)" becomes "weir::(anonymous namespace)::use".
std::string without_parameters(std::string_view function) {
  function = function.substr(0, function.find(" [clone "));  // made of it by the compiler
  size_t end = function.size();
  if (function.ends_with(" const")) end -= 6;
  if (end != 0 && function[end - 1] == ')') {
    int open = 0;
    for (size_t i = end; i-- > 0;) {
      open += function[i] == ')' ? 1 : function[i] == '(' ? -1 : 0;
      if (open != 0) continue;
      if (i != 0) function = function.substr(0, i);
      break;
    }
  }
  std::string text = printable(function);
  if (text.size() > longest_function) text = text.substr(0, longest_function - 3) + "...";
  std::replace(text.begin(), text.end(), ';', ',');  // which is between frames
  return text;
}

/// Of "FILE:LINE", "FILE:LINE (discriminator 2)", "FILE:?" or "??:0".
void read_place(std::string_view text, CodeSight *sight) {
  text = text.substr(0, text.find(" ("));
  const size_t colon = text.rfind(':');
  if (colon == text.npos || text.starts_with("??")) return;
  uint64_t line = 0;
  const std::string_view number = text.substr(colon + 1);
  const auto end = std::from_chars(number.data(), number.data() + number.size(), line);
  if (end.ec != std::errc{} || line == 0) return;
  sight->file = printable(text.substr(0, colon));
  std::replace(sight->file.begin(), sight->file.end(), ';', ',');
  sight->line = line;
}

/// The exit status; -1: it did not exit by itself; -2: it is not installed.
int run_addr2line(const std::string &path, FILE *input, FILE *output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(input), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(output), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string words[] = {"addr2line", "-a", "-f", "-C", "-e", path};
  char *arguments[std::size(words) + 1] = {};
  for (size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();
  pid_t child = 0;
  const int failure = posix_spawnp(&child, words[0].c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return failure == ENOENT || failure == EACCES ? -2 : -1;
  const rlimit limit{most_seconds, most_seconds};
  (void)prlimit(child, RLIMIT_CPU, &limit, nullptr);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A line without its end.
bool read_line(FILE *file, std::string *line) {
  line->clear();
  char part[4096];
  while (std::fgets(part, sizeof part, file) != nullptr) {
    *line += part;
    if (!line->ends_with('\n')) continue;
    line->pop_back();
    return true;
  }
  return !line->empty();
}

}  // namespace

void Symbols::want(const CodeFile &file, uint64_t offset) {
  if (wanted_ == most_wanted || file.path.empty() || file.path[0] != '/') return;
  if (files_[file].try_emplace(offset).second) ++wanted_;
}

void Symbols::look_up() {
  for (auto &[file, offsets] : files_)
    if (is_that_build(file) && !ask(file, &offsets)) return;
}

bool Symbols::is_that_build(const CodeFile &file) {
  const OpenedFile opened(file.path);
  if (!opened.is_regular()) {
    note("'" + printable(file.path) + "' is not there: its calls are shown by their offsets");
    return false;
  }
  if (file.build_id.empty() || build_id_of(opened) == file.build_id) return true;
  note("'" + printable(file.path) +
       "' is another build than the one that ran: its calls are shown by their offsets");
  return false;
}

/// False: addr2line can be asked about no file.
bool Symbols::ask(const CodeFile &file, Offsets *offsets) {
  const NamelessFile input(std::tmpfile(), std::fclose), output(std::tmpfile(), std::fclose);
  if (input == nullptr || output == nullptr) {
    note("no temporary file can be made: calls are shown by their offsets");
    return false;
  }
  for (const auto &[offset, sight] : *offsets)
    (void)std::fprintf(input.get(), "%#llx\n", static_cast<unsigned long long>(offset));
  if (std::fflush(input.get()) != 0) return false;
  std::rewind(input.get());
  const int status = run_addr2line(file.path, input.get(), output.get());
  if (status == -2) {
    note("addr2line (binutils) is not installed: calls are shown by their offsets");
    return false;
  }
  if (status != 0) note("addr2line can't read '" + printable(file.path) + "' to its end");
  std::rewind(output.get());
  const bool trusted = has_symbols(OpenedFile(file.path));
  // The address, its function, its place.
  std::string address, function, place;
  while (read_line(output.get(), &address) && read_line(output.get(), &function) &&
         read_line(output.get(), &place)) {
    if (!address.starts_with("0x")) break;
    uint64_t offset = 0;
    (void)std::from_chars(address.data() + 2, address.data() + address.size(), offset, 16);
    const auto found = offsets->find(offset);
    if (found == offsets->end()) continue;
    read_place(place, &found->second);
    if (function != "??" && (trusted || found->second.line != 0))
      found->second.function = without_parameters(function);
  }
  return true;
}

void Symbols::note(std::string text) {
  if (notes_.size() < most_notes) notes_.push_back(std::move(text));
}

const CodeSight &Symbols::find(const CodeFile &file, uint64_t offset) const {
  static const CodeSight nothing;
  const auto offsets = files_.find(file);
  if (offsets == files_.end()) return nothing;
  const auto found = offsets->second.find(offset);
  return found == offsets->second.end() ? nothing : found->second;
}

std::string Symbols::frame(const CodeFile &file, uint64_t offset, std::string_view exported) const {
  const CodeSight &sight = find(file, offset);
  std::string module = printable(base_name(file.path));
  std::replace(module.begin(), module.end(), ';', ',');
  if (sight.line != 0)
    return base_name(sight.file) + ":" + std::to_string(sight.line) + ":" +
           (sight.function.empty() ? "?" : sight.function);
  if (!sight.function.empty()) return module + ":" + sight.function;
  if (!exported.empty())
    return module + ":" + without_parameters(demangled(std::string(exported.substr(0, 4096))));
  return module + "+" + in_hex(offset);
}

}  // namespace weir::tool
