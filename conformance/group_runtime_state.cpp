// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's state: its signal mask, its floating point, and what it has chosen in a vendor's runtime, where there
// is one that can be asked. And the signals of threads that the backend starts.
#include "conformance/refusals.hpp"
#include "conformance/shapes.hpp"
#include "conformance/thread_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

namespace weir::conformance {
namespace {

/// Calls of every group on one device, with a look after each.
Outcome walk(Test &t, uint32_t device, const Choice &choice) {
  uint64_t address = 0;
  {
    weir_be_device about;
    TRY(t.describe(device, &about));
    TRY(choice.same("device_describe"));
    uint64_t free_bytes = 0, total = 0;
    MUST(device_memory, device, &free_bytes, &total);
    TRY(choice.same("device_memory"));
    Plain plain(t, device);
    Pinned pinned(t);
    Stream stream(t, device);
    Fence fence(t);
    TRY(plain.allocate(4096));
    TRY(choice.same("plain_allocate"));
    TRY(pinned.allocate(4096));
    TRY(choice.same("host_allocate"));
    TRY(stream.create());
    TRY(choice.same("stream_create"));
    TRY(stream.fill(plain.address(), 1, 4096));
    TRY(choice.same("fill_async"));
    TRY(stream.copy(pinned.address(), plain.address(), 4096));
    TRY(choice.same("copy_async"));
    TRY(fence.record(stream));
    TRY(choice.same("fence_record"));
    MUST(stream_wait, stream.get(), fence.get());
    TRY(choice.same("stream_wait"));
    TRY(fence.wait());
    TRY(choice.same("fence_wait"));
    TRY(stream.synchronize());
    TRY(choice.same("stream_synchronize"));
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, device, t.about.memory_total * 2, 4096,
            &address);
    TRY(choice.same("a plain_allocate that is refused"));
    TRY(fence.destroy());
    TRY(choice.same("fence_destroy"));
    TRY(stream.destroy());
    TRY(choice.same("stream_destroy"));
    TRY(pinned.free());
    TRY(choice.same("host_free"));
  }
  TRY(choice.same("plain_free"));
  if (t.granule == 0) return {};
  {
    Mapped mapped(t, device);
    TRY(mapped.make(t.granule, t.granule));
    TRY(choice.same("map"));
    TRY(mapped.mapping.unmap());
    TRY(choice.same("unmap"));
  }
  return choice.same("granule_destroy");
}

REQUIRE(
    "RT-017", always(),
    "Entries leave the thread's current context or device of the runtime as they found it: none.") {
  return in_threads(1, [&](uint32_t) -> Outcome {
    Choice choice;
    if (!choice.any()) return t.nothing("no runtime that has such a state");
    choice.note();
    for (uint32_t device = t.device_count; device-- > 0;) TRY(walk(t, device, choice));
    return {};
  });
}

REQUIRE("RT-018", always(),
        "Entries leave the thread's current context or device of the runtime as they found it: one "
        "of another device.") {
  return in_threads(1, [&](uint32_t) -> Outcome {
    Choice choice;
    if (!choice.any()) return t.nothing("no runtime that has such a state");
    choice.choose();
    choice.note();
    for (uint32_t device = t.device_count; device-- > 0;) TRY(walk(t, device, choice));
    return {};
  });
}

/// Opens the gate when this thread has had time to sleep in a call.
void open_later(Gate &gate, const std::atomic<bool> &over) {
  const uint64_t end = now_ns() + 2'000'000;
  while (now_ns() < end && !over.load()) std::this_thread::yield();
  gate.open();
}

/// Calls that last: waits that time out, and waits that sleep until what they wait for has happened.
Outcome lasting(Test &t, Standing &s) {
  if (!s.has(WEIR_CAP_HOST_CALL)) return {};
  for (const bool by_fence : {true, false}) {
    Gate gate(t);
    Fence fence(t), passed(t);
    Settled settled(t, &gate);
    settled.add(s.stream);
    TRY(passed.record(s.stream));
    TRY(passed.wait());
    TRY(gate.hold(s.stream));
    TRY(fence.record(s.stream));
    TRY(gate.reached());
    ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
    ANSWERS(WEIR_NOT_READY, stream_query, s.stream.get());
    for (const uint64_t timeout : {0, 1, 1'000, 200'000, 2'000'000})
      ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), timeout);
    MUST(fence_wait, passed.get(), UINT64_MAX);
    std::atomic<bool> over{false};
    std::thread opener([&] { open_later(gate, over); });
    const auto waits_long = [&]() -> Outcome {
      if (!by_fence) return s.stream.synchronize();
      MUST(fence_wait, fence.get(), UINT64_MAX);
      return {};
    };
    const Outcome waited = waits_long();
    over = true;
    opener.join();
    TRY(waited);
    // Ended before it has passed, and after.
    TRY(fence.destroy());
  }
  return {};
}

/// A stream of each kind on every device is made, used and ended by this thread.
Outcome every_stream(Test &t) {
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    Plain plain(t, shape.device);
    Pinned pinned(t);
    Fence fence(t);
    TRY(plain.allocate(4096));
    TRY(pinned.allocate(4096));
    TRY(queue.use().fill(plain.address(), 1, 4096));
    TRY(queue.use().copy(pinned.address(), plain.address(), 4096));
    if (shape.has(WEIR_CAP_BATCH_COPY)) {
      TRY(batch(t, queue.use(),
                {{pinned.address(), plain.address(), 1024},
                 {pinned.address() + 1024, plain.address() + 1024, 1024}}));
    }
    TRY(fence.record(queue.use()));
    TRY(waits(t, queue.owner(), fence));
    TRY(fence.wait());
    return queue.use().synchronize();
  });
}

/// Every entry, good and refused, on one device, on the calling thread. Each call is followed by a look.
Outcome every_entry(Test &t, uint32_t device) {
  Standing s(t, device);
  TRY(s.make());
  TRY(s.everything());
  TRY(lasting(t, s));
  if (device == t.device) TRY(every_stream(t));
  for (const Refusal &row : refusals())
    if (row.applies(s)) TRY(row.make(s));
  {
    Session second(t, device);
    TRY(second.start(t.library, t.settings.options));
    Plain left(second);
    TRY(left.allocate(4096));
  }
  return s.whole();
}

/// On every device, on a thread that has chosen something; `ways` counts the threads that could.
Outcome watched(Test &t, Chosen chosen, const Manner &manner, Looks looks, uint32_t *ways) {
  for (uint32_t device = 0; device < t.device_count; ++device) {
    TRY(in_threads(1, [&](uint32_t) -> Outcome {
      Choice choice;
      if (!choice.choose(chosen, static_cast<int>(t.device_count) - 1)) return {};
      ++*ways;
      ThreadState state(choice, words("device ", device, ", the thread chose ", name_of(chosen)),
                        manner, looks);
      return every_entry(t, device);
    }));
  }
  return {};
}

REQUIRE("RT-027", always(),
        "Every entry, answered at once or later, refused or timed out, leaves the thread's signal "
        "mask, its floating-point modes and its choice in the runtime as they were.") {
  uint32_t ways = 0, number = 0;
  for (const Chosen chosen : {Chosen::nothing, Chosen::first, Chosen::last, Chosen::own_context})
    TRY(watched(t, chosen, manners[number++ % 2], Looks::named, &ways));
  // Once more, for backends that have no runtime to choose in.
  TRY(watched(t, Chosen::nothing, manners[1], Looks::named, &ways));
  t.note(words(ways / t.device_count - 1, " kinds of choice in a runtime, none among them"));
  return {};
}

REQUIRE("RT-034", advised(),
        "Every entry leaves the thread's name, processors, timer slack, scheduling, cancellation "
        "and locale as they were.") {
  uint32_t ways = 0;
  for (const Manner &manner : manners)
    TRY(watched(t, Chosen::nothing, manner, Looks::besides, &ways));
  return {};
}

/// A thread of the process, as the system tells of it.
struct SystemThread {
  std::string name;
  uint64_t blocked = 0;  ///< bit n - 1: signal n
};

/// All but the calling one. Those that end meanwhile are left out.
std::vector<SystemThread> other_threads() {
  std::vector<SystemThread> all;
  std::error_code error;
  const std::string own = std::to_string(gettid());
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == own) continue;
    SystemThread thread;
    bool told = false;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      const std::string value = line.substr(std::min(line.find('\t') + 1, line.size()));
      if (line.starts_with("Name:")) thread.name = value;
      if (!line.starts_with("SigBlk:")) continue;
      thread.blocked = std::strtoull(value.c_str(), nullptr, 16);
      told = true;
    }
    if (told) all.push_back(thread);
  }
  return all;
}

REQUIRE("RT-028", advised(), "Threads that the backend starts take no signals.") {
  // Threads inherit what their maker blocks: nothing, here.
  t.stop();
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  TRY(t.start(t.library, t.settings.options));
  Standing s(t, t.device);
  TRY(s.make());
  TRY(s.everything());
  const std::vector<SystemThread> threads = other_threads();
  for (const SystemThread &thread : threads) {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGPROF, SIGCHLD})
      CHECK((thread.blocked >> static_cast<unsigned>(signal - 1) & 1U) != 0, "a thread called \"",
            thread.name, "\", of ", uint64_t{threads.size()}, ", does not block signal ", signal,
            " (", sigdescr_np(signal), ")");
  }
  return threads.empty() ? t.nothing("no thread was started") : Outcome{};
}

}  // namespace
}  // namespace weir::conformance
