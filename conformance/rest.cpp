// SPDX-License-Identifier: Apache-2.0
//
// The living streams and gates, and waiting for them.
#include "conformance/rest.hpp"

#include "conformance/fixtures.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weir::conformance {
namespace {

struct Living {
  std::mutex mutex;  ///< held while streams are waited for, so that none is ended meanwhile
  std::vector<Stream *> streams;
  std::vector<Gate *> gates;
  uint64_t episode = 0;  ///< what `deadline_ns` and `gave_up` are about
  uint64_t deadline_ns = 0;
  bool gave_up = false;
  std::atomic<bool> lost_sight{false};

  bool rest(uint64_t failing);
};

/// Lives as long as the process, whatever ends last.
Living &living() {
  static auto *const all = new Living;
  return *all;
}

template <class Thing>
void add(std::vector<Thing *> &things, Thing &thing) {
  if (std::find(things.begin(), things.end(), &thing) == things.end()) things.push_back(&thing);
}

bool Living::rest(uint64_t failing) {
  if (episode != failing) {
    episode = failing;
    deadline_ns = now_ns() + patience_ns;
    gave_up = false;
  }
  for (Gate *gate : gates) gate->open();
  for (Stream *stream : streams) {
    if (!gave_up && !stream->rest(failing, deadline_ns)) gave_up = true;
  }
  return !gave_up;
}

}  // namespace

void know(Stream &stream) {
  const std::lock_guard hold(living().mutex);
  add(living().streams, stream);
}

void know(Gate &gate) {
  const std::lock_guard hold(living().mutex);
  add(living().gates, gate);
}

void forget(Stream &stream) {
  const std::lock_guard hold(living().mutex);
  std::erase(living().streams, &stream);
}

void forget(Gate &gate) {
  const std::lock_guard hold(living().mutex);
  std::erase(living().gates, &gate);
}

void lost_sight_of_a_stream() noexcept { living().lost_sight = true; }

bool come_to_rest() {
  const uint64_t failing = failing_episode();
  // A function that a backend calls must make no calls, and a thread that waits here already must not begin again.
  static thread_local bool waiting = false;
  if (failing == 0 || waiting || !Call::may_be_made()) return true;
  waiting = true;
  bool rested = false;
  {
    const std::lock_guard hold(living().mutex);
    rested = living().rest(failing);
  }
  waiting = false;
  return rested && !living().lost_sight;
}

Outcome rested(Outcome failure) {
  (void)come_to_rest();
  return failure;
}

bool Stream::rest(uint64_t failing, uint64_t deadline_ns) {
  if (rested_ == failing || stream_ == nullptr || session_.state == nullptr) return true;
  // A queue that the program shares may mean another one on other threads, or answer on its own alone.
  if (wrapped_ && made_by_ != std::this_thread::get_id()) return true;
  const weir_backend_table &table = session_.table;
  const Site site = Site::current();
  while (table.stream_query != nullptr && called(site, "stream_query", table.stream_query,
                                                 session_.state, stream_) == WEIR_NOT_READY) {
    if (now_ns() >= deadline_ns) {
      session_.keep(Outcome::failure(
          "a stream's work does not end after a failure; the memory is left to stop"));
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  // What says that it has nothing to do may be wrong, too.
  if (table.stream_synchronize != nullptr)
    (void)called(site, "stream_synchronize", table.stream_synchronize, session_.state, stream_);
  rested_ = failing;
  return true;
}

}  // namespace weir::conformance
