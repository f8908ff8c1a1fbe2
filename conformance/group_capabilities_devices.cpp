// SPDX-License-Identifier: Apache-2.0
//
// Capabilities against what works, on each device of several: what one has is not taken for what all have. A call that
// a device does not support writes nothing.
#include "conformance/walks.hpp"

#include <atomic>

namespace weir::conformance {
namespace {

/// Whether the call must work on the device; if not, its entry is missing or answers `instead`.
#define WORKS_OR(has, instead, entry, ...)  \
  do {                                      \
    if (has) {                              \
      MUST(entry, __VA_ARGS__);             \
    } else if (t.table.entry != nullptr) {  \
      ANSWERS(instead, entry, __VA_ARGS__); \
    }                                       \
  } while (false)

Outcome streams_as_declared(Test &t, const DeviceFacts &device) {
  Plain plain(t, device.index);
  Mover mover(t, device.index);
  std::atomic<uint32_t> calls{0};
  TRY(plain.allocate(4096));
  TRY(mover.make(4096));
  const weir_be_stream stream = mover.stream.get();
  const bool takes_calls = device.has(WEIR_CAP_HOST_CALL);
  WORKS_OR(
      takes_calls, WEIR_ERROR_NOT_SUPPORTED, stream_host_call, stream,
      [](void *user) { static_cast<std::atomic<uint32_t> *>(user)->fetch_add(1); }, &calls);
  TRY(mover.stream.synchronize());
  CHECK(calls.load() == (takes_calls ? 1U : 0U), "the host function ran ", calls.load(), " times");
  const weir_be_copy copy{plain.address(), mover.staging.address(), 4096};
  make_pattern(mover.staging.bytes(), 1);
  const bool takes_batches = device.has(WEIR_CAP_BATCH_COPY);
  WORKS_OR(takes_batches, WEIR_ERROR_NOT_SUPPORTED, copy_batch_async, stream, &copy, 1);
  TRY(mover.stream.synchronize());
  if (takes_batches) TRY(mover.check(plain.address(), 4096, 1));
  weir_be_stream made = nullptr;
  const bool transfers = device.has(WEIR_CAP_TRANSFER_STREAM);
  WORKS_OR(transfers, WEIR_ERROR_INVALID_ARGUMENT, stream_create, device.index,
           WEIR_BE_STREAM_TRANSFER, &made);
  CHECK((made != nullptr) == transfers, "a stream for copies alone was ",
        made != nullptr ? "made" : "not made");
  if (made != nullptr) MUST(stream_destroy, made);
  return {};
}

Outcome no_memory_of_its_own(Test &t, const DeviceFacts &device) {
  weir_be_granule granule = untouched;
  uint64_t address = untouched;
  WORKS_OR(false, WEIR_ERROR_NOT_SUPPORTED, granule_create, device.index, 2 << 20U, 0, &granule);
  WORKS_OR(false, WEIR_ERROR_NOT_SUPPORTED, range_reserve, device.index, 2 << 20U, 2 << 20U,
           &address);
  CHECK(granule == untouched && address == untouched,
        "a call that is not supported wrote a result");
  return {};
}

Outcome granules_as_declared(Test &t, const DeviceFacts &device) {
  struct {
    uint64_t capability, flag;
  } flags[] = {{WEIR_CAP_EXPORT_FD, WEIR_BE_GRANULE_EXPORT_FD},
               {WEIR_CAP_EXPORT_FABRIC, WEIR_BE_GRANULE_EXPORT_FABRIC}};
  for (const auto &[capability, flag] : flags) {
    weir_be_granule made = untouched;
    const bool has = device.has(capability);
    WORKS_OR(has, WEIR_ERROR_NOT_SUPPORTED, granule_create, device.index, device.unit, flag, &made);
    CHECK(has || made == untouched, "a call that is not supported wrote a granule");
    if (has) MUST(granule_destroy, device.index, made);
  }
  return {};
}

Outcome maps_as_declared(Test &t, const DeviceFacts &device) {
  const uint64_t unit = device.unit;
  Granule granule(t, device.index);
  Range range(t, device.index);
  Map first(t, device.index), second(t, device.index);
  TRY(granule.create(2 * unit));
  TRY(range.reserve(4 * unit, unit));
  const weir_be_piece piece{granule.get(), 0, 2 * unit};
  const uint32_t peer = t.device_count > 1 ? (device.index + 1) % t.device_count : device.index;
  // Runs, and what is mapped by one of them.
  const bool runs = device.has(WEIR_CAP_MAP_RUN);
  WORKS_OR(runs, WEIR_ERROR_NOT_SUPPORTED, map_run, device.index, range.address(), &piece, 1,
           nullptr, 0);
  if (!runs) TRY(first.map(range.address(), 2 * unit, granule));
  if (!device.has(WEIR_CAP_ACCESS_LATER))
    WORKS_OR(false, WEIR_ERROR_NOT_SUPPORTED, access_add, device.index, range.address(), 2 * unit,
             &peer, 1);
  // A second map, if granules can have one.
  const uint64_t beside = range.address() + 2 * unit;
  if (device.has(WEIR_CAP_MULTI_MAP)) {
    TRY(second.map(beside, 2 * unit, granule));
    TRY(second.unmap());
  } else {
    REFUSED_ONE_WAY_OR_OTHER(map, device.index, beside, 2 * unit, granule.get(), 0, nullptr, 0);
  }
  WORKS_OR(runs, WEIR_ERROR_NOT_SUPPORTED, unmap_run, device.index, range.address(), 2 * unit);
  TRY(first.unmap());
  // A part, if there are parts.
  if (device.has(WEIR_CAP_MAP_PART)) {
    TRY(first.map(beside, unit, granule, unit));
    return first.unmap();
  }
  ANSWERS(WEIR_ERROR_NOT_SUPPORTED, map, device.index, beside, unit, granule.get(), unit, nullptr,
          0);
  return {};
}

REQUIRE("CA-018", always(),
        "Capabilities are declared exactly where the calls work, on every device.") {
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    TRY(streams_as_declared(t, device));
    if (!device.has(WEIR_CAP_PEER) && t.device_count > 1)
      WORKS_OR(false, WEIR_ERROR_NOT_SUPPORTED, peer_enable, device.index,
               (device.index + 1) % t.device_count);
    if (device.unit == 0) return no_memory_of_its_own(t, device);
    TRY(granules_as_declared(t, device));
    return maps_as_declared(t, device);
  });
}

}  // namespace
}  // namespace weir::conformance
