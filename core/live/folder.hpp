// SPDX-License-Identifier: Apache-2.0
//
// Folder: where a user's running programs are found, `weir` in $XDG_RUNTIME_DIR or /tmp/weir-UID; and Entry: what one of its files says,
// a line. A file is named by the process and holds the line of one context: PID for the first one, PID.2 and so on for further ones. Of
// this class the library makes and removes its own files, and readers list them and remove those of dead processes.
//
// What must hold: a folder that others may write to, that is another user's, or that is reached by a link, is no folder. No
// program waits for a lock here: neither for a reader, nor for another program. A file that was only half written is no entry.
// It knows nothing of the rest of the core: the weir command has it, too.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::live {

/// A file descriptor that is closed.
class Descriptor {
 public:
  explicit Descriptor(int file = -1) noexcept : file_(file) {}
  Descriptor(Descriptor &&other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Descriptor();
  int get() const noexcept { return file_; }
  int release() noexcept { return std::exchange(file_, -1); }
  explicit operator bool() const noexcept { return file_ >= 0; }

 private:
  int file_;
};

/// Where the page of one context is.
struct Entry {
  pid_t process = 0;  ///< as its own PID namespace numbers it
  uint64_t start_time = 0;
  uint64_t pid_namespace = 0;  ///< the inode of /proc/PID/ns/pid
  int file = -1;               ///< the page is /proc/PID/fd/FILE

  std::string line() const;
  /// False: the text is not exactly such a line.
  static bool parse(std::string_view line, Entry *entry) noexcept;
};

/// Field 22 of /proc/PID/stat: with the number it names a process for good. 0: there is no such process, or it has ended.
uint64_t start_time_of(pid_t process) noexcept;
/// 0: /proc does not tell it.
uint64_t own_pid_namespace() noexcept;

class Folder {
 public:
  struct Surroundings {
    std::string runtime;    ///< XDG_RUNTIME_DIR, "" for none
    std::string temporary;  ///< /tmp
    std::string
        usual;  ///< where systemd has it, for readers whose environment does not say; "" for none
    static Surroundings own();
  };
  /// What a reader finds of one file.
  struct File {
    std::string name;
    std::string text;  ///< its first bytes
    uint64_t inode = 0;
    int64_t changed_s = 0;
  };

  Folder() = default;
  /// Opens a folder that has been opened before, if it is still as it must be.
  static Folder again(const std::string &path) noexcept;
  /// Opens the user's folder, and makes it if there is none. *why: why there is none to be had.
  static Folder make(const Surroundings &where, std::string *why);
  /// All folders that there are. A program may have found another folder than the reader would.
  static std::vector<Folder> all(const Surroundings &where);

  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  const std::string &path() const noexcept { return path_; }

  /// Makes the file of one context. Files of dead processes with that number are removed. *why: why it can't be made.
  bool add(const Entry &entry, File *made, std::string *why) const;
  /// Removes the file, if it is still that one (0: whichever it is).
  void remove(const std::string &name, uint64_t inode) const noexcept;
  /// At most `most` files; *more: there are others.
  std::vector<File> list(size_t most, bool *more) const;

 private:
  explicit Folder(Descriptor file) noexcept : file_(std::move(file)) {}
  Folder(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  static Folder open(const std::string &parent, const std::string &name, bool parent_is_own,
                     bool make, std::string *why);
  bool read(const std::string &name, File *file) const;
  bool make_room(const std::string &name, const Entry &entry) const;

  std::string path_;
  Descriptor file_;
};

}  // namespace weir::live
