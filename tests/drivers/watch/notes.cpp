// SPDX-License-Identifier: Apache-2.0
//
// The file of notes, and which of its slots is whose. A thread takes a slot at its first call and gives it back at its end;
// beyond the last slot nothing is noted.

#include "tests/drivers/watch/notes.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace weir::watch {
namespace {

std::atomic<Notes *> notes{nullptr};

struct Mine {
  Slot *slot = nullptr;
  bool asked = false;
  ~Mine() {
    // A fork's child has left the file to its parent.
    if (slot != nullptr && notes.load() != nullptr) slot->thread.store(0);
    slot = nullptr;
  }
};
thread_local Mine mine;

void leave_after_fork() {
  notes.store(nullptr);
  mine.slot = nullptr;
}

}  // namespace

bool open_notes(const char *const *names, uint32_t count) noexcept {
  const char *folder = secure_getenv("WEIR_WATCH_DIR");
  if (folder == nullptr || *folder == '\0' || count > most_names) return false;
  const std::string path = std::string(folder) + '/' + std::to_string(getpid());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return false;
  void *memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Notes)) == 0)
    memory = mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return false;
  Notes *made = static_cast<Notes *>(memory);
  made->threads = most_threads;
  made->names = count;
  for (uint32_t i = 0; i < count; ++i) std::strncpy(made->name[i], names[i], name_bytes - 1);
  std::memcpy(made->magic, "weirnote", sizeof made->magic);
  notes.store(made);
  pthread_atfork(nullptr, nullptr, leave_after_fork);
  return true;
}

Slot *slot() noexcept {
  Notes *const all = notes.load(std::memory_order_acquire);
  if (all == nullptr) return nullptr;
  if (mine.asked) return mine.slot;
  mine.asked = true;
  const uint32_t thread = static_cast<uint32_t>(syscall(SYS_gettid));
  for (Slot &each : all->slots) {
    uint32_t nobody = 0;
    if (!each.thread.compare_exchange_strong(nobody, thread)) continue;
    each.inside.store(0);
    each.calls.store(0);
    mine.slot = &each;
    break;
  }
  return mine.slot;
}

}  // namespace weir::watch
