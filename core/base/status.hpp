// SPDX-License-Identifier: Apache-2.0
//
// Status: the outcome of every fallible call inside Weir, and the thread's last error behind it.
//
// A Status carries only the code, so that it is returned in a register; the sentence and the numbers are kept per thread by fail(),
// because the C ABI reports them that way. Success never touches the thread's error, so the hit path stays free of it.
// Nothing here allocates: a failure must be reportable when memory is gone. A refusal that a program may meet thousands of times a
// second keeps what its sentence says, by fail_later(); the sentence is printed when it is asked for.
//
// Of the failures of a call the last one is reported. Code that cleans up after a failure, or tries what may fail without being the caller's
// error, puts a KeepError around it. That rather than a number in each Status and a few latest records: a clean-up may fail
// once for every page, so no number of records would be enough. And rather than not recording at all: what fails meanwhile can
// be looked at, and logged, as usual.
#pragma once

#include <weir/types.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weir {

class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  constexpr explicit Status(weir_result code) noexcept : code_(code) {}

  constexpr bool ok() const noexcept { return code_ == WEIR_SUCCESS; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  constexpr weir_result code() const noexcept { return code_; }

 private:
  weir_result code_ = WEIR_SUCCESS;
};
static_assert(sizeof(Status) == sizeof(weir_result));

/// What a refusal is due to, of those that the caller can do something about: what weir_last_error_report advises (pool/advice.cpp).
enum class Cause : uint8_t {
  none,
  device_budget,   ///< the set alone is larger than the device's budget
  device_held,     ///< ... than what holds and weir_malloc leave of it
  device_lowered,  ///< ... than what the runtime had, which is less than the budget
  device_quota,    ///< ... than the client's quota of the device
  host_budget,
  host_quota,
  cold_budget,   ///< HOST is full, and so is what there is below it
  cold_quota,    ///< ... as far as the client may use it
  leases,        ///< the room is leased: it comes with releases
  queue,         ///< others wait for room before it
  removal,       ///< a device is to leave, and work on it does not end
  lease,         ///< an unreleased lease on the same bytes
  hold,          ///< a hold on the buffer
  small_buffer,  ///< a buffer below a page that is leased or held at home
  lost,          ///< bytes went with a device
  count
};

/// The numbers of weir_error_info, with the defaults that mean "does not apply", and what the report needs besides.
struct ErrorDetail {
  uint32_t tier = WEIR_TIER_NONE;
  weir_device device = WEIR_DEVICE_HOST;
  uint64_t asked = 0;
  uint64_t available = 0;
  uint64_t use_index = UINT64_MAX;
  int64_t native = 0;
  Cause cause = Cause::none;
  uint32_t client = UINT32_MAX;  ///< whose quota is short
  weir_buffer buffer = nullptr;  ///< the one that it is about
};

/// Records the thread's last error and returns its code. The format is printf's; the result is cut at 511 bytes.
Status fail(weir_result code, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
Status fail(weir_result code, const ErrorDetail &detail, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

/// A number in a message, for %llu.
constexpr unsigned long long llu(uint64_t value) noexcept { return value; }

/// What the thread's last fail() left.
struct LastError {
  weir_result result = WEIR_SUCCESS;
  ErrorDetail detail;
  uint64_t pool = 0;  ///< the number of the pool that has refused (Pool::serial); 0: none has
  /// NULL: `text` is the sentence. Else it is what the sentence says, and this prints that as snprintf would, and returns the same.
  int (*print)(const void *told, char *text, size_t capacity) = nullptr;
  alignas(8) char text[512] = {};
};
/// With its sentence, which is printed now if it was not yet.
const LastError &last_error() noexcept;
/// As fail() left it: the sentence may not be printed yet.
const LastError &unread_error() noexcept;
/// The same, for a failure that is about to be written into it.
LastError &new_error() noexcept;

/// Records what a sentence says, as so many bytes.
Status keep_failure(weir_result code, const ErrorDetail &detail, const void *told, size_t bytes,
                    int (*print)(const void *, char *, size_t)) noexcept;

/// fail() for what a program may meet often and not read: `told` is kept, and told.print(text, capacity) makes the sentence of it, as
/// snprintf would. It refers to nothing, because it may be printed at any time later.
template <class Told>
Status fail_later(weir_result code, const ErrorDetail &detail, const Told &told) noexcept {
  // The last byte stays 0, so that a caller that still reads an older sentence's text, against the rule, stops within the buffer.
  static_assert(std::is_trivially_copyable_v<Told> && sizeof(Told) < sizeof LastError::text);
  static_assert(alignof(Told) <= 8);
  return keep_failure(code, detail, &told, sizeof told,
                      [](const void *from, char *text, size_t capacity) {
                        return static_cast<const Told *>(from)->print(text, capacity);
                      });
}

/// The status; a failure is told to be about that use of a set.
inline Status of_use(uint64_t use, Status status) noexcept {
  if (!status) new_error().detail.use_index = use;
  return status;
}

/// When it ends, the thread's last error is what it was before. It costs nothing unless something fails meanwhile.
class KeepError {
 public:
  KeepError() noexcept;
  ~KeepError();
  KeepError(const KeepError &) = delete;
  KeepError &operator=(const KeepError &) = delete;

  struct Kept {
    Kept *outer;
    bool saved = false;  ///< something has failed: `before` is what was there
    alignas(LastError) unsigned char before[sizeof(LastError)];
  };

 private:
  Kept kept_;
};

/// How a call has ended, with its error, on the way to another thread.
class HandedOver {
 public:
  /// Called by the thread that made the call.
  void put(Status status) noexcept {
    status_ = status;
    if (!status) error_ = unread_error();
  }
  /// Called by the other thread: the error is that thread's own from now on.
  Status take() const noexcept {
    if (!status_) new_error() = error_;
    return status_;
  }

 private:
  Status status_;
  LastError error_;
};

}  // namespace weir

/// Returns early with a failed Status.
#define WEIR_TRY(expression)                                   \
  do {                                                         \
    if (::weir::Status weir_try_ = (expression); !weir_try_) { \
      return weir_try_;                                        \
    }                                                          \
  } while (false)
