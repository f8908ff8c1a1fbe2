// SPDX-License-Identifier: Apache-2.0
//
// Walks over devices and pairs of them.
#include "conformance/walks.hpp"

#include <algorithm>

namespace weir::conformance {

Outcome devices_with(Test &t, uint64_t capabilities, std::vector<DeviceFacts> *devices) {
  devices->clear();
  for (uint32_t n = 0; n < t.device_count; ++n) {
    DeviceFacts facts;
    facts.index = (t.device + n) % t.device_count;
    TRY(t.describe(facts.index, &facts.about));
    if (!facts.has(capabilities)) continue;
    facts.unit = facts.has(WEIR_CAP_VMM) ? facts.about.granule : 0;
    facts.budget = std::min(facts.about.memory_total / 4, 256 * mib);
    facts.slack = std::min(facts.about.memory_total / 64, 32 * mib);
    devices->push_back(facts);
  }
  return devices->empty() ? Test::nothing("there was no device to look at") : Outcome{};
}

Outcome each_device(Test &t, uint64_t capabilities,
                    const std::function<Outcome(const DeviceFacts &)> &body) {
  std::vector<DeviceFacts> devices;
  TRY(devices_with(t, capabilities, &devices));
  if (devices.empty()) return Test::nothing("there was no device to look at");
  size_t looked_at = 0;
  std::string why_not;
  for (const DeviceFacts &device : devices) {
    const Outcome outcome = in_shape(words("device ", device.index), body(device));
    TRY(outcome);
    if (!outcome.empty()) {
      ++looked_at;
      continue;
    }
    why_not += (why_not.empty() ? "" : "; ") + words("device ", device.index, ": ", outcome.text());
  }
  if (looked_at == 0) return Test::nothing(why_not);
  if (!why_not.empty()) t.note(why_not);
  return {};
}

Outcome in_shape(const std::string &shape, const Outcome &outcome) {
  return outcome.passed() ? outcome : Outcome::failure(shape + ": " + outcome.text());
}

Outcome direct_pairs(Test &t, uint64_t capabilities, std::vector<DevicePair> *pairs) {
  std::vector<DeviceFacts> devices;
  pairs->clear();
  TRY(devices_with(t, capabilities | WEIR_CAP_PEER, &devices));
  for (const DeviceFacts &from : devices) {
    for (const DeviceFacts &to : devices) {
      if (from.index == to.index) continue;
      weir_be_link out{}, back{};
      out.struct_size = back.struct_size = sizeof out;
      MUST(link_describe, from.index, to.index, &out);
      MUST(link_describe, to.index, from.index, &back);
      if (out.direct == 0 || back.direct == 0) continue;
      MUST(peer_enable, from.index, to.index);
      MUST(peer_enable, to.index, from.index);
      pairs->push_back({from, to});
    }
  }
  return pairs->empty() ? Test::nothing("no two devices reach each other directly") : Outcome{};
}

Outcome told_a_code(const Test &t, Site site) {
  CHECK(CALL_IN(t, last_error_code) != 0, place(site), ": a refused call left no code");
  return {};
}

Outcome free_bytes_of(Test &t, uint32_t device, uint64_t *bytes, Site site) {
  uint64_t total = 0;
  return t.expect(site, Want::exactly(WEIR_SUCCESS), "device_memory", t.table.device_memory, device,
                  bytes, &total);
}

Outcome write_ends(Mover &mover, uint64_t address, uint64_t bytes, uint64_t seed, Site site) {
  const uint64_t each = std::min(bytes, end_bytes);
  TRY(mover.write(address, each, 2 * seed, site));
  if (bytes < 2 * each) return {};
  return mover.write(address + bytes - each, each, 2 * seed + 1, site);
}

Outcome check_ends(Mover &mover, uint64_t address, uint64_t bytes, uint64_t seed, Site site) {
  const uint64_t each = std::min(bytes, end_bytes);
  TRY(mover.check(address, each, 2 * seed, site));
  if (bytes < 2 * each) return {};
  return mover.check(address + bytes - each, each, 2 * seed + 1, site);
}

}  // namespace weir::conformance
