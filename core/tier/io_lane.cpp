// SPDX-License-Identifier: Apache-2.0
//
// A piece's way through the hook, the cipher and short transfers, the same for every kind of lane.

#include "core/tier/io_lane.hpp"

#include "core/base/signals.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <system_error>

namespace weir::tier {
namespace {

constexpr uint64_t unit = UnitArena::unit;
static_assert(unit == codec::Cipher::unit_bytes);
/// A file that brings nothing that often, without an error, never will.
constexpr uint32_t max_stalls = 1024;

}  // namespace

Status IoLane::start_thread() {
  if (shared_.key != nullptr) WEIR_TRY(cipher_.start(*shared_.key));
  const SignalsBlocked blocked;  // a thread inherits that
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error &error) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY,
                {.tier = WEIR_TIER_STORAGE, .native = error.code().value()},
                "storage: cannot start a thread: %s", error.what());
  }
  return {};
}

bool IoLane::prepare(Piece *piece, unsigned char *bounce) noexcept {
  if (!piece->io->write || shared_.key == nullptr) return true;
  piece->from = bounce;
  return cipher_.encrypt(piece->line / unit, piece->memory, bounce, piece->bytes);
}

int IoLane::begin(Piece *piece) noexcept {
  piece->asked = piece->bytes - piece->done;
  if (shared_.hook == nullptr) return 0;
  const int64_t answer =
      shared_.hook->before(piece->io->write ? IoCall::write : IoCall::read, piece->asked);
  if (answer < 0) return static_cast<int>(-answer);
  if (answer > 0) {
    auto count = static_cast<uint64_t>(answer);
    if (file(*piece).direct()) count = UnitArena::rounded(count);
    piece->asked = std::min(piece->asked, count);
  }
  return 0;
}

bool IoLane::advance(Piece *piece, int64_t result, int *error) noexcept {
  // 0: past the end of a file, which we made long enough.
  *error = result < 0 ? static_cast<int>(-result) : EIO;
  const bool passing = result == -EINTR || result == -EAGAIN;
  if (result <= 0 && !passing) return false;
  uint64_t count = passing ? 0 : static_cast<uint64_t>(result);
  assert(count <= piece->bytes - piece->done);
  // The rest must be asked for in whole units again.
  if (file(*piece).direct() && piece->done + count != piece->bytes) count = count / unit * unit;
  if (count == 0) return ++piece->stalls < max_stalls;
  piece->stalls = 0;
  piece->done += count;
  if (piece->done != piece->bytes) return true;
  *error = 0;
  if (piece->io->write) return false;
  if (shared_.hook != nullptr) shared_.hook->after_read(piece->memory, piece->bytes);
  if (shared_.key != nullptr &&
      !cipher_.decrypt(piece->line / unit, piece->memory, piece->memory, piece->bytes))
    *error = EIO;
  return false;
}

}  // namespace weir::tier
