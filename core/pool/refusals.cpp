// SPDX-License-Identifier: Apache-2.0
//
// What a pool does about its first shortage where WEIR_OOM_DUMP asks for it: its snapshot goes to a file. The call that was refused
// writes it, with no lock held, and answers what it would have answered.

#include "core/pool/pool.hpp"
#include "core/pool/snapshot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace weir::pool {
namespace {

/// Of one buffer, in the snapshot's text; and what the file may come to.
constexpr uint64_t bytes_of_buffer = 512, most_bytes = uint64_t{64} << 20U;

/// All or nothing. 0, or the system's error.
int write_all(int file, const std::string &text) noexcept {
  for (size_t done = 0; done < text.size();) {
    const ssize_t step = write(file, text.data() + done, text.size() - done);
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) return step < 0 ? errno : EIO;
    done += static_cast<size_t>(step);
  }
  return 0;
}

/// A file that was not there, for the owner alone, or -1. Other processes, of other containers too, may have the same number.
int create_file(const std::string &start, std::string *path) noexcept {
  constexpr int most_tries = 1000;
  for (int i = 0; i < most_tries; ++i) {
    *path = start + (i != 0 ? "-" + std::to_string(i) : "") + ".json";
    const int file =
        open(path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/// "%p" is the process.
std::string expand(std::string folder) {
  for (size_t at = 0; (at = folder.find("%p", at)) != folder.npos;) {
    const std::string process = std::to_string(getpid());
    folder.replace(at, 2, process);
    at += process.size();
  }
  return folder;
}

}  // namespace

void Pool::note_refusal(weir_result result) noexcept {
  new_error().pool = serial_;
  const bool shortage = result == WEIR_ERROR_OVER_BUDGET || result == WEIR_ERROR_DEVICE_OOM;
  if (!shortage || context_.oom_folder().empty() || dumped_.exchange(true)) return;
  const KeepError keep;
  (void)if_memory([&] { dump(); });  // where there is none, the next shortage tries no more
}

void Pool::dump() {
  const Log log = context_.log().of(&name_);
  weir_pool_stats stats{};
  engine_.inspector().stats(&stats);
  if (stats.buffers > most_bytes / bytes_of_buffer) {
    log(WEIR_LOG_WARNING, "no snapshot after a refusal: it would have %llu buffers, more than %llu",
        llu(stats.buffers), llu(most_bytes / bytes_of_buffer));
    return;
  }
  const std::string text = snapshot(engine_.inspector(), name());
  std::string path;
  const int file = create_file(expand(context_.oom_folder()) + "/weir-oom-" +
                                   std::to_string(getpid()) + '-' + std::to_string(serial_),
                               &path);
  int error = file >= 0 ? write_all(file, text) : errno;
  if (file >= 0 && close(file) != 0 && error == 0) error = errno;
  if (error == 0) {
    log(WEIR_LOG_WARNING, "a call was refused for want of memory; a snapshot is in %s",
        path.c_str());
    return;
  }
  if (file >= 0) (void)unlink(path.c_str());
  log(WEIR_LOG_WARNING, "no snapshot after a refusal: %s: %s", path.c_str(),
      strerrordesc_np(error));
}

}  // namespace weir::pool
