// SPDX-License-Identifier: Apache-2.0
//
// The table. A row: the entry, what is wrong, what it needs, the results that are right, and the arguments, of which `s` are
// the good things, `o` the outputs and `n` a device that does not exist.
#include "conformance/refusals.hpp"

#include <array>
#include <cstring>

namespace weir::conformance {
namespace {

#define WEIR_ROW(entry, why, needs, peer, by_number, want, ...)                      \
  Refusal {                                                                          \
#entry, why, needs, peer, by_number, want,                                         \
        [](const weir_backend_table &table) { return table.entry != nullptr; },        \
        []([[maybe_unused]] const Standing &s, [[maybe_unused]] Outs::Values &o,       \
           [[maybe_unused]] uint32_t n) {                                              \
          return CALL_IN(s.t, entry __VA_OPT__(, ) __VA_ARGS__);                             \
        } \
  }
/// Refused as INVALID_ARGUMENT.
#define BAD(entry, why, needs, ...) \
  WEIR_ROW(entry, why, needs, false, false, invalid(), __VA_ARGS__)
#define BAD_AS(want, entry, why, needs, ...) \
  WEIR_ROW(entry, why, needs, false, false, want, __VA_ARGS__)
/// Refused because there is no device `n`.
#define NO_DEVICE(entry, why, needs, ...) \
  WEIR_ROW(entry, why, needs, false, true, invalid(), __VA_ARGS__)
/// The same, for calls that need a device that the one that stands reaches.
#define BAD_PEER(entry, why, needs, ...) \
  WEIR_ROW(entry, why, needs, true, false, invalid(), __VA_ARGS__)
#define NO_DEVICE_PEER(entry, why, needs, ...) \
  WEIR_ROW(entry, why, needs, true, true, invalid(), __VA_ARGS__)

constexpr uint64_t some_bytes = Standing::bytes;
constexpr uint64_t page = 4096;
constexpr uint64_t huge = uint64_t{1} << 63U;
constexpr Needs any = always();
constexpr Needs two_devices = needs(0, 2);
constexpr Needs vmm_peer = needs(WEIR_CAP_VMM | WEIR_CAP_PEER, 2);
constexpr Needs registers = needs(WEIR_CAP_HOST_REGISTER);
constexpr Needs batch_rows = needs(WEIR_CAP_BATCH_COPY);
constexpr Needs exports = needs(WEIR_CAP_EXPORT_FD);
constexpr Needs fabric = needs(WEIR_CAP_EXPORT_FABRIC);
constexpr Needs runs = needs(WEIR_CAP_VMM | WEIR_CAP_MAP_RUN);
constexpr Needs later = needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_ACCESS_LATER, 2);

Want no_memory() { return Want::exactly(WEIR_ERROR_DEVICE_OOM); }

void *behind(void *memory, uint64_t bytes) { return static_cast<std::byte *>(memory) + bytes; }

uint64_t too_much(const Standing &s) {
  return s.unit != 0 ? (s.about.memory_total / s.unit + 1) * s.unit : s.about.memory_total + mib;
}

/// Arguments that are passed by address live in these as long as the thread.
const uint32_t *number_at(uint32_t number) {
  static thread_local uint32_t held;
  held = number;
  return &held;
}
const uint32_t *numbers_at(uint32_t first, uint32_t second) {
  static thread_local std::array<uint32_t, 2> held;
  held = {first, second};
  return held.data();
}
const weir_be_copy *copy_at(uint64_t destination, uint64_t source, uint64_t bytes) {
  static thread_local weir_be_copy held;
  held = {destination, source, bytes};
  return &held;
}
/// Eight copies within plain memory, of which one has no destination or no source.
const weir_be_copy *batch_at(const Standing &s, size_t bad, bool source) {
  static thread_local std::array<weir_be_copy, 8> held;
  for (size_t i = 0; i < held.size(); ++i)
    held[i] = {s.plain.address() + 64 * i, s.pinned.address() + 64 * i, 64};
  (source ? held[bad].source : held[bad].destination) = 0;
  return held.data();
}
const weir_be_piece *pieces_at(weir_be_piece first, weir_be_piece second = {}) {
  static thread_local std::array<weir_be_piece, 2> held;
  held = {first, second};
  return held.data();
}
weir_be_piece whole_idle(const Standing &s) { return {s.idle.get(), 0, 2 * s.unit}; }
weir_be_piece no_piece(const Standing &s) { return {0, 0, s.unit}; }

void devices_and_memory(std::vector<Refusal> &rows) {
  const std::array all{
      NO_DEVICE(device_describe, "no such device", any, n, &o.about),
      NO_DEVICE(device_memory, "no such device", any, n, &o.a, &o.b),
      NO_DEVICE(link_describe, "from no such device", any, n, s.device, &o.link),
      NO_DEVICE(link_describe, "to no such device", any, s.device, n, &o.link),
      NO_DEVICE(peer_enable, "no such device", needs(WEIR_CAP_PEER), n, s.device),
      NO_DEVICE(peer_enable, "no such peer", needs(WEIR_CAP_PEER), s.device, n),
      NO_DEVICE(plain_allocate, "no such device", any, n, some_bytes, page, &o.a),
      BAD(plain_allocate, "no bytes", any, s.device, 0, page, &o.a),
      BAD(plain_allocate, "no alignment", any, s.device, some_bytes, 0, &o.a),
      BAD(plain_allocate, "an alignment of 3", any, s.device, some_bytes, 3, &o.a),
      BAD(plain_allocate, "an alignment of 4 MiB", any, s.device, some_bytes, 4 * mib, &o.a),
      BAD(plain_allocate, "an alignment of 2^63", any, s.device, some_bytes, huge, &o.a),
      BAD_AS(no_memory(), plain_allocate, "more than the device has", any, s.device,
             s.about.memory_total + mib, page, &o.a),
      BAD_AS(invalid_or_out_of_memory(), plain_allocate, "2^63 bytes", any, s.device, huge, page,
             &o.a),
      NO_DEVICE(plain_free, "no such device", any, n, s.plain.address(), some_bytes),
      BAD(plain_free, "half of it", any, s.device, s.plain.address(), some_bytes / 2),
      BAD(plain_free, "twice its size", any, s.device, s.plain.address(), 2 * some_bytes),
      BAD(plain_free, "no bytes", any, s.device, s.plain.address(), 0),
      BAD(plain_free, "its second half", any, s.device, s.plain.address() + some_bytes / 2,
          some_bytes / 2),
      BAD(plain_free, "the address 0", any, s.device, 0, some_bytes),
      BAD(plain_free, "host memory", any, s.device, s.pinned.address(), some_bytes),
      BAD(plain_free, "another device's", two_devices, s.other, s.plain.address(), some_bytes),
      BAD(plain_free, "a map", vmm, s.device, s.at(0), 2 * s.unit),
      BAD(plain_free, "a range", vmm, s.device, s.empty.address(), s.empty.bytes()),
      BAD(host_allocate, "no bytes", any, 0, &o.memory),
      BAD_AS(no_host_memory(), host_allocate, "2^62 bytes", any, huge / 2, &o.memory),
      BAD(host_free, "half of it", any, s.pinned.bytes().data(), some_bytes / 2),
      BAD(host_free, "twice its size", any, s.pinned.bytes().data(), 2 * some_bytes),
      BAD(host_free, "no bytes", any, s.pinned.bytes().data(), 0),
      BAD(host_free, "its second half", any, behind(s.pinned.bytes().data(), some_bytes / 2),
          some_bytes / 2),
      BAD(host_free, "NULL", any, nullptr, some_bytes),
      BAD(host_free, "registered memory", registers, s.pages.get(), some_bytes),
      BAD(host_register, "no bytes", registers, s.pages.get(), 0),
      BAD(host_register, "NULL", registers, nullptr, some_bytes),
      BAD(host_register, "an odd address", registers, behind(s.pages.get(), 1), page),
      BAD(host_register, "what is registered", registers, s.pages.get(), some_bytes),
      BAD(host_register, "a part of what is registered", registers, behind(s.pages.get(), page),
          page),
      BAD(host_unregister, "half of it", registers, s.pages.get(), some_bytes / 2),
      BAD(host_unregister, "twice its size", registers, s.pages.get(), 2 * some_bytes),
      BAD(host_unregister, "its second half", registers, behind(s.pages.get(), some_bytes / 2),
          some_bytes / 2),
      BAD(host_unregister, "NULL", registers, nullptr, some_bytes),
      BAD(host_unregister, "the backend's own", registers, s.pinned.bytes().data(), some_bytes),
  };
  rows.insert(rows.end(), all.begin(), all.end());
}

void streams_and_copies(std::vector<Refusal> &rows) {
  const std::array all{
      NO_DEVICE(stream_create, "no such device", any, n, 0, &o.stream),
      BAD(stream_create, "an unknown flag", any, s.device, uint64_t{1} << 40U, &o.stream),
      BAD(stream_create, "all flags", any, s.device, ~uint64_t{0}, &o.stream),
      BAD(stream_create, "for copies alone, without TRANSFER_STREAM",
          lacks(WEIR_CAP_TRANSFER_STREAM), s.device, WEIR_BE_STREAM_TRANSFER, &o.stream),
      NO_DEVICE(stream_wrap, "no such device", any, n, s.native, &o.stream),
      NO_DEVICE(stream_wrap, "the default stream of no such device", any, n, nullptr, &o.stream),
      BAD(stream_destroy, "NULL", any, nullptr),
      BAD(stream_native, "NULL", any, nullptr, &o.memory),
      BAD(stream_check, "NULL", any, nullptr),
      BAD(stream_synchronize, "NULL", any, nullptr),
      BAD(stream_query, "NULL", any, nullptr),
      BAD(
          stream_host_call, "NULL", host_call, nullptr, [](void *) {}, nullptr),
      BAD(fence_record, "NULL", any, nullptr, &o.fence),
      BAD(stream_wait, "NULL", any, nullptr, s.fence.get()),
      BAD(stream_wait, "the fence 0", any, s.stream.get(), 0),
      BAD(fence_poll, "the fence 0", any, 0),
      BAD(fence_wait, "the fence 0, at once", any, 0, 0),
      BAD(fence_wait, "the fence 0, for ever", any, 0, UINT64_MAX),
      BAD(copy_async, "NULL", any, nullptr,
          copy_at(s.plain.address(), s.pinned.address(), some_bytes)),
      BAD(copy_async, "to 0", any, s.stream.get(), copy_at(0, s.pinned.address(), some_bytes)),
      BAD(copy_async, "from 0", any, s.stream.get(), copy_at(s.plain.address(), 0, some_bytes)),
      BAD(copy_batch_async, "the first to 0", batch_rows, s.stream.get(), batch_at(s, 0, false), 8),
      BAD(copy_batch_async, "the last to 0", batch_rows, s.stream.get(), batch_at(s, 7, false), 8),
      BAD(copy_batch_async, "the first from 0", batch_rows, s.stream.get(), batch_at(s, 0, true),
          8),
      BAD(copy_batch_async, "the last from 0", batch_rows, s.stream.get(), batch_at(s, 7, true), 8),
      BAD(copy_batch_async, "NULL", batch_rows, nullptr, batch_at(s, 7, true), 7),
      BAD(fill_async, "NULL", any, nullptr, s.plain.address(), 1, some_bytes),
      BAD(fill_async, "at 0", any, s.stream.get(), 0, 1, some_bytes),
  };
  rows.insert(rows.end(), all.begin(), all.end());
}

void granules_and_ranges(std::vector<Refusal> &rows) {
  const std::array all{
      NO_DEVICE(granule_create, "no such device", vmm, n, s.unit, 0, &o.granule),
      BAD(granule_create, "no bytes", vmm, s.device, 0, 0, &o.granule),
      BAD(granule_create, "half a unit", vmm, s.device, s.unit / 2, 0, &o.granule),
      BAD(granule_create, "a unit and a byte", vmm, s.device, s.unit + 1, 0, &o.granule),
      BAD_AS(no_memory(), granule_create, "more than the device has", vmm, s.device, too_much(s), 0,
             &o.granule),
      BAD_AS(invalid_or_out_of_memory(), granule_create, "2^63 bytes", vmm, s.device, huge, 0,
             &o.granule),
      BAD_AS(invalid_or_unsupported(), granule_create, "an unknown flag", vmm, s.device, s.unit,
             uint64_t{1} << 60U, &o.granule),
      BAD_AS(Want::exactly(WEIR_ERROR_NOT_SUPPORTED), granule_create,
             "to be exported, without EXPORT_FD", lacks(WEIR_CAP_EXPORT_FD, WEIR_CAP_VMM), s.device,
             s.unit, WEIR_BE_GRANULE_EXPORT_FD, &o.granule),
      BAD_AS(Want::exactly(WEIR_ERROR_NOT_SUPPORTED), granule_create,
             "to be exported over a fabric, without EXPORT_FABRIC",
             lacks(WEIR_CAP_EXPORT_FABRIC, WEIR_CAP_VMM), s.device, s.unit,
             WEIR_BE_GRANULE_EXPORT_FABRIC, &o.granule),
      NO_DEVICE(granule_destroy, "no such device", vmm, n, s.idle.get()),
      BAD(granule_destroy, "the granule 0", vmm, s.device, 0),
      BAD(granule_destroy, "a mapped granule", vmm, s.device, s.two.get()),
      NO_DEVICE(range_reserve, "no such device", vmm, n, s.unit, s.unit, &o.a),
      BAD(range_reserve, "no bytes", vmm, s.device, 0, s.unit, &o.a),
      BAD(range_reserve, "a unit and a byte", vmm, s.device, s.unit + 1, s.unit, &o.a),
      BAD(range_reserve, "no alignment", vmm, s.device, s.unit, 0, &o.a),
      BAD(range_reserve, "an alignment of 3 units", vmm, s.device, s.unit, 3 * s.unit, &o.a),
      BAD(range_reserve, "an alignment of half a unit", vmm, s.device, s.unit, s.unit / 2, &o.a),
      BAD_AS(Want::any_error(), range_reserve, "2^62 bytes", vmm, s.device, huge / 2, s.unit, &o.a),
      NO_DEVICE(range_free, "no such device", vmm, n, s.empty.address(), 4 * s.unit),
      BAD(range_free, "half of it", vmm, s.device, s.empty.address(), 2 * s.unit),
      BAD(range_free, "twice its size", vmm, s.device, s.empty.address(), 8 * s.unit),
      BAD(range_free, "no bytes", vmm, s.device, s.empty.address(), 0),
      BAD(range_free, "its second half", vmm, s.device, s.empty.address() + 2 * s.unit, 2 * s.unit),
      BAD(range_free, "with maps in it", vmm, s.device, s.at(0), 8 * s.unit),
      BAD(range_free, "another device's", needs(WEIR_CAP_VMM, 2), s.other, s.empty.address(),
          4 * s.unit),
      NO_DEVICE(granule_export, "no such device", exports, n, s.leaving.get(), &o.fd),
      BAD(granule_export, "a granule not made for it", exports, s.device, s.idle.get(), &o.fd),
      BAD(granule_export, "the granule 0", exports, s.device, 0, &o.fd),
      NO_DEVICE(granule_import, "no such device", exports, n, s.fd.get(), s.unit, &o.granule),
      BAD_AS(Want::any_error(), granule_import, "the descriptor -1", exports, s.device, -1, s.unit,
             &o.granule),
      BAD(granule_import, "no bytes", exports, s.device, s.fd.get(), 0, &o.granule),
      BAD(granule_import, "half a unit", exports, s.device, s.fd.get(), s.unit / 2, &o.granule),
      NO_DEVICE(granule_export_fabric, "no such device", fabric, n, s.leaving_fabric.get(),
                &o.handle),
      BAD(granule_export_fabric, "a granule not made for it", fabric, s.device, s.idle.get(),
          &o.handle),
      BAD(granule_export_fabric, "the granule 0", fabric, s.device, 0, &o.handle),
      NO_DEVICE(granule_import_fabric, "no such device", fabric, n, &s.handle, s.unit, &o.granule),
      BAD(granule_import_fabric, "no bytes", fabric, s.device, &s.handle, 0, &o.granule),
      BAD(granule_import_fabric, "half a unit", fabric, s.device, &s.handle, s.unit / 2,
          &o.granule),
  };
  rows.insert(rows.end(), all.begin(), all.end());
}

void maps(std::vector<Refusal> &rows) {
  const std::array all{
      NO_DEVICE(map, "no such device", vmm, n, s.at(4), 2 * s.unit, s.idle.get(), 0, nullptr, 0),
      BAD(map, "at half a unit", vmm, s.device, s.at(4) + s.unit / 2, 2 * s.unit, s.idle.get(), 0,
          nullptr, 0),
      BAD(map, "beyond the range", vmm, s.device, s.at(7), 2 * s.unit, s.idle.get(), 0, nullptr, 0),
      BAD(map, "where something is", vmm, s.device, s.at(0), 2 * s.unit, s.idle.get(), 0, nullptr,
          0),
      BAD(map, "partly where something is", vmm, s.device, s.at(2), 2 * s.unit, s.idle.get(), 0,
          nullptr, 0),
      BAD(map, "the granule 0", vmm, s.device, s.at(4), 2 * s.unit, 0, 0, nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "no bytes", vmm, s.device, s.at(4), 0, s.idle.get(), 0,
             nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "half a unit", vmm, s.device, s.at(4), s.unit / 2,
             s.idle.get(), 0, nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "beyond the granule", vmm, s.device, s.at(4),
             3 * s.unit, s.idle.get(), 0, nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "an offset beyond the granule", vmm, s.device, s.at(4),
             2 * s.unit, s.idle.get(), s.unit, nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "a part, without MAP_PART",
             lacks(WEIR_CAP_MAP_PART, WEIR_CAP_VMM), s.device, s.at(4), s.unit, s.idle.get(), 0,
             nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "again, without MULTI_MAP",
             lacks(WEIR_CAP_MULTI_MAP, WEIR_CAP_VMM), s.device, s.at(4), 2 * s.unit, s.two.get(), 0,
             nullptr, 0),
      BAD_AS(invalid_or_unsupported(), map, "for a peer, without PEER",
             (Needs{WEIR_CAP_VMM, WEIR_CAP_PEER, 2, false}), s.device, s.at(4), 2 * s.unit,
             s.idle.get(), 0, number_at(s.other), 1),
      NO_DEVICE(map, "no such peer", vmm_peer, s.device, s.at(4), 2 * s.unit, s.idle.get(), 0,
                number_at(n), 1),
      NO_DEVICE_PEER(map, "no such peer behind a good one", vmm_peer, s.device, s.at(4), 2 * s.unit,
                     s.idle.get(), 0, numbers_at(s.peer, n), 2),
      NO_DEVICE(unmap, "no such device", vmm, n, s.at(0), 2 * s.unit),
      BAD(unmap, "the first half of a map", vmm, s.device, s.at(0), s.unit),
      BAD(unmap, "the second half of a map", vmm, s.device, s.at(1), s.unit),
      BAD(unmap, "two maps and what is between", vmm, s.device, s.at(0), 4 * s.unit),
      BAD(unmap, "a map and what is behind", vmm, s.device, s.at(3), 2 * s.unit),
      BAD(unmap, "no bytes", vmm, s.device, s.at(0), 0),
      BAD(unmap, "where nothing is", vmm, s.device, s.at(4), 2 * s.unit),
      BAD(unmap, "another device's", needs(WEIR_CAP_VMM, 2), s.other, s.at(0), 2 * s.unit),
      NO_DEVICE(map_run, "no such device", runs, n, s.at(4), pieces_at(whole_idle(s)), 1, nullptr,
                0),
      BAD(map_run, "no pieces", runs, s.device, s.at(4), pieces_at(whole_idle(s)), 0, nullptr, 0),
      BAD(map_run, "NULL", runs, s.device, s.at(4), nullptr, 2, nullptr, 0),
      BAD(map_run, "the last granule is 0", runs, s.device, s.at(4),
          pieces_at(whole_idle(s), no_piece(s)), 2, nullptr, 0),
      BAD(map_run, "the first granule is 0", runs, s.device, s.at(4),
          pieces_at(no_piece(s), whole_idle(s)), 2, nullptr, 0),
      BAD(map_run, "partly where something is", runs, s.device, s.at(2), pieces_at(whole_idle(s)),
          1, nullptr, 0),
      BAD(map_run, "at half a unit", runs, s.device, s.at(4) + s.unit / 2, pieces_at(whole_idle(s)),
          1, nullptr, 0),
      BAD(map_run, "beyond the range", runs, s.device, s.at(7), pieces_at(whole_idle(s)), 1,
          nullptr, 0),
      NO_DEVICE(map_run, "no such peer", needs(vmm_peer.with | WEIR_CAP_MAP_RUN, 2), s.device,
                s.at(4), pieces_at(whole_idle(s)), 1, number_at(n), 1),
      NO_DEVICE(unmap_run, "no such device", runs, n, s.at(0), 2 * s.unit),
      BAD(unmap_run, "a gap", runs, s.device, s.at(0), 4 * s.unit),
      BAD(unmap_run, "half a piece", runs, s.device, s.at(0), s.unit),
      BAD(unmap_run, "no bytes", runs, s.device, s.at(0), 0),
      BAD(unmap_run, "where nothing is", runs, s.device, s.at(4), 2 * s.unit),
      BAD(unmap_run, "another device's", needs(runs.with, 2), s.other, s.at(0), 2 * s.unit),
      NO_DEVICE_PEER(access_add, "no such device", later, n, s.at(0), 2 * s.unit, number_at(s.peer),
                     1),
      NO_DEVICE(access_add, "no such peer", later, s.device, s.at(0), 2 * s.unit, number_at(n), 1),
      NO_DEVICE_PEER(access_add, "no such peer behind a good one", later, s.device, s.at(0),
                     2 * s.unit, numbers_at(s.peer, n), 2),
      BAD_PEER(access_add, "no peers", later, s.device, s.at(0), 2 * s.unit, number_at(s.peer), 0),
      BAD_PEER(access_add, "a gap", later, s.device, s.at(0), 4 * s.unit, number_at(s.peer), 1),
      BAD_PEER(access_add, "half a piece", later, s.device, s.at(0), s.unit, number_at(s.peer), 1),
      BAD_PEER(access_add, "where nothing is", later, s.device, s.at(4), 2 * s.unit,
               number_at(s.peer), 1),
  };
  rows.insert(rows.end(), all.begin(), all.end());
}

}  // namespace

Outs::Outs() noexcept {
  std::memset(&is, 0xA5, sizeof is);
  is.about.struct_size = sizeof is.about;
  is.link.struct_size = sizeof is.link;
  std::memcpy(&was_, &is, sizeof was_);
}

bool Outs::untouched_still() const noexcept { return std::memcmp(&is, &was_, sizeof is) == 0; }

bool Refusal::applies(const Standing &s) const {
  if (!there(s.t.table) || !s.has(needs.with) || (s.about.capabilities & needs.without) != 0)
    return false;
  if (needs.devices > 1 && !s.has_other(needs.with)) return false;
  return !peer || s.peer != UINT32_MAX;
}

std::string Refusal::text(const Standing &s) const {
  return words("device ", s.device, ": ", entry, ", ", why);
}

Outcome Refusal::judge(const Standing &s, uint32_t number) const {
  Outs outs;
  const weir_result result = call(s, outs.is, number);
  TRY(Watch::after(entry));
  const std::string told = by_number ? words(" (", number, ")") : std::string();
  CHECK(want.holds(result), text(s), told, ": ", result_name(result), ", wanted ", want.text());
  CHECK(outs.untouched_still(), text(s), told, ": the refused call wrote its output");
  return {};
}

Outcome Refusal::make(const Standing &s) const {
  Outs outs;
  const weir_result result = call(s, outs.is, s.t.no_device());
  TRY(Watch::after(entry));
  CHECK(result < 0, text(s), ": ", result_name(result), ", wanted an error");
  return {};
}

const std::vector<Refusal> &refusals() {
  static const std::vector<Refusal> all = [] {
    std::vector<Refusal> rows;
    devices_and_memory(rows);
    streams_and_copies(rows);
    granules_and_ranges(rows);
    maps(rows);
    return rows;
  }();
  return all;
}

}  // namespace weir::conformance
