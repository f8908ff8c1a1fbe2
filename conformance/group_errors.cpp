// SPDX-License-Identifier: Apache-2.0
//
// How failures are told: by thread, in numbers and in words, and with nothing else changed.
#include "conformance/fixtures.hpp"

#include <array>
#include <cstring>
#include <functional>

namespace weir::conformance {
namespace {

/// A call that every backend refuses.
Outcome fail_once(Test &t) {
  uint64_t address = untouched;
  REFUSED(plain_allocate, t.device, 0, 4096, &address);
  CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  return {};
}

/// The code and words of the thread's last failure are there.
Outcome told(Test &t, const char *after) {
  const int64_t code = CALL_IN(t, last_error_code);
  CHECK(code != 0, "after a failed ", after, " the thread's native code is 0");
  const char *text = CALL_IN(t, error_text, code);
  CHECK(text != nullptr && *text != '\0', "after a failed ", after, ", native code ", code,
        " has no words");
  return {};
}

REQUIRE("ER-001", always(), "A thread that has met no failure has the native code 0.") {
  TRY(fail_once(t));
  return in_threads(2, [&](uint32_t) -> Outcome {
    CHECK(CALL_IN(t, last_error_code) == 0, "a new thread has the native code ",
          CALL_IN(t, last_error_code));
    return {};
  });
}

REQUIRE("ER-002", always(), "A failure leaves a native code that is not 0, with words for it.") {
  TRY(fail_once(t));
  TRY(told(t, "plain_allocate"));
  uint64_t free_bytes = 0, total = 0;
  REFUSED(device_memory, t.no_device(), &free_bytes, &total);
  TRY(told(t, "device_memory"));
  void *memory = nullptr;
  REFUSED(host_allocate, 0, &memory);
  TRY(told(t, "host_allocate"));
  weir_be_stream stream = nullptr;
  REFUSED(stream_create, t.no_device(), 0, &stream);
  TRY(told(t, "stream_create"));
  ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, t.about.memory_total * 2, 4096,
          &free_bytes);
  TRY(told(t, "plain_allocate of too much"));
  const weir_be_copy copy{0, 0, 64};
  Stream own(t);
  TRY(own.create());
  REFUSED(copy_async, own.get(), &copy);
  return told(t, "copy_async");
}

REQUIRE("ER-003", needs(WEIR_CAP_VMM),
        "Failures of the calls for granules, ranges and maps leave a code and words too.") {
  weir_be_granule granule = 0;
  uint64_t address = 0;
  Range range(t);
  TRY(range.reserve(t.granule, t.granule));
  REFUSED(granule_create, t.device, t.granule - 1, 0, &granule);
  TRY(told(t, "granule_create"));
  ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, t.device,
          (t.about.memory_total / t.granule + 1) * t.granule, 0, &granule);
  TRY(told(t, "granule_create of too much"));
  REFUSED(granule_destroy, t.device, 0);
  TRY(told(t, "granule_destroy"));
  REFUSED(range_reserve, t.device, 0, t.granule, &address);
  TRY(told(t, "range_reserve"));
  REFUSED(range_free, t.device, range.address(), 2 * t.granule);
  TRY(told(t, "range_free"));
  REFUSED(map, t.device, range.address(), t.granule, 0, 0, nullptr, 0);
  TRY(told(t, "map"));
  REFUSED(unmap, t.device, range.address(), t.granule);
  return told(t, "unmap");
}

REQUIRE("ER-004", always(),
        "The native code is the thread's own: another thread's failure does not change it.") {
  TRY(fail_once(t));
  const int64_t mine = CALL_IN(t, last_error_code);
  const std::string words_before = word(CALL_IN(t, error_text, mine));
  TRY(in_threads(3, [&](uint32_t) -> Outcome {
    uint64_t address = 0;
    CHECK(CALL_IN(t, last_error_code) == 0, "the failure of one thread is seen by another");
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, t.about.memory_total * 4, 4096,
            &address);
    return told(t, "plain_allocate");
  }));
  CHECK(CALL_IN(t, last_error_code) == mine, "the code has become ", CALL_IN(t, last_error_code),
        " by failures of other threads");
  CHECK(words_before == word(CALL_IN(t, error_text, mine)), "the words \"", words_before,
        "\" have become \"", CALL_IN(t, error_text, mine), "\"");
  return {};
}

REQUIRE("ER-005", always(), "Every number has words, never NULL.") {
  for (const int64_t code : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{700}, int64_t{123456789},
                             INT64_MAX, INT64_MIN, int64_t{1} << 32U, int64_t{0x78000001}}) {
    const char *text = CALL_IN(t, error_text, code);
    CHECK(text != nullptr, "error_text(", code, ") is NULL");
    CHECK(std::strlen(text) < 4096, "error_text(", code, ") has no end");
  }
  return {};
}

REQUIRE("ER-006", always(), "Asking for the code and its words changes neither.") {
  TRY(fail_once(t));
  const int64_t code = CALL_IN(t, last_error_code);
  const std::string text = word(CALL_IN(t, error_text, code));
  for (int i = 0; i < 10; ++i) {
    CHECK(CALL_IN(t, last_error_code) == code, "the code has become ", CALL_IN(t, last_error_code));
    CHECK(text == word(CALL_IN(t, error_text, code)), "the words \"", text, "\" have become \"",
          CALL_IN(t, error_text, code), "\"");
    (void)CALL_IN(t, error_text, code + 1);
  }
  return {};
}

REQUIRE("ER-007", always(), "Out-parameters of all calls stay as they are when the call fails.") {
  uint64_t a = untouched, b = untouched;
  REFUSED(device_memory, t.no_device(), &a, &b);
  REFUSED(plain_allocate, t.no_device(), 4096, 4096, &a);
  REFUSED(plain_allocate, t.device, 4096, 3, &a);
  ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, t.about.memory_total * 2, 4096, &a);
  CHECK(a == untouched && b == untouched, "a failed call wrote its result");
  auto *const no_stream = reinterpret_cast<weir_be_stream>(&t);
  weir_be_stream stream = no_stream;
  REFUSED(stream_wrap, t.no_device(), nullptr, &stream);
  REFUSED(stream_create, t.device, ~uint64_t{0}, &stream);
  CHECK(stream == no_stream, "a failed call wrote its stream");
  if (t.granule == 0) return {};
  REFUSED(granule_create, t.device, t.granule / 2, 0, &a);
  ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, t.device,
          (t.about.memory_total / t.granule + 1) * t.granule, 0, &a);
  REFUSED(range_reserve, t.device, t.granule, 3, &a);
  REFUSED_SOMEHOW(range_reserve, t.device, uint64_t{1} << 62U, t.granule, &a);
  CHECK(a == untouched, "a failed call wrote its result");
  return {};
}

REQUIRE(
    "ER-008", alone(),
    "A thousand refused calls of every kind leave memory, descriptors and threads as they were.") {
  Stream stream(t);
  TRY(stream.create());
  const auto round = [&]() -> Outcome {
    uint64_t out = 0;
    void *memory = nullptr;
    const weir_be_copy copy{0, 0, 1};
    weir_be_stream none = nullptr;
    TRY(fail_once(t));
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, t.device, t.about.memory_total * 2, 4096, &out);
    REFUSED(host_allocate, 0, &memory);
    REFUSED(copy_async, stream.get(), &copy);
    REFUSED(stream_create, t.no_device(), 0, &none);
    if (t.granule == 0) return {};
    REFUSED(granule_create, t.device, t.granule + 1, 0, &out);
    ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, t.device,
            (t.about.memory_total / t.granule + 1) * t.granule, 0, &out);
    REFUSED(range_reserve, t.device, 0, t.granule, &out);
    Mapped mapped(t);
    TRY(mapped.make(t.granule, t.granule));
    REFUSED_AS(invalid_or_unsupported(), map, t.device, mapped.address(), t.granule,
               mapped.granule.get(), 0, nullptr, 0);
    REFUSED(unmap, t.device, mapped.address(), 2 * t.granule);
    return {};
  };
  TRY(round());
  uint64_t before = 0;
  TRY(free_memory(t, &before));
  const Holdings before_all = holdings();
  for (int i = 0; i < 1000; ++i) TRY(round());
  TRY(memory_back(t, before));
  return holdings_back(before_all, 4);
}

REQUIRE("ER-009", always(), "After failures everything works as before.") {
  Plain plain(t);
  Mover mover(t);
  for (int i = 0; i < 20; ++i) TRY(fail_once(t));
  TRY(plain.allocate(64 << 10U));
  TRY(mover.make(64 << 10U));
  TRY(mover.write(plain.address(), 64 << 10U, 1));
  for (int i = 0; i < 20; ++i) {
    const weir_be_copy bad{0, plain.address(), 64};
    REFUSED(copy_async, mover.stream.get(), &bad);
  }
  return mover.check(plain.address(), 64 << 10U, 1);
}

REQUIRE("ER-010", needs(WEIR_CAP_HOST_REGISTER),
        "Failures about host memory leave a code and words.") {
  alignas(4096) static std::byte page[4096];
  REFUSED(host_unregister, page, sizeof page);
  TRY(told(t, "host_unregister"));
  REFUSED(host_register, page + 1, 16);
  return told(t, "host_register");
}

REQUIRE("ER-011", needs(WEIR_CAP_EXPORT_FD),
        "Failures of export and import leave a code and words.") {
  Granule granule(t);
  int32_t fd = -7;
  weir_be_granule imported = 0;
  TRY(granule.create(t.granule));
  REFUSED(granule_export, t.device, granule.get(), &fd);
  TRY(told(t, "granule_export"));
  REFUSED_SOMEHOW(granule_import, t.device, -1, t.granule, &imported);
  return told(t, "granule_import");
}

}  // namespace
}  // namespace weir::conformance
