// SPDX-License-Identifier: Apache-2.0
//
// The folders' files, and whose they are; the memory file of each before it is opened, and what is done with the answers.
#include "reader.hpp"

#include "core/base/name.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>

namespace weir::tool {
namespace {

std::string system_text(int error) {
  const char *text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

uint64_t clock_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// The memory file, opened for reading: not before it is known to be one, since to open a file of another kind can do things.
live::Descriptor open_page(const live::Entry &entry, std::string *reason) {
  const std::string path =
      "/proc/" + std::to_string(entry.process) + "/fd/" + std::to_string(entry.file);
  const auto refuse = [&](const std::string &why) {
    *reason = path + ": " + why;
    return live::Descriptor();
  };
  std::array<char, 64> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length < 0) return refuse(system_text(errno));
  const std::string expected = std::string("/memfd:") + live::page_name + " (deleted)";
  const std::string_view found(target.data(), static_cast<size_t>(length));
  if (found != expected) return refuse("is " + shown(found) + ", no page of Weir's");
  struct stat before {
  }, after{};
  if (stat(path.c_str(), &before) != 0) return refuse(system_text(errno));
  if (!S_ISREG(before.st_mode)) return refuse("is no file");
  if (before.st_uid != geteuid()) return refuse("belongs to user " + std::to_string(before.st_uid));
  live::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file || fstat(file.get(), &after) != 0) return refuse(system_text(errno));
  if (before.st_dev != after.st_dev || before.st_ino != after.st_ino)
    return refuse("has become another file meanwhile");
  return file;
}

/// What the system calls a process of which its page does not tell.
std::string system_name(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/comm", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return shown(text);
}

/// The number that a file is named by; 0: none.
pid_t process_of(const std::string &name) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
  return error == std::errc{} ? process : 0;
}

/// A file that is no line: of a program that is about to write it, or that died before it had.
bool is_left_over(const live::Folder::File &file) {
  constexpr int64_t grace_s = 10;
  const pid_t process = process_of(file.name);
  return time(nullptr) - file.changed_s > grace_s &&
         (process <= 0 || live::start_time_of(process) == 0);
}

LiveProgram &program_of(const live::Entry &entry, std::vector<LiveProgram> *programs) {
  const auto found = std::ranges::find_if(
      *programs, [&](const LiveProgram &program) { return program.process == entry.process; });
  if (found != programs->end()) return *found;
  LiveProgram &fresh = programs->emplace_back();
  fresh.process = entry.process;
  fresh.start_time = entry.start_time;
  return fresh;
}

void add_context(const live::Entry &entry, std::vector<LiveProgram> *programs) {
  LiveContext context;
  std::string name, reason;
  const live::Descriptor file = open_page(entry, &reason);
  const bool read = file && read_live_page(file.get(), entry, &context, &name, &reason);
  // It may have ended meanwhile.
  if (!read && live::start_time_of(entry.process) != entry.start_time) return;
  LiveProgram &program = program_of(entry, programs);
  if (program.name.empty()) program.name = read ? name : system_name(entry.process);
  if (!read) {
    program.state = LiveProgram::State::refused;
    program.reason = reason;
    return;
  }
  if (context.busy_pools != 0 && program.state == LiveProgram::State::seen)
    program.state = LiveProgram::State::busy;
  program.contexts.push_back(std::move(context));
}

}  // namespace

std::string live_text(std::string_view text) { return shown(text); }

LiveView LiveReader::look(pid_t only) const {
  LiveView view;
  view.now_ns = clock_ns();
  const uint64_t own_namespace = live::own_pid_namespace();
  std::vector<live::Entry> entries;
  for (const live::Folder &folder : live::Folder::all(where_)) {
    bool more = false;
    for (const live::Folder::File &file : folder.list(most_files, &more)) {
      live::Entry entry;
      if (!live::Entry::parse(file.text, &entry)) {
        is_left_over(file) ? folder.remove(file.name, file.inode)
                           : static_cast<void>(++view.unreadable);
      } else if (entry.pid_namespace != own_namespace) {
        ++view.elsewhere;
      } else if (live::start_time_of(entry.process) != entry.start_time) {
        folder.remove(file.name, file.inode);
      } else if (only == 0 || entry.process == only) {
        entries.push_back(entry);
      }
    }
    view.more = view.more || more;
  }
  const auto key = [](const live::Entry &entry) { return std::pair(entry.process, entry.file); };
  std::ranges::sort(entries, {}, key);
  const auto same = std::ranges::unique(entries, {}, key);
  entries.erase(same.begin(), same.end());
  for (const live::Entry &entry : entries) add_context(entry, &view.programs);
  for (LiveProgram &program : view.programs)
    std::ranges::sort(program.contexts, {}, &LiveContext::number);
  return view;
}

}  // namespace weir::tool
