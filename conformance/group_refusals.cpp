// SPDX-License-Identifier: Apache-2.0
//
// The table of refused calls, on every device: the results, what they leave behind, the words, and that all goes on.
#include "conformance/refusals.hpp"

#include <algorithm>
#include <fstream>

namespace weir::conformance {
namespace {

/// Calls `look` for each row that applies, with the things that stand on a device; on every device.
template <class Look>
Outcome each_refusal(Test &t, const Look &look) {
  for (uint32_t device = 0; device < t.device_count; ++device) {
    Standing s(t, device);
    TRY(s.make());
    for (const Refusal &row : refusals()) {
      if (row.applies(s)) TRY(look(s, row));
    }
    TRY(s.whole());
  }
  return {};
}

/// What a runtime, or a sanitizer, may take for later while it refuses a thousand calls.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t may_grow = 352 * mib;
#else
constexpr uint64_t may_grow = 48 * mib;
#endif

/// What the process holds of addresses.
uint64_t addresses() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

Outcome free_of_all(Test &t, std::vector<uint64_t> *free_bytes) {
  free_bytes->assign(t.device_count, 0);
  uint64_t total = 0;
  for (uint32_t i = 0; i < t.device_count; ++i) MUST(device_memory, i, &(*free_bytes)[i], &total);
  return {};
}

REQUIRE("ER-012", always(),
        "A device that does not exist is refused by every entry that is told one, as a peer too.") {
  return each_refusal(t, [&t](Standing &s, const Refusal &row) -> Outcome {
    if (!row.by_number) return {};
    const bool link = std::string(row.entry) == "link_describe";
    for (const uint32_t number :
         {t.device_count, t.device_count + 1, 1U << 31U, WEIR_DEVICE_DEFAULT, WEIR_DEVICE_HOST}) {
      if (link && number == WEIR_DEVICE_HOST) continue;
      TRY(row.judge(s, number));
    }
    if (const Outcome outcome = s.whole(); !outcome.passed())
      return Outcome::failure("after " + row.text(s) + ": " + outcome.text());
    return {};
  });
}

REQUIRE("ER-013", always(),
        "What is not allowed is refused with the result that is named, and nothing is written.") {
  return each_refusal(
      t, [&t](Standing &s, const Refusal &row) -> Outcome { return row.judge(s, t.no_device()); });
}

/// What the process and the devices hold is the same after many refused calls. *grew: of addresses.
Outcome holds_the_same(Test &t, const Standing &s, const Refusal &row, uint64_t *grew) {
  // What asks a driver for memory takes its time.
  const uint64_t times = row.want.holds(WEIR_ERROR_DEVICE_OOM) ? 100 : 1000;
  std::vector<uint64_t> before, after;
  const Holdings holdings_before = holdings();
  const uint64_t addresses_before = addresses();
  TRY(free_of_all(t, &before));
  for (uint64_t i = 0; i < times; ++i) TRY(row.make(s));
  TRY(free_of_all(t, &after));
  for (uint32_t i = 0; i < t.device_count; ++i) {
    CHECK(after[i] + t.slack >= before[i], row.text(s), ", ", times, " times: ", after[i],
          " bytes are free on device ", i, ", of ", before[i]);
  }
  if (const Outcome outcome = holdings_back(holdings_before, 4); !outcome.passed())
    return Outcome::failure(words(row.text(s), ", ", times, " times: ", outcome.text()));
  const uint64_t addresses_after = addresses();
  *grew = addresses_after - std::min(addresses_before, addresses_after);
  return {};
}

REQUIRE("ER-014", alone(), "No refused call leaks anything, however often it is made.") {
  return each_refusal(t, [&](Standing &s, const Refusal &row) -> Outcome {
    TRY(row.make(s));
    // The C library gives a thread an arena of 64 MiB of addresses when two allocate at once, and keeps it. What grows in each of
    // three rounds is a leak.
    uint64_t grew = 0;
    for (int round = 0; round < 3; ++round) {
      TRY(holds_the_same(t, s, row, &grew));
      if (grew < may_grow) return {};
    }
    return Outcome::failure(
        words(row.text(s), ": the process grew by ", grew, " bytes of addresses again and again"));
  });
}

/// The thread's code after a refused call and its words.
Outcome told(const Standing &s, const Refusal &row, int64_t *code, const char **text) {
  *code = CALL_IN(s.t, last_error_code);
  CHECK(*code != 0, row.text(s), ": the thread's native code is 0");
  *text = CALL_IN(s.t, error_text, *code);
  CHECK(*text != nullptr && **text != '\0', row.text(s), ": native code ", *code, " has no words");
  const int64_t again = CALL_IN(s.t, last_error_code);
  CHECK(again == *code, row.text(s), ": asking for the words of ", *code, " made it ", again);
  return {};
}

REQUIRE("ER-015", always(),
        "Every refused call leaves its thread a code and words, where there was none before.") {
  const bool any_thread = t.has(WEIR_CAP_MAP_ANY_THREAD);
  return each_refusal(t, [&](Standing &s, const Refusal &row) -> Outcome {
    const bool mapping = (row.needs.with & WEIR_CAP_VMM) != 0;
    if (mapping && !any_thread) {
      TRY(row.make(s));
      int64_t code = 0;
      const char *text = nullptr;
      return told(s, row, &code, &text);
    }
    return in_threads(1, [&](uint32_t) -> Outcome {
      TRY(row.make(s));
      int64_t code = 0;
      const char *text = nullptr;
      return told(s, row, &code, &text);
    });
  });
}

REQUIRE("ER-016", always(),
        "The words of a thread's failure stay where they are until its next failure, whatever it "
        "and others do.") {
  const Refusal *last = nullptr;
  const auto stays = [&](Standing &s, const Refusal &row, bool states) -> Outcome {
    TRY(row.make(s));
    int64_t code = 0;
    const char *text = nullptr;
    TRY(told(s, row, &code, &text));
    const std::string as_before = text;
    TRY(s.whole());
    uint64_t free_bytes = 0, total = 0;
    for (int i = 0; i < 20; ++i) MUST(device_memory, s.device, &free_bytes, &total);
    MUST(fence_wait, s.fence.get(), 0);
    TRY(in_threads(1, [&](uint32_t) -> Outcome {
      uint64_t address = 0;
      REFUSED(plain_allocate, s.device, 0, 4096, &address);
      const int64_t theirs = CALL_IN(t, last_error_code);
      (void)CALL_IN(t, error_text, theirs);
      return {};
    }));
    if (states) {
      Session second(t, s.device);
      TRY(second.start(t.library, t.settings.options));
      second.stop();
    }
    CHECK(as_before == text, row.text(s), ": the words \"", as_before, "\" have become \"", text,
          "\"");
    last = &row;
    return {};
  };
  TRY(each_refusal(t, [&](Standing &s, const Refusal &row) { return stays(s, row, false); }));
  Standing s(t, t.device);
  TRY(s.make());
  for (const Refusal &row : refusals())
    if (&row == &refusals().front() || (&row == last && row.applies(s))) TRY(stays(s, row, true));
  return {};
}

REQUIRE("ER-017", always(), "After any refused call every entry works as before.") {
  return each_refusal(t, [&](Standing &s, const Refusal &row) -> Outcome {
    TRY(row.make(s));
    Outcome outcome = s.whole();
    if (outcome.passed()) outcome = s.everything();
    if (!outcome.passed()) return Outcome::failure("after " + row.text(s) + ": " + outcome.text());
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
