// SPDX-License-Identifier: Apache-2.0
//
// Next use: looked up along the links of the log, a few steps at most.

#include "core/policy/next_use.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

constexpr uint32_t most_twins = 4;     ///< rounds of the program that are gone back
constexpr uint32_t most_own_uses = 6;  ///< that are looked at for one by the same operation

/// What followed a use, if the buffer has been used again.
Outlook seen_after(const ProgramLog &log, const LoggedUse &use) noexcept {
  const LoggedUse &next = log.use(use.next);
  const bool anew = (next.mode & use_whole) != 0 && (next.mode & use_needs) == 0;
  return {anew ? Fate::overwritten : Fate::needed, uint64_t{next.operation} - use.operation};
}

Outlook after_use(const ProgramLog &log, uint32_t number, uint32_t twins) noexcept {
  const LoggedUse &use = log.use(number);
  if (use.next != ProgramLog::none) return seen_after(log, use);
  const Life &life = log.lives()[use.life];
  if (!life.alive && !life.left) {
    if (life.died == ProgramLog::none) return {};
    return {Fate::dies, std::max<uint64_t>(1, life.died - std::min(life.died, use.operation))};
  }
  if (twins == 0 || use.twin == ProgramLog::none || !log.holds_use(use.twin)) return {};
  Outlook outlook = after_use(log, use.twin, twins - 1);
  if (life.left) return outlook;  // what comes is of the one that plays its role
  // It has not come yet: whatever followed the twin, this is still to come.
  if (outlook.fate == Fate::needed || outlook.fate == Fate::overwritten)
    outlook.distance = std::max<uint64_t>(outlook.distance, log.end() - 1 - use.operation);
  return outlook;
}

/// What followed the buffer's last earlier use by an operation of the same name.
Outlook own_distance(const ProgramLog &log, uint32_t number) noexcept {
  const uint32_t name = log.operation(log.use(number).operation).name;
  uint32_t before = log.use(number).previous;
  for (uint32_t count = 0; count < most_own_uses; ++count) {
    if (before == ProgramLog::none || !log.holds_use(before)) return {};
    const LoggedUse &use = log.use(before);
    if (log.operation(use.operation).name == name) return seen_after(log, use);
    before = use.previous;
  }
  return {};
}

}  // namespace

Outlook outlook_after(const ProgramLog &log, uint32_t use) noexcept {
  return after_use(log, use, most_twins);
}

Outlook outlook_of(const ProgramLog &log, uint32_t number) noexcept {
  const uint32_t newest = log.lives()[number].last_use;
  if (newest == ProgramLog::none) return {};
  const LoggedUse &use = log.use(newest);
  Outlook outlook;
  if (use.twin != ProgramLog::none && log.holds_use(use.twin))
    outlook = after_use(log, use.twin, most_twins - 1);
  if (outlook.fate == Fate::unknown) outlook = own_distance(log, newest);
  if (outlook.fate == Fate::unknown) return {};
  const uint64_t passed = log.end() - 1 - use.operation;
  if (passed > outlook.distance + patience(outlook.distance)) return {};
  outlook.distance = std::max(outlook.distance, passed + 1);
  return outlook;
}

}  // namespace weir::policy
