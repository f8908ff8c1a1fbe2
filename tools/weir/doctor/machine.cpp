// SPDX-License-Identifier: Apache-2.0
//
// The machine that the process runs on: what it is asked for is asked for as the library does, and given back at once.
#include "machine.hpp"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace weir::tool::doctor {
namespace {

uint64_t limit(int resource) {
  rlimit value{};
  const auto which = static_cast<__rlimit_resource_t>(resource);
  if (getrlimit(which, &value) != 0 || value.rlim_cur == RLIM_INFINITY) return no_limit;
  return value.rlim_cur;
}

int close_again(long descriptor) {
  if (descriptor < 0) return errno;
  ::close(static_cast<int>(descriptor));
  return 0;
}

/// With as many entries as the library's rings have.
int make_ring() {
  constexpr unsigned entries = 512;
  io_uring_params params{};
  return close_again(syscall(SYS_io_uring_setup, entries, &params));
}

int make_memory_file() { return close_again(memfd_create("weir-doctor", MFD_CLOEXEC)); }

/// Without a name, as spill files are, or with one that is taken away at once.
int make_file(const std::string &folder) {
  const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return unnamed;
  std::string name = folder + "/weir-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) (void)unlink(name.c_str());
  return named;
}

}  // namespace

Folder look_at_folder(const std::string &path) {
  Folder folder;
  const int file = make_file(path);
  if (file < 0) {
    folder.error = errno;
    return folder;
  }
  struct statfs about {};
  if (fstatfs(file, &about) == 0) {
    const auto type = static_cast<unsigned long>(about.f_type);
    folder.in_memory = type == TMPFS_MAGIC || type == RAMFS_MAGIC;
    folder.free_bytes = uint64_t{about.f_bavail} * static_cast<uint64_t>(about.f_bsize);
  }
  const int flags = fcntl(file, F_GETFL);
  folder.direct = flags >= 0 && fcntl(file, F_SETFL, flags | O_DIRECT) == 0;
  ::close(file);
  return folder;
}

std::string cache_folder(const std::function<const char *(const char *)> &get) {
  const auto value = [&get](const char *name) {
    const char *text = get(name);
    return std::string(text != nullptr ? text : "");
  };
  if (std::string own = value("WEIR_CACHE_DIR"); !own.empty()) return own;
  if (const std::string base = value("XDG_CACHE_HOME"); base.starts_with('/'))
    return base + "/weir";
  if (const std::string home = value("HOME"); home.starts_with('/')) return home + "/.cache/weir";
  return "";
}

Machine this_machine(std::vector<std::string> storage) {
  Machine machine;
  machine.limits = {limit(RLIMIT_MEMLOCK), limit(RLIMIT_AS), limit(RLIMIT_FSIZE),
                    limit(RLIMIT_NOFILE)};
  machine.make_ring = make_ring;
  machine.make_memory_file = make_memory_file;
  machine.look_at_folder = look_at_folder;
  machine.cache_folder = cache_folder([](const char *name) { return secure_getenv(name); });
  machine.storage = std::move(storage);
  return machine;
}

}  // namespace weir::tool::doctor
