// SPDX-License-Identifier: Apache-2.0
//
// The folder by openat and O_NOFOLLOW, the lines, and by /proc which processes are alive.

#include "core/live/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace weir::live {
namespace {

constexpr std::string_view line_start = "weir-live 1 ";
constexpr size_t most_line = 128;

std::string error_text(int error) {
  const char *text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

/// Reads a number and the character behind it.
template <class Number>
bool take_number(std::string_view *text, char end, Number *value) noexcept {
  const char *const last = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), last, *value);
  if (error != std::errc{} || at == last || *at != end) return false;
  text->remove_prefix(static_cast<size_t>(at + 1 - text->data()));
  return true;
}

/// The file's first bytes. -1: it can't be read.
ssize_t read_start(int file, char *text, size_t capacity) noexcept {
  size_t done = 0;
  while (done < capacity) {
    const ssize_t step = ::read(file, text + done, capacity - done);
    if (step < 0 && errno == EINTR) continue;
    if (step < 0) return -1;
    if (step == 0) break;
    done += static_cast<size_t>(step);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

Descriptor::~Descriptor() {
  if (file_ >= 0) (void)close(file_);
}

// ---- entries ----

std::string Entry::line() const {
  return std::string(line_start) + std::to_string(process) + ' ' + std::to_string(start_time) +
         ' ' + std::to_string(pid_namespace) + ' ' + std::to_string(file) + '\n';
}

bool Entry::parse(std::string_view line, Entry *entry) noexcept {
  if (line.size() > most_line || !line.starts_with(line_start)) return false;
  line.remove_prefix(line_start.size());
  return take_number(&line, ' ', &entry->process) && take_number(&line, ' ', &entry->start_time) &&
         take_number(&line, ' ', &entry->pid_namespace) && take_number(&line, '\n', &entry->file) &&
         line.empty() && entry->process > 0 && entry->start_time != 0 && entry->file >= 0;
}

uint64_t start_time_of(pid_t process) noexcept {
  std::array<char, 32> path{"/proc/"};
  char *const end = std::to_chars(path.data() + 6, path.data() + 20, process).ptr;
  std::memcpy(end, "/stat", 6);
  const Descriptor file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text;
  const ssize_t length = file ? read_start(file.get(), text.data(), text.size()) : -1;
  if (length <= 0) return 0;
  // The second field is the program's name, in brackets and with whatever in it.
  std::string_view rest(text.data(), static_cast<size_t>(length));
  const size_t name_end = rest.rfind(')');
  if (name_end == rest.npos) return 0;
  rest.remove_prefix(name_end + 1);
  if (rest.starts_with(" Z") || rest.starts_with(" X"))
    return 0;                        // dead; its parent has not reaped it
  constexpr int fields_before = 20;  // blanks up to the 22nd field
  for (int i = 0; i < fields_before; ++i) {
    const size_t blank = rest.find(' ');
    if (blank == rest.npos) return 0;
    rest.remove_prefix(blank + 1);
  }
  uint64_t value = 0;
  return take_number(&rest, ' ', &value) ? value : 0;
}

uint64_t own_pid_namespace() noexcept {
  struct stat about {};
  return stat("/proc/self/ns/pid", &about) == 0 ? static_cast<uint64_t>(about.st_ino) : 0;
}

// ---- the folder ----

Folder::Surroundings Folder::Surroundings::own() {
  const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
  return {runtime != nullptr ? runtime : "", "/tmp", "/run/user/" + std::to_string(geteuid())};
}

/// `parent_is_own`: no other user may be able to rename what is in it.
Folder Folder::open(const std::string &parent, const std::string &name, bool parent_is_own,
                    bool make, std::string *why) {
  const std::string path = parent + '/' + name;
  const auto refused = [&](const std::string &at, const std::string &reason) {
    if (!why->empty()) *why += "; ";
    *why += at + ": " + reason;
    return Folder();
  };
  const Descriptor above(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat about {};
  if (!above || fstat(above.get(), &about) != 0) return refused(parent, error_text(errno));
  if (parent_is_own && about.st_uid != geteuid()) return refused(parent, "is another user's");
  if (parent_is_own && (about.st_mode & 022U) != 0)
    return refused(parent, "others may write to it");
  if (make && mkdirat(above.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
    return refused(path, error_text(errno));
  Descriptor own(
      openat(above.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!own || fstat(own.get(), &about) != 0)
    return refused(
        path, errno == ELOOP || errno == ENOTDIR ? "is a link or no folder" : error_text(errno));
  if (about.st_uid != geteuid()) return refused(path, "is another user's");
  if ((about.st_mode & 077U) != 0) return refused(path, "is open to others");
  return {path, std::move(own)};
}

Folder Folder::again(const std::string &path) noexcept {
  Descriptor own(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  const bool good = own && fstat(own.get(), &about) == 0 && about.st_uid == geteuid() &&
                    (about.st_mode & 077U) == 0;
  return good ? Folder(std::move(own)) : Folder();
}

Folder Folder::make(const Surroundings &where, std::string *why) {
  why->clear();
  if (where.runtime.starts_with('/')) {
    if (Folder found = open(where.runtime, "weir", true, true, why)) return found;
  } else {
    *why = "XDG_RUNTIME_DIR names no folder";
  }
  return open(where.temporary, "weir-" + std::to_string(geteuid()), false, true, why);
}

std::vector<Folder> Folder::all(const Surroundings &where) {
  std::vector<Folder> found;
  std::string why;
  const auto add = [&found](Folder folder) {
    if (folder) found.push_back(std::move(folder));
  };
  if (where.runtime.starts_with('/')) add(open(where.runtime, "weir", true, false, &why));
  if (where.usual.starts_with('/') && where.runtime != where.usual)
    add(open(where.usual, "weir", true, false, &why));
  add(open(where.temporary, "weir-" + std::to_string(geteuid()), false, false, &why));
  return found;
}

/// False: the file is of a process that lives, or may.
bool Folder::make_room(const std::string &name, const Entry &entry) const {
  File file;
  Entry old;
  if (!read(name, &file)) return false;
  const bool stale = !Entry::parse(file.text, &old) ||
                     (old.process == entry.process && old.pid_namespace == entry.pid_namespace &&
                      old.start_time != entry.start_time);
  if (stale) remove(name, file.inode);
  return stale;
}

bool Folder::add(const Entry &entry, File *made, std::string *why) const {
  constexpr int most_files = 1000;
  made->text = entry.line();
  for (int i = 1; i <= most_files; ++i) {
    made->name = std::to_string(entry.process) + (i > 1 ? '.' + std::to_string(i) : "");
    const auto create = [&] {
      return openat(file_.get(), made->name.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    };
    Descriptor file(create());
    if (!file && errno == EEXIST) {
      if (!make_room(made->name, entry)) continue;
      file = Descriptor(create());
      if (!file && errno == EEXIST) continue;
    }
    struct stat about {};
    const std::string &text = made->text;
    if (file && fstat(file.get(), &about) == 0 &&
        ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
      made->inode = static_cast<uint64_t>(about.st_ino);
      made->changed_s = static_cast<int64_t>(about.st_mtim.tv_sec);
      return true;
    }
    *why = path_ + '/' + made->name + ": " + error_text(errno);
    if (file) remove(made->name, 0);
    return false;
  }
  *why = path_ + ": there are " + std::to_string(most_files) + " files of process " +
         std::to_string(entry.process);
  return false;
}

void Folder::remove(const std::string &name, uint64_t inode) const noexcept {
  struct stat about {};
  if (fstatat(file_.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (inode == 0 || static_cast<uint64_t>(about.st_ino) == inode)
    (void)unlinkat(file_.get(), name.c_str(), 0);
}

bool Folder::read(const std::string &name, File *found) const {
  // NONBLOCK: the name may be that of a pipe.
  const Descriptor file(
      openat(file_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat about {};
  if (!file || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return false;
  std::array<char, most_line + 1> text;
  const ssize_t length = read_start(file.get(), text.data(), text.size());
  if (length < 0) return false;
  *found = {name, std::string(text.data(), static_cast<size_t>(length)),
            static_cast<uint64_t>(about.st_ino), static_cast<int64_t>(about.st_mtim.tv_sec)};
  return true;
}

std::vector<Folder::File> Folder::list(size_t most, bool *more) const {
  std::vector<File> files;
  *more = false;
  Descriptor again(openat(file_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return files;
  const std::unique_ptr<DIR, int (*)(DIR *)> folder(fdopendir(again.get()), closedir);
  if (!folder) return files;
  (void)again.release();
  while (const dirent *entry = readdir(folder.get())) {
    // A number, and perhaps another one behind a point.
    const std::string_view name = entry->d_name;
    if (name.empty() || name.find_first_not_of("0123456789.") != name.npos || name[0] == '.')
      continue;
    if (files.size() == most) {
      *more = true;
      break;
    }
    File file;
    if (read(entry->d_name, &file)) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace weir::live
