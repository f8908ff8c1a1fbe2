// SPDX-License-Identifier: Apache-2.0
//
// Making a spill file: unnamed, preallocated, O_DIRECT if a real read and write say that it works.

#include "core/tier/spill_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>

namespace weir::tier {
namespace {

int ask(IoHook *hook, IoCall call, uint64_t bytes) noexcept {
  if (hook == nullptr) return 0;
  const int64_t answer = hook->before(call, bytes);
  return answer < 0 ? static_cast<int>(-answer) : 0;
}

Status system_error(int error, const char *what, const std::string &directory) {
  return fail(WEIR_ERROR_IO, {.tier = WEIR_TIER_STORAGE, .native = error},
              "storage: cannot %s in '%s': %s", what, directory.c_str(), strerrordesc_np(error));
}

uint64_t free_bytes(int descriptor) noexcept {
  struct statvfs about {};
  return fstatvfs(descriptor, &about) == 0 ? uint64_t{about.f_bavail} * about.f_frsize : UINT64_MAX;
}

/// What a file of this process may grow to. Asked first, because passing it raises a signal that ends the program.
uint64_t size_limit() noexcept {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? limit.rlim_cur : UINT64_MAX;
}

/// And in that file system.
uint64_t room_for(int descriptor) noexcept {
  return std::min(free_bytes(descriptor), size_limit());
}

Status no_room(int error, uint64_t bytes, int descriptor, const std::string &directory) {
  const ErrorDetail detail{.tier = WEIR_TIER_STORAGE,
                           .asked = bytes,
                           .available = room_for(descriptor),
                           .native = error};
  return fail(WEIR_ERROR_OVER_BUDGET, detail,
              "storage: '%s' has no room for a file of %" PRIu64 " bytes (%" PRIu64
              " bytes available): %s",
              directory.c_str(), bytes, detail.available, strerrordesc_np(error));
}

}  // namespace

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

SpillFile &SpillFile::operator=(SpillFile &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  directory_.swap(other.directory_);
  return *this;
}

Status SpillFile::make(const std::string &directory, uint64_t bytes, bool direct, IoHook *hook,
                       const Log &log, SpillFile *file) {
  SpillFile fresh;
  fresh.directory_ = directory;
  WEIR_TRY(fresh.open(hook));
  WEIR_TRY(fresh.preallocate(bytes, hook, log));
  fresh.direct_ = direct && fresh.try_direct(bytes, hook);
  // Slots are read whole and in no order: reading on past one is of no use.
  if (!fresh.direct_) (void)posix_fadvise(fresh.descriptor_, 0, 0, POSIX_FADV_RANDOM);
  *file = std::move(fresh);
  return {};
}

Status SpillFile::open(IoHook *hook) {
  int error = ask(hook, IoCall::open, 0);
  if (error == 0) {
    do {
      descriptor_ = ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    } while (descriptor_ < 0 && errno == EINTR);
    error = descriptor_ < 0 ? errno : 0;
  }
  // A file system without unnamed files says the first, a kernel without them one of the others.
  if (error == EOPNOTSUPP || error == EISDIR || error == EINVAL) {
    error = ask(hook, IoCall::open, 0);
    if (error == 0) {
      std::string name = directory_ + "/weir-XXXXXX";
      descriptor_ = mkostemp(name.data(), O_CLOEXEC);
      error = descriptor_ < 0 ? errno : 0;
      if (error == 0 && unlink(name.c_str()) != 0) error = errno;
    }
  }
  if (error != 0) return system_error(error, "make a file", directory_);
  // The mode that was asked for is less the process's umask, which may forbid even us.
  if (fchmod(descriptor_, 0600) != 0) return system_error(errno, "make a private file", directory_);
  return {};
}

Status SpillFile::preallocate(uint64_t bytes, IoHook *hook, const Log &log) {
  if (bytes == 0) return {};
  int error = ask(hook, IoCall::preallocate, bytes);
  if (error == 0 && bytes > size_limit()) error = EFBIG;
  // Asked first too: a file system that finds out halfway has nothing left for other files until then.
  if (error == 0 && bytes > free_bytes(descriptor_)) error = ENOSPC;
  while (error == 0 && fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) error = errno;
  }
  if (error == EOPNOTSUPP || error == ENOSYS) {
    const uint64_t room = room_for(descriptor_);
    if (bytes > room) return no_room(ENOSPC, bytes, descriptor_, directory_);
    error = ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    if (error == 0)
      log(WEIR_LOG_WARNING,
          "storage: the file system of '%s' can't take room in advance: writes will fail when it "
          "is full",
          directory_.c_str());
  }
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return no_room(error, bytes, descriptor_, directory_);
  if (error != 0) return system_error(error, "take room for the file", directory_);
  return {};
}

/// File systems and devices differ in what they take, and some say so only when it is used.
bool SpillFile::try_direct(uint64_t bytes, IoHook *hook) noexcept {
  constexpr uint64_t unit = UnitArena::unit;
  if (bytes < unit) return false;
  const int flags = fcntl(descriptor_, F_GETFL);
  if (flags < 0 || fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return false;
  alignas(unit) unsigned char memory[unit] = {};
  const auto size = static_cast<ssize_t>(unit);
  const bool works =
      ask(hook, IoCall::write, unit) == 0 && pwrite(descriptor_, memory, unit, 0) == size &&
      ask(hook, IoCall::read, unit) == 0 && pread(descriptor_, memory, unit, 0) == size;
  if (!works) (void)fcntl(descriptor_, F_SETFL, flags);
  return works;
}

}  // namespace weir::tier
