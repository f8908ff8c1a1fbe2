// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's state: its signal mask, its floating point, and what it has chosen in a vendor's runtime, where there
// is one that can be asked.
#include "conformance/refusals.hpp"
#include "conformance/thread_state.hpp"

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
    if (!choice.any()) {
      t.note("no runtime that has such a state");
      return {};
    }
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
    if (!choice.any()) {
      t.note("no runtime that has such a state");
      return {};
    }
    choice.choose();
    choice.note();
    for (uint32_t device = t.device_count; device-- > 0;) TRY(walk(t, device, choice));
    return {};
  });
}

/// Every entry, good and refused, on one device, on the calling thread. Each call is followed by a look.
Outcome every_entry(Test &t, uint32_t device) {
  Standing s(t, device);
  TRY(s.make());
  TRY(s.everything());
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
Outcome watched(Test &t, Chosen chosen, uint32_t *ways) {
  for (uint32_t device = 0; device < t.device_count; ++device) {
    TRY(in_threads(1, [&](uint32_t) -> Outcome {
      Choice choice;
      if (!choice.choose(chosen, static_cast<int>(t.device_count) - 1)) return {};
      ++*ways;
      ThreadState state(choice, words("device ", device, ", the thread chose ", name_of(chosen)));
      return every_entry(t, device);
    }));
  }
  return {};
}

REQUIRE(
    "RT-027", always(),
    "Every entry, refused or not, leaves the thread's signal mask, its floating-point modes and "
    "its choice in the runtime as they were.") {
  uint32_t ways = 0;
  for (const Chosen chosen : {Chosen::nothing, Chosen::first, Chosen::last, Chosen::own_context})
    TRY(watched(t, chosen, &ways));
  t.note(words(ways / t.device_count, " kinds of choice in a runtime, none among them"));
  return {};
}

}  // namespace
}  // namespace weir::conformance
