// SPDX-License-Identifier: Apache-2.0
//
// The look at the file and at every folder above it.

#include "core/backend/trust.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace weir::backend {
namespace {

Status cannot_load(const char *path) {
  return fail(WEIR_ERROR_BACKEND, "cannot load backend %s: %s", path, std::strerror(errno));
}

}  // namespace

Status trusted_path(const char *path, std::string *resolved) {
  char real[PATH_MAX];
  if (realpath(path, real) == nullptr) return cannot_load(path);
  *resolved = real;
  for (std::string place = real;;) {
    const bool file = place.size() == resolved->size();
    struct stat info {};
    if (stat(place.empty() ? "/" : place.c_str(), &info) != 0) return cannot_load(path);
    const bool writable = (info.st_mode & S_IWOTH) != 0;
    const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
    // A sticky folder keeps others from replacing what is in it, not from putting a file there.
    const bool folder_of_file = !file && place.size() == resolved->rfind('/');
    if (writable && (!sticky || folder_of_file)) {
      return fail(WEIR_ERROR_BACKEND, "backend %s is refused: %s can be written by every user",
                  path, place.empty() ? "/" : place.c_str());
    }
    if (place.empty()) return {};
    place.resize(place.rfind('/'));
  }
}

}  // namespace weir::backend
