// SPDX-License-Identifier: Apache-2.0
//
// States that start from what callers give them, and end with work under way, in any order. What is left to stop() is made by
// calls, not by fixtures, which would end it themselves.
#include "conformance/registered.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

/// Starts, and uses plain memory.
Outcome start_and_use(Test &t, const weir_be_start &desc, const std::string &what) {
  Session session(t, 0);
  const char *reason = nullptr;
  const weir_result result = start_called(t.table, &desc, &session.state, &reason);
  CHECK(result == WEIR_SUCCESS, what, ": start = ", result_name(result), ", ", reason);
  Plain plain(session);
  Mover mover(session);
  TRY(plain.allocate(64 * kib));
  TRY(mover.make(64 * kib));
  TRY(mover.write(plain.address(), 64 * kib, 1));
  return mover.check(plain.address(), 64 * kib, 1);
}

REQUIRE("RT-020", always(), "A start ignores what it does not know of its description.") {
  struct Larger {
    weir_be_start known;
    uint8_t behind[4096];
  };
  const auto log = [](void *, int32_t, const char *) {};
  for (const uint32_t more : {8U, 64U, 4096U}) {
    for (const bool logs : {false, true}) {
      Larger desc;
      std::memset(&desc, 0xA5, sizeof desc);
      desc.known = {};
      desc.known.struct_size = static_cast<uint32_t>(sizeof desc.known) + more;
      desc.known.options = t.settings.options.c_str();
      if (logs) desc.known.log = log;
      TRY(start_and_use(t, desc.known,
                        words("a description of ", more, " bytes more, log ", logs)));
    }
  }
  return {};
}

/// The reason must name `named`, where it is not empty.
Outcome refused_start(const Test &t, const std::string &options, const std::string &named,
                      const char **reason) {
  const std::string shown = options.size() < 200 ? options : options.substr(0, 200) + "...";
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = options.c_str();
  auto *const as_before = reinterpret_cast<weir_be_state *>(&desc);
  weir_be_state *state = as_before;
  *reason = nullptr;
  const weir_result result = start_called(t.table, &desc, &state, reason);
  if (result == WEIR_SUCCESS) stop_called(t.table, state);
  CHECK(result == WEIR_ERROR_INVALID_ARGUMENT, "start(\"", shown, "\") = ", result_name(result),
        ", wanted INVALID_ARGUMENT");
  CHECK(state == as_before, "start(\"", shown, "\") failed and wrote a state");
  CHECK(*reason != nullptr && **reason != '\0', "start(\"", shown, "\") gave no reason");
  CHECK(std::strstr(*reason, named.c_str()) != nullptr, "the reason \"", *reason,
        "\" does not name ", named);
  return {};
}

REQUIRE("RT-021", always(), "An option that is not known is refused wherever it stands.") {
  const std::string bad = "weir_no_such_option=1";
  const std::string own = t.settings.options;
  const std::string before = own.empty() ? "" : own + ";", behind = own.empty() ? "" : ";" + own;
  const char *reason = nullptr;
  TRY(refused_start(t, before + bad, "weir_no_such_option", &reason));
  TRY(refused_start(t, bad + behind, "weir_no_such_option", &reason));
  TRY(refused_start(t, before + bad + behind, "weir_no_such_option", &reason));
  TRY(refused_start(t, before + "weir_no_such_option=", "weir_no_such_option", &reason));
  TRY(refused_start(t, before + std::string(4000, 'x') + "=1", "", &reason));
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = own.c_str();
  return start_and_use(t, desc, "after refused starts");
}

REQUIRE("RT-022", always(),
        "A reason of a failed start is the thread's own, whatever other threads start.") {
  constexpr uint32_t count = 4;
  Meeting meeting(count);
  return in_threads(count, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    for (int round = 0; round < 50; ++round) {
      const std::string name = words("weir_no_such_option_", index, "_", round);
      const char *reason = nullptr;
      if (index == 0 && round % 10 == 9) {
        guest.wait();
        Session session(t, t.device);
        TRY(session.start(t.library, t.settings.options));
        session.stop();
        guest.wait();
        continue;
      }
      TRY(refused_start(t, name + "=1", name, &reason));
      const std::string as_before = reason;
      guest.wait();  // all have failed
      guest.wait();  // and one has started perhaps
      CHECK(as_before == reason, "thread ", index, ": the reason \"", as_before, "\" has become \"",
            reason, "\"");
    }
    return {};
  });
}

/// What host functions of a state use, which live longer than it.
struct Held {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false, entered = false;
  std::atomic<bool> stopping{false}, stopped{false};
  std::atomic<uint32_t> late{0};

  static void stand(void *user) {
    Held &self = *static_cast<Held *>(user);
    note(user);
    std::unique_lock lock(self.mutex);
    self.entered = true;
    self.changed.notify_all();
    self.changed.wait_for(lock, std::chrono::nanoseconds(patience_ns), [&] { return self.open; });
  }
  static void note(void *user) {
    Held &self = *static_cast<Held *>(user);
    if (self.stopped.load()) self.late.fetch_add(1);
  }
  bool reached() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::nanoseconds(patience_ns), [&] { return entered; });
  }
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

enum class Work : uint8_t { copies, batch, wait, functions, mapped, registered };
constexpr std::array all_work{Work::copies,    Work::batch,  Work::wait,
                              Work::functions, Work::mapped, Work::registered};
const char *name_of(Work work) {
  constexpr std::array names{"copies",
                             "a batch",
                             "a wait for a held stream",
                             "host functions",
                             "copies within mapped memory",
                             "copies to registered memory"};
  return names[static_cast<size_t>(work)];
}

/// A state that is stopped with a stream that is held and has work of one kind to do behind that.
struct Ending {
  static constexpr uint64_t bytes = 64 * kib;
  Ending(Test &test, uint32_t on, Work what, bool wrapped_too)
      : t(test), device(on), work(what), wrapped(wrapped_too), session(test, on), pages(bytes) {}

  /// A failure says at least which shape it was.
  Outcome run() {
    if (const Outcome outcome = stop_amid_work(); !outcome.passed())
      return Outcome::failure(words("device ", device, wrapped ? ", wrapped stream, " : ", ",
                                    name_of(work), ": ", outcome.text()));
    return {};
  }
  Outcome stop_amid_work() {
    TRY(session.start(t.library, t.settings.options));
    TRY(t.describe(device, &about));
    if (!applies()) {
      session.stop();
      return {};
    }
    TRY(enqueue());
    std::thread opener([this] {
      while (!held.stopping.load()) std::this_thread::yield();
      // So that stop() is under way as a rule; which comes first decides nothing.
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      held.let_go();
    });
    held.stopping = true;
    session.stop();
    held.stopped = true;
    opener.join();
    if (pages.any()) std::memcpy(after_stop.data(), pages.get(), bytes);
    return {};
  }
  bool has(uint64_t capability) const { return (about.capabilities & capability) != 0; }
  bool applies() const {
    switch (work) {
      case Work::batch:
        return has(WEIR_CAP_BATCH_COPY);
      case Work::wait:
      case Work::functions:
        return has(WEIR_CAP_HOST_CALL);
      case Work::mapped:
        return has(WEIR_CAP_VMM);
      case Work::registered:
        return has(WEIR_CAP_HOST_REGISTER);
      default:
        return true;
    }
  }
  Outcome enqueue() {
    weir_be_stream first = nullptr, stream = nullptr, other = nullptr;
    uint64_t memory = 0, place = 0, size = bytes;
    void *host = nullptr;
    MUST_IN(session, plain_allocate, device, bytes, 4096, &memory);
    MUST_IN(session, host_allocate, bytes, &host);
    if (work == Work::registered) MUST_IN(session, host_register, pages.get(), bytes);
    place = memory;
    if (work == Work::mapped) {
      weir_be_granule granule = 0;
      size = about.granule;
      MUST_IN(session, granule_create, device, size, 0, &granule);
      MUST_IN(session, range_reserve, device, size, size, &place);
      MUST_IN(session, map, device, place, size, granule, 0, nullptr, 0);
      size = std::min(size, bytes);
    }
    // All is made before the stream is held: runtimes may wait for the device while they make something.
    MUST_IN(session, stream_create, device, 0, &first);
    MUST_IN(session, stream_create, device, 0, &other);
    stream = first;
    if (wrapped) {
      void *native = nullptr;
      MUST_IN(session, stream_native, first, &native);
      MUST_IN(session, stream_wrap, device, native, &stream);
    }
    if (has(WEIR_CAP_HOST_CALL)) {
      MUST_IN(session, stream_host_call, first, &Held::stand, &held);
      CHECK(held.reached(), "a host function was not called");
    }
    if (work == Work::wait) {
      weir_be_fence fence = 0;
      MUST_IN(session, fence_record, first, &fence);
      stream = other;
      MUST_IN(session, stream_wait, stream, fence);
    }
    // From host memory to host memory runtimes copy while the caller waits.
    const uint64_t source = work == Work::registered ? memory : reinterpret_cast<uintptr_t>(host);
    const uint64_t target = work == Work::registered ? pages.address() : place;
    const std::array<weir_be_copy, 2> copies{
        {{target, source, size / 2}, {target + size / 2, source + size / 2, size / 2}}};
    for (int i = 0; i < 20; ++i) {
      if (work == Work::functions) MUST_IN(session, stream_host_call, stream, &Held::note, &held);
      if (work == Work::batch) {
        MUST_IN(session, copy_batch_async, stream, copies.data(), 2);
      } else {
        MUST_IN(session, copy_async, stream, copies.data());
      }
    }
    weir_be_fence fence = 0;
    MUST_IN(session, fence_record, stream, &fence);
    return {};
  }

  Test &t;
  const uint32_t device;
  const Work work;
  const bool wrapped;
  Held held;
  Session session;
  weir_be_device about{};
  const Pages pages;
  std::vector<std::byte> after_stop = std::vector<std::byte>(bytes);
};

REQUIRE("RT-024", alone(),
        "A state is stopped while its streams are held, wait or have copies to do; nothing of it "
        "runs after that, and nothing of it is left.") {
  std::vector<std::unique_ptr<Ending>> all;
  uint64_t before = 0;
  Holdings holdings_before;
  for (uint32_t device = 0; device < t.device_count; ++device) {
    for (const Work work : all_work) {
      for (const bool wrapped : {false, true}) {
        all.push_back(std::make_unique<Ending>(t, device, work, wrapped));
        TRY(all.back()->run());
        if (all.size() > 1) continue;
        TRY(free_memory(t, &before));
        holdings_before = holdings();
      }
    }
  }
  TRY(memory_back(t, before));
  TRY(holdings_back(holdings_before, 8));
  // What is still under way gets time to be seen. A backend that is right passes however long that is.
  for (int i = 0; i < 20000; ++i) std::this_thread::yield();
  for (const auto &each : all) {
    CHECK(each->held.late.load() == 0, "device ", each->device, ", ", name_of(each->work),
          ": a host function was called after stop had returned");
    TRY(check_same(each->pages.bytes(), each->after_stop,
                   words("device ", each->device, ", ", name_of(each->work),
                         ": registered memory changed after stop had returned")));
  }
  return {};
}

/// A state with a pattern in its memory, which is left to stop().
struct Inhabited {
  static constexpr uint64_t bytes = 64 * kib;
  Inhabited(Test &t, uint32_t device) : session(t, device) {}
  Outcome make(Test &t, uint64_t number) {
    seed = number;
    TRY(session.start(t.library, t.settings.options));
    MUST_IN(session, plain_allocate, session.device, bytes, 4096, &address);
    Mover mover(session);
    TRY(mover.make(bytes));
    return mover.write(address, bytes, seed);
  }
  Outcome check() {
    Mover mover(session);
    TRY(mover.make(bytes));
    return mover.check(address, bytes, seed);
  }
  Session session;
  uint64_t address = 0, seed = 0;
};

REQUIRE("RT-025", always(),
        "States end in any order, also on another thread, and those that go on have their bytes.") {
  constexpr uint32_t count = 4;
  for (uint64_t round = 0; round < 6; ++round) {
    std::vector<std::unique_ptr<Inhabited>> living;
    for (uint32_t i = 0; i < count; ++i) {
      living.push_back(std::make_unique<Inhabited>(t, i % t.device_count));
      TRY(living.back()->make(t, 10 * round + i));
    }
    while (!living.empty()) {
      const size_t next = round == 0   ? 0
                          : round == 1 ? living.size() - 1
                                       : t.random.below(living.size());
      Session &session = living[next]->session;
      if (round % 2 == 1) {
        session.stop();
      } else {
        TRY(in_threads(1, [&](uint32_t) -> Outcome {
          session.stop();
          return {};
        }));
      }
      living.erase(living.begin() + static_cast<std::ptrdiff_t>(next));
      for (const auto &each : living) {
        if (const Outcome outcome = each->check(); !outcome.passed())
          return Outcome::failure(
              words("round ", round, ", after the end of another state: ", outcome.text()));
      }
    }
  }
  return {};
}

/// What the process holds of addresses.
uint64_t addresses_held() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

REQUIRE("RT-026", alone(vmm),
        "What a state had reserved of addresses is free when it has stopped.") {
  constexpr uint64_t rounds = 20, spare = 8;
  uint64_t bytes = 64 * 1024 * mib, before = 0;
  if (t.about.address_space != 0) bytes = std::min(bytes, t.about.address_space / 4);
  bytes = bytes / t.granule * t.granule;
  if (bytes < 4 * t.granule) return t.nothing("the device has not so many addresses");
  t.stop();
  for (uint64_t round = 0; round <= rounds; ++round) {
    Session session(t, t.device);
    TRY(session.start(t.library, t.settings.options));
    uint64_t address = 0;
    MUST_IN(session, range_reserve, t.device, bytes, t.granule, &address);
    for (const uint64_t place : {address, address + bytes - t.granule}) {
      weir_be_granule granule = 0;
      MUST_IN(session, granule_create, t.device, t.granule, 0, &granule);
      MUST_IN(session, map, t.device, place, t.granule, granule, 0, nullptr, 0);
    }
    session.stop();
    if (round == 0) before = addresses_held();
  }
  const uint64_t after = addresses_held();
  CHECK(after < before + spare * bytes, rounds, " states that had reserved ", bytes,
        " bytes of addresses each: the process grew from ", before, " to ", after);
  return {};
}

}  // namespace
}  // namespace weir::conformance
