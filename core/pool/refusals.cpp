// SPDX-License-Identifier: Apache-2.0
//
// What a pool does about its first shortage where WEIR_OOM_DUMP asks for it: its snapshot goes to a file. The call that was refused
// writes it, with no lock held, and answers what it would have answered.

#include "core/base/own_file.hpp"
#include "core/pool/pool.hpp"
#include "core/pool/snapshot.hpp"
#include "core/pool/taped_calls.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace weir::pool {
namespace {

/// Of one buffer, in the snapshot's text; and what the file may come to.
constexpr uint64_t bytes_of_buffer = 512, most_bytes = uint64_t{64} << 20U;

}  // namespace

void Pool::note_refusal(weir_result result) noexcept {
  new_error().pool = serial_;
  if (Tape *const tape = engine_.tap.tape(); tape != nullptr)
    taped::tell_refusal(*this, *tape, result);
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
  const std::string folder = expand_process(context_.oom_folder());
  // The name of one with the process's number in it is not known before.
  if (folder != context_.oom_folder()) (void)mkdir(folder.c_str(), 0700);
  std::string path;
  const int file = create_own_file(
      folder + "/weir-oom-" + std::to_string(getpid()) + '-' + std::to_string(serial_), ".json",
      true, &path);
  int error = file >= 0 ? write_all(file, text.data(), text.size(), 0) : errno;
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
