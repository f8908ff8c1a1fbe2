// SPDX-License-Identifier: Apache-2.0
//
// Making them, looking whether they are whole, and a good call of each entry beside them.
#include "conformance/standing.hpp"

#include <array>

namespace weir::conformance {
namespace {

constexpr uint64_t looked_at = 64 * kib;

void count_call(void *counter) { static_cast<std::atomic<uint32_t> *>(counter)->fetch_add(1); }

}  // namespace

Standing::Standing(Test &test, uint32_t on)
    : t(test),
      device(on),
      other(test.device_count > 1 ? (on + 1) % test.device_count : UINT32_MAX),
      plain(test, on),
      pinned(test),
      pages(bytes),
      registered(test),
      stream(test, on),
      fence(test),
      two(test, on),
      one(test, on),
      idle(test, on),
      leaving(test, on),
      leaving_fabric(test, on),
      range(test, on),
      empty(test, on),
      map_of_two(test, on),
      map_of_one(test, on),
      mover_(test, on) {}

Outcome Standing::find_peer() {
  for (uint32_t i = 0; i < t.device_count && peer == UINT32_MAX; ++i) {
    if (i == device) continue;
    weir_be_device about_it;
    TRY(t.describe(i, &about_it));
    if ((about_it.capabilities & WEIR_CAP_PEER) == 0) continue;
    weir_be_link there{}, back{};
    there.struct_size = back.struct_size = sizeof there;
    MUST(link_describe, device, i, &there);
    MUST(link_describe, i, device, &back);
    if (there.direct == 0 || back.direct == 0) continue;
    MUST(peer_enable, device, i);
    MUST(peer_enable, i, device);
    peer = i;
  }
  return {};
}

Outcome Standing::make() {
  TRY(t.describe(device, &about));
  if (other != UINT32_MAX) TRY(t.describe(other, &about_other));
  if (has(WEIR_CAP_PEER)) TRY(find_peer());
  unit = has(WEIR_CAP_VMM) ? about.granule : 0;
  TRY(mover_.make(bytes));
  TRY(plain.allocate(bytes));
  TRY(mover_.write(plain.address(), bytes, 1));
  TRY(pinned.allocate(bytes));
  make_pattern(pinned.bytes(), 2);
  CHECK(pages.any(), "the system has no memory");
  make_pattern(pages.bytes(), 3);
  if (has(WEIR_CAP_HOST_REGISTER)) TRY(registered.begin(pages.get(), bytes));
  TRY(stream.create());
  MUST(stream_native, stream.get(), &native);
  TRY(fence.record(stream));
  TRY(fence.wait());
  return unit != 0 ? make_granules() : Outcome{};
}

Outcome Standing::make_granules() {
  TRY(two.create(2 * unit));
  TRY(one.create(unit));
  TRY(idle.create(2 * unit));
  TRY(range.reserve(8 * unit, unit));
  TRY(empty.reserve(4 * unit, unit));
  TRY(map_of_two.map(at(0), 2 * unit, two));
  TRY(map_of_one.map(at(3), unit, one));
  const uint64_t some = std::min(unit, looked_at);
  TRY(mover_.write(at(2) - some, some, 4));
  TRY(mover_.write(at(3), some, 5));
  if (has(WEIR_CAP_EXPORT_FD)) {
    TRY(leaving.create(unit, WEIR_BE_GRANULE_EXPORT_FD));
    int32_t out = -1;
    MUST(granule_export, device, leaving.get(), &out);
    fd = Descriptor(out);
  }
  if (has(WEIR_CAP_EXPORT_FABRIC)) {
    TRY(leaving_fabric.create(unit, WEIR_BE_GRANULE_EXPORT_FABRIC));
    MUST(granule_export_fabric, device, leaving_fabric.get(), &handle);
  }
  return {};
}

Outcome Standing::whole() {
  TRY(mover_.check(plain.address(), bytes, 1));
  TRY(check_pattern(pinned.bytes(), 2, "host memory"));
  TRY(check_pattern(pages.bytes(), 3, "registered memory"));
  TRY(stream.copy(mover_.staging.address(), pinned.address(), bytes));
  TRY(stream.synchronize());
  TRY(check_pattern(mover_.staging.bytes(), 2, "a copy of host memory"));
  if (has(WEIR_CAP_HOST_REGISTER)) {
    TRY(stream.copy(mover_.staging.address(), pages.address(), bytes));
    TRY(stream.synchronize());
    TRY(check_pattern(mover_.staging.bytes(), 3, "a copy of registered memory"));
  }
  MUST(fence_poll, fence.get());
  if (unit == 0) return {};
  const uint64_t some = std::min(unit, looked_at);
  TRY(mover_.check(at(2) - some, some, 4));
  TRY(mover_.check(at(3), some, 5));
  Map elsewhere(t, device);
  TRY(elsewhere.map(at(4), 2 * unit, idle));
  return elsewhere.unmap();
}

Outcome Standing::devices() {
  uint32_t count = 0;
  MUST(device_count, &count);
  weir_be_device again;
  TRY(t.describe(device, &again));
  uint64_t free_bytes = 0, total = 0;
  MUST(device_memory, device, &free_bytes, &total);
  weir_be_link link{};
  link.struct_size = sizeof link;
  MUST(link_describe, device, WEIR_DEVICE_HOST, &link);
  MUST(link_describe, device, device, &link);
  if (peer != UINT32_MAX) MUST(peer_enable, device, peer);
  (void)CALL_IN(t, runtime_version);
  TRY(Watch::after("runtime_version"));
  const int64_t code = CALL_IN(t, last_error_code);
  TRY(Watch::after("last_error_code"));
  (void)CALL_IN(t, error_text, code);
  return Watch::after("error_text");
}

Outcome Standing::memory() {
  Plain more(t, device);
  Pinned host(t);
  TRY(more.allocate(bytes));
  TRY(host.allocate(bytes));
  if (has(WEIR_CAP_HOST_REGISTER)) {
    const Pages own(bytes);
    Registered own_registered(t);
    TRY(own_registered.begin(own.get(), bytes));
    TRY(own_registered.end());
  }
  TRY(stream.fill(more.address(), 0x5C, bytes));
  TRY(stream.copy(host.address(), more.address(), bytes));
  TRY(stream.synchronize());
  TRY(check_value(host.bytes(), 0x5C, "new host memory after a fill and a copy"));
  if (has(WEIR_CAP_BATCH_COPY)) {
    make_pattern(host.bytes(), 6);
    const std::array<weir_be_copy, 2> copies{
        {{more.address(), host.address(), bytes / 2},
         {more.address() + bytes / 2, host.address() + bytes / 2, bytes / 2}}};
    MUST(copy_batch_async, stream.get(), copies.data(), 2);
    TRY(stream.synchronize());
    TRY(mover_.check(more.address(), bytes, 6));
  }
  TRY(host.free());
  return more.free();
}

Outcome Standing::streams() {
  Stream made(t, device), wrapper(t, device);
  Fence mark(t);
  TRY(made.create());
  void *handle_of_made = nullptr;
  MUST(stream_native, made.get(), &handle_of_made);
  TRY(wrapper.wrap(handle_of_made));
  TRY(made.fill(plain.address() + bytes - 1, 7, 1));
  TRY(made.copy(plain.address() + bytes - 1, pinned.address(), 1));
  MUST(stream_wait, made.get(), fence.get());
  ANSWERS_EITHER(WEIR_SUCCESS, WEIR_NOT_READY, stream_query, made.get());
  if (t.table.stream_check != nullptr) MUST(stream_check, made.get());
  const uint32_t calls = called_.load();
  if (has(WEIR_CAP_HOST_CALL)) MUST(stream_host_call, made.get(), &count_call, &called_);
  TRY(mark.record(made));
  MUST(stream_wait, stream.get(), mark.get());
  ANSWERS_EITHER(WEIR_SUCCESS, WEIR_NOT_READY, fence_poll, mark.get());
  TRY(mark.wait());
  TRY(made.synchronize());
  CHECK(!has(WEIR_CAP_HOST_CALL) || called_.load() == calls + 1,
        "a host function was not called once");
  TRY(mover_.write(plain.address(), bytes, 1));
  TRY(mark.destroy());
  TRY(wrapper.destroy());
  TRY(made.destroy());
  weir_be_stream standard = nullptr;
  ANSWERS_EITHER(WEIR_SUCCESS, WEIR_ERROR_INVALID_ARGUMENT, stream_wrap, device, nullptr,
                 &standard);
  if (standard != nullptr) MUST(stream_destroy, standard);
  return {};
}

Outcome Standing::granules() {
  Mapped more(t, device);
  TRY(more.make(unit, unit));
  TRY(mover_.write(more.address(), std::min(unit, bytes), 8));
  TRY(mover_.check(more.address(), std::min(unit, bytes), 8));
  if (has(WEIR_CAP_ACCESS_LATER) && peer != UINT32_MAX)
    MUST(access_add, device, more.address(), unit, &peer, 1);
  TRY(more.mapping.unmap());
  TRY(more.range.free());
  return more.granule.destroy();
}

Outcome Standing::exports() {
  if (has(WEIR_CAP_EXPORT_FD)) {
    int32_t out = -1;
    MUST(granule_export, device, leaving.get(), &out);
    const Descriptor closes(out);
    Granule again(t, device);
    TRY(again.import(out, unit));
    TRY(again.destroy());
  }
  if (has(WEIR_CAP_EXPORT_FABRIC)) {
    weir_be_fabric_handle other_handle{};
    MUST(granule_export_fabric, device, leaving_fabric.get(), &other_handle);
    weir_be_granule again = 0;
    MUST(granule_import_fabric, device, &other_handle, unit, &again);
    MUST(granule_destroy, device, again);
  }
  return {};
}

Outcome Standing::runs() {
  Granule more(t, device);
  TRY(more.create(unit));
  const std::array<weir_be_piece, 2> pieces{{{idle.get(), 0, 2 * unit}, {more.get(), 0, unit}}};
  MUST(map_run, device, at(4), pieces.data(), 2, nullptr, 0);
  MUST(unmap_run, device, at(4), 3 * unit);
  return more.destroy();
}

Outcome Standing::everything() {
  TRY(devices());
  TRY(memory());
  TRY(streams());
  if (unit == 0) return {};
  TRY(granules());
  TRY(exports());
  return has(WEIR_CAP_MAP_RUN) ? runs() : Outcome{};
}

}  // namespace weir::conformance
