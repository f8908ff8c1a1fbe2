// SPDX-License-Identifier: Apache-2.0
//
// The model's memory: cells of every kind come and go, and granules are mapped whole, in parts, in runs, for peers, in ranges
// of other devices, twice, and through imports. Each entry here may wait for work of any stream, so no gate is shut meanwhile;
// what ends is first waited for.
#include "conformance/model.hpp"

#include <algorithm>

namespace weir::conformance::model {
namespace {

constexpr uint64_t area_places = 16;
constexpr size_t most_stores = 28;
constexpr uint64_t system_page = 4096;

/// Borders where hazards are kept apart: odd ones, so that neighbours share pages.
void split(Store &store, uint64_t unit, Random &random) {
  const uint64_t bytes = store.bytes();
  if (unit != 0) {
    for (uint64_t at = 0; at < bytes; at += unit)
      store.spots.push_back({at, at + unit, false, {}, {}});
    return;
  }
  const uint64_t border = bytes > 2 ? 1 + random.below(bytes - 1) : bytes;
  store.spots.push_back({0, border, false, {}, {}});
  if (border < bytes) store.spots.push_back({border, bytes, false, {}, {}});
}

}  // namespace

bool Actor::maps_here(uint32_t device) const {
  const DeviceFacts &device_facts = facts(device);
  return device_facts.unit != 0 && (index_ == 0 || device_facts.has(WEIR_CAP_MAP_ANY_THREAD));
}

Outcome Actor::make_areas() {
  for (const DeviceFacts &device : common_.devices) {
    if (!maps_here(device.index)) continue;
    auto area = std::make_unique<Area>(t, device.index);
    area->unit = device.unit;
    // Others may map here too.
    for (const DeviceFacts &each : common_.devices)
      if (each.has(WEIR_CAP_SHARED_RANGE) && device.has(WEIR_CAP_SHARED_RANGE))
        area->unit = std::max(area->unit, each.unit);
    area->taken.resize(area_places);
    const uint64_t bytes = area_places * area->unit;
    if (!device.has_addresses(bytes * common_.threads * 2)) continue;
    TRY(area->range.reserve(bytes, area->unit));
    areas_.push_back(std::move(area));
  }
  return {};
}

Outcome Actor::allocate() {
  if (stores_.size() >= most_stores) return free_one();
  const uint64_t choice = below(8), draw = size(one_in(12) ? 2 * mib : 64 * kib);
  const uint32_t device = static_cast<uint32_t>(below(common_.devices.size()));
  if (one_in(24)) {
    // As much as is left, at most: of a device, or of the host.
    const bool host = one_in(3);
    const uint64_t left = budget_[host ? budget_.size() - 1 : device] / 2;
    if (left < 64 * kib) return {};
    const uint64_t most = left - below(left / 2);
    return host ? make_host(one_in(2), most) : make_plain(device, most);
  }
  if (choice < 2) return make_plain(device, draw);
  if (choice == 2) return make_host(false, draw);
  if (choice == 3) return make_host(true, draw);
  return make_granule();
}

Outcome Actor::make_plain(uint32_t device, uint64_t bytes) {
  const uint64_t alignment = uint64_t{1} << (one_in(6) ? below(22) : below(13));
  const uint64_t cost = std::max(bytes + alignment, 64 * kib);
  if (budget_[device] < cost) return {};
  auto store = std::make_unique<Store>();
  store->number = ++numbers_;
  store->device = device;
  store->holds.resize(bytes);
  split(*store, 0, random_);
  store->plain = std::make_unique<Plain>(t, device);
  say(words("cell ", store->number, ": ", bytes, " bytes of plain memory of device ", device),
      store.get());
  TRY(store->plain->allocate(bytes, alignment));
  CHECK(store->plain->address() % alignment == 0, "plain memory with an alignment of ", alignment,
        " is at ", store->plain->address());
  budget_[device] -= cost;
  auto window = std::make_unique<Window>();
  window->store = store.get();
  window->bytes = bytes;
  window->address = store->plain->address();
  window->seen_by.resize(common_.devices.size());
  for (size_t i = 0; i < window->seen_by.size(); ++i)
    window->seen_by[i] = i == device || common_.reach[device][i];
  stores_.push_back(std::move(store));
  return add_window(std::move(window), {});
}

Outcome Actor::make_host(bool registered, uint64_t bytes) {
  registered = registered && t.has(WEIR_CAP_HOST_REGISTER);
  if (registered) bytes = (bytes + system_page - 1) / system_page * system_page;
  if (budget_.back() < bytes) return {};
  auto store = std::make_unique<Store>();
  store->number = ++numbers_;
  store->sort = registered ? Sort::registered : Sort::pinned;
  store->holds.resize(bytes);
  split(*store, 0, random_);
  say(words("cell ", store->number, ": ", bytes, " bytes of ", registered ? "registered" : "pinned",
            " memory"),
      store.get());
  auto window = std::make_unique<Window>();
  std::span<std::byte> memory;
  if (registered) {
    store->pages = std::make_unique<Pages>(bytes);
    CHECK(store->pages->any(), "the system has no memory");
    store->registered = std::make_unique<Registered>(t);
    TRY(store->registered->begin(store->pages->get(), bytes));
    window->address = store->pages->address();
    memory = store->pages->bytes();
  } else {
    store->pinned = std::make_unique<Pinned>(t);
    TRY(store->pinned->allocate(bytes));
    window->address = store->pinned->address();
    memory = store->pinned->bytes();
  }
  budget_.back() -= bytes;
  const uint64_t seed = below(1000);
  make_pattern(memory, seed);
  make_pattern(store->holds, seed);
  for (Spot &spot : store->spots) spot.known = true;
  window->store = store.get();
  window->bytes = bytes;
  window->seen_by.assign(common_.devices.size(), true);
  stores_.push_back(std::move(store));
  windows_.push_back(std::move(window));
  return {};
}

Outcome Actor::make_granule() {
  const uint32_t device = static_cast<uint32_t>(below(common_.devices.size()));
  const uint64_t units = 1 + below(one_in(4) ? 4 : 2);
  uint64_t leaves = 0;
  if (one_in(2) && facts(device).has(WEIR_CAP_EXPORT_FD)) leaves |= WEIR_BE_GRANULE_EXPORT_FD;
  if (one_in(4) && facts(device).has(WEIR_CAP_EXPORT_FABRIC))
    leaves |= WEIR_BE_GRANULE_EXPORT_FABRIC;
  if (!maps_here(device) || budget_[device] < units * facts(device).unit) return {};
  auto store = std::make_unique<Store>();
  store->number = ++numbers_;
  store->sort = Sort::granule;
  store->device = device;
  store->leaves = leaves;
  store->holds.resize(units * facts(device).unit);
  split(*store, facts(device).unit, random_);
  store->handles.push_back(std::make_unique<Granule>(t, device));
  say(words("cell ", store->number, ": a granule of ", units, " units of device ", device,
            leaves != 0 ? ", to be exported" : ""),
      store.get());
  TRY(store->handles[0]->create(store->bytes(), leaves));
  budget_[device] -= store->bytes();
  stores_.push_back(std::move(store));
  return map_one(stores_.back().get());
}

Outcome Actor::free_one() {
  if (stores_.empty()) return {};
  return free_store(stores_[below(stores_.size())].get());
}

Outcome Actor::free_store(Store *store) {
  say(words("cell ", store->number, " is freed"), store);
  guilty_ = store;
  TRY(settle(*store, 0, store->bytes()));
  for (size_t i = windows_.size(); i-- > 0;) {
    Window *window = windows_[i].get();
    if (window->store == store && window->area != nullptr) TRY(unmap(window));
  }
  std::erase_if(windows_, [&](const std::unique_ptr<Window> &w) { return w->store == store; });
  if (store->plain) TRY(store->plain->free());
  if (store->pinned) TRY(store->pinned->free());
  if (store->registered) TRY(store->registered->end());
  while (!store->handles.empty()) {
    const size_t which = below(store->handles.size());
    TRY(store->handles[which]->destroy());
    store->handles.erase(store->handles.begin() + static_cast<std::ptrdiff_t>(which));
  }
  // What it cost is not known to the last byte for plain memory: the rest stays taken until the end of the round.
  budget_[store->of_host() ? budget_.size() - 1 : store->device] +=
      store->sort == Sort::plain ? std::max(store->bytes(), 64 * kib) : store->bytes();
  guilty_ = nullptr;
  std::erase_if(stores_, [&](const std::unique_ptr<Store> &s) { return s.get() == store; });
  return {};
}

// ---- mapping

bool Actor::may_map(const Store &store) const {
  if (store.sort != Sort::granule || !maps_here(store.device)) return false;
  return store.maps == 0 || facts(store.device).has(WEIR_CAP_MULTI_MAP);
}

bool Actor::choose_part(uint32_t device, Window *window) {
  std::vector<Store *> good;
  for (const auto &store : stores_)
    if (store->device == device && may_map(*store)) good.push_back(store.get());
  if (good.empty()) return false;
  Store &store = *good[below(good.size())];
  const uint64_t unit = facts(device).unit, units = store.bytes() / unit;
  window->store = &store;
  window->offset = 0;
  window->bytes = store.bytes();
  if (facts(device).has(WEIR_CAP_MAP_PART) && one_in(3)) {
    const uint64_t first = below(units);
    window->offset = first * unit;
    window->bytes = (1 + below(units - first)) * unit;
  }
  return true;
}

bool Actor::find_place(uint32_t device, uint64_t bytes, Window *window) {
  std::vector<Area *> good;
  for (const auto &area : areas_) {
    const bool shared = facts(device).has(WEIR_CAP_SHARED_RANGE) &&
                        facts(area->device).has(WEIR_CAP_SHARED_RANGE) &&
                        common_.reach[device][area->device];
    if (area->device == device || shared) good.push_back(area.get());
  }
  if (good.empty()) return false;
  Area &area = *good[below(good.size())];
  const uint64_t places = (bytes + area.unit - 1) / area.unit, from = below(area_places);
  for (uint64_t i = 0; i < area_places; ++i) {
    const uint64_t place = (from + i) % area_places;
    if (place + places > area_places) continue;
    const auto begin = area.taken.begin() + static_cast<std::ptrdiff_t>(place);
    if (std::find(begin, begin + static_cast<std::ptrdiff_t>(places), true) !=
        begin + static_cast<std::ptrdiff_t>(places))
      continue;
    window->area = &area;
    window->place = place;
    window->places = places;
    window->address = area.range.address() + place * area.unit;
    return true;
  }
  return false;
}

std::vector<uint32_t> Actor::choose_peers(uint32_t device) {
  std::vector<uint32_t> peers;
  for (uint32_t i = 0; i < common_.devices.size(); ++i)
    if (i != device && common_.reach[device][i] && facts(i).unit != 0 && one_in(2))
      peers.push_back(i);
  return peers;
}

/// Keeps the window that was mapped, and fills what was never written.
Outcome Actor::add_window(std::unique_ptr<Window> window, const std::vector<uint32_t> &peers) {
  Window &kept = *window;
  if (kept.area != nullptr) {
    kept.seen_by.assign(common_.devices.size(), false);
    kept.seen_by[kept.store->device] = true;
    for (const uint32_t peer : peers) kept.seen_by[peer] = true;
    std::fill_n(kept.area->taken.begin() + static_cast<std::ptrdiff_t>(kept.place), kept.places,
                true);
    ++kept.store->maps;
  }
  windows_.push_back(std::move(window));
  for (const Spot &spot : kept.store->spots) {
    if (spot.known || spot.begin < kept.offset || spot.end > kept.offset + kept.bytes) continue;
    std::vector<Lane *> own;
    for (const auto &lane : lanes_)
      if (lane->device == kept.store->device) own.push_back(lane.get());
    CHECK(!own.empty(), "the model has no lane of device ", kept.store->device);
    Lane &lane = *own[below(own.size())];
    TRY(fill(lane, {&kept, spot.begin - kept.offset, spot.end - spot.begin},
             static_cast<uint8_t>(below(256))));
  }
  return {};
}

Outcome Actor::map_one(Store *store) {
  auto window = std::make_unique<Window>();
  const uint32_t device =
      store != nullptr ? store->device : static_cast<uint32_t>(below(common_.devices.size()));
  if (!maps_here(device)) return {};
  if (store == nullptr) {
    if (!choose_part(device, window.get())) return {};
  } else {
    window->store = store;
    window->bytes = store->bytes();
  }
  if (!find_place(device, window->bytes, window.get())) return {};
  const std::vector<uint32_t> peers = choose_peers(device);
  const auto &handles = window->store->handles;
  const Granule &granule = *handles[below(handles.size())];
  say(words("cell ", window->store->number, " [", window->offset, ", ",
            window->offset + window->bytes, ") is mapped at ", window->address, ", ",
            uint64_t{peers.size()}, " peers, in the range of device ", window->area->device),
      window->store);
  MUST(map, device, window->address, window->bytes, granule.get(), window->offset,
       peers.empty() ? nullptr : peers.data(), static_cast<uint32_t>(peers.size()));
  return add_window(std::move(window), peers);
}

Outcome Actor::map_run() {
  const uint32_t device = static_cast<uint32_t>(below(common_.devices.size()));
  const uint64_t count = 1 + below(5);
  if (!maps_here(device) || !facts(device).has(WEIR_CAP_MAP_RUN)) return {};
  std::vector<std::unique_ptr<Window>> run;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto window = std::make_unique<Window>();
    if (!choose_part(device, window.get())) return {};
    const bool again = std::any_of(run.begin(), run.end(),
                                   [&](const auto &each) { return each->store == window->store; });
    if (again && !facts(device).has(WEIR_CAP_MULTI_MAP)) continue;
    bytes += window->bytes;
    run.push_back(std::move(window));
  }
  Window whole;
  if (!find_place(device, bytes, &whole) || whole.area->unit != facts(device).unit) return {};
  const std::vector<uint32_t> peers = choose_peers(device);
  std::vector<weir_be_piece> pieces;
  uint64_t address = whole.address;
  for (const auto &window : run) {
    window->area = whole.area;
    window->address = address;
    window->place = (address - whole.area->range.address()) / whole.area->unit;
    window->places = window->bytes / whole.area->unit;
    address += window->bytes;
    const auto &handles = window->store->handles;
    pieces.push_back({handles[below(handles.size())]->get(), window->offset, window->bytes});
    say(words("cell ", window->store->number, " [", window->offset, ", ",
              window->offset + window->bytes, ") is mapped in a run at ", window->address),
        window->store);
  }
  MUST(map_run, device, whole.address, pieces.data(), static_cast<uint32_t>(pieces.size()),
       peers.empty() ? nullptr : peers.data(), static_cast<uint32_t>(peers.size()));
  for (auto &window : run) TRY(add_window(std::move(window), peers));
  return {};
}

void Actor::forget(const Window *window) {
  std::fill_n(window->area->taken.begin() + static_cast<std::ptrdiff_t>(window->place),
              window->places, false);
  --window->store->maps;
  std::erase_if(windows_,
                [&](const std::unique_ptr<Window> &each) { return each.get() == window; });
}

Outcome Actor::unmap(Window *window) {
  Store &store = *window->store;
  say(words("cell ", store.number, " is unmapped at ", window->address), &store);
  TRY(settle(store, window->offset, window->offset + window->bytes));
  MUST(unmap, store.device, window->address, window->bytes);
  forget(window);
  return {};
}

Outcome Actor::unmap_one() {
  std::vector<Window *> mapped;
  for (const auto &window : windows_)
    if (window->area != nullptr) mapped.push_back(window.get());
  if (mapped.empty()) return {};
  return unmap(mapped[below(mapped.size())]);
}

/// The window and those of its device that follow it without a gap.
std::vector<Window *> Actor::neighbours(Window *first) {
  std::vector<Window *> row{first};
  const uint64_t most = 1 + below(5);
  while (row.size() < most) {
    const Window &last = *row.back();
    const auto next = std::find_if(windows_.begin(), windows_.end(), [&](const auto &each) {
      return each->area == last.area && each->address == last.address + last.bytes &&
             each->store->device == first->store->device;
    });
    if (next == windows_.end()) break;
    row.push_back(next->get());
  }
  return row;
}

Outcome Actor::unmap_run() {
  std::vector<Window *> mapped;
  for (const auto &window : windows_)
    if (window->area != nullptr && facts(window->store->device).has(WEIR_CAP_MAP_RUN))
      mapped.push_back(window.get());
  if (mapped.empty()) return {};
  const std::vector<Window *> row = neighbours(mapped[below(mapped.size())]);
  const Window &first = *row.front(), &last = *row.back();
  for (const Window *window : row) {
    say(words("cell ", window->store->number, " is unmapped in a run at ", window->address),
        window->store);
    TRY(settle(*window->store, window->offset, window->offset + window->bytes));
  }
  MUST(unmap_run, first.store->device, first.address, last.address + last.bytes - first.address);
  for (const Window *window : row) forget(window);
  return {};
}

Outcome Actor::access_add() {
  std::vector<Window *> mapped;
  for (const auto &window : windows_)
    if (window->area != nullptr && facts(window->store->device).has(WEIR_CAP_ACCESS_LATER))
      mapped.push_back(window.get());
  if (mapped.empty()) return {};
  const std::vector<Window *> row = neighbours(mapped[below(mapped.size())]);
  const Window &first = *row.front(), &last = *row.back();
  const std::vector<uint32_t> peers = choose_peers(first.store->device);
  if (peers.empty()) return {};
  for (const Window *window : row)
    say(words("cell ", window->store->number, ": access for ", uint64_t{peers.size()}, " peers at ",
              window->address),
        window->store);
  MUST(access_add, first.store->device, first.address, last.address + last.bytes - first.address,
       peers.data(), static_cast<uint32_t>(peers.size()));
  for (Window *window : row)
    for (const uint32_t peer : peers) window->seen_by[peer] = true;
  return {};
}

Outcome Actor::export_import() {
  std::vector<Store *> leaving;
  for (const auto &store : stores_)
    if (store->leaves != 0 && store->handles.size() < 4) leaving.push_back(store.get());
  if (leaving.empty()) return {};
  Store &store = *leaving[below(leaving.size())];
  // Not all runtimes export what was imported.
  const weir_be_granule first = store.handles[0]->get();
  const bool both = store.leaves == (WEIR_BE_GRANULE_EXPORT_FD | WEIR_BE_GRANULE_EXPORT_FABRIC);
  auto imported = std::make_unique<Granule>(t, store.device);
  if (store.leaves == WEIR_BE_GRANULE_EXPORT_FABRIC || (both && one_in(2))) {
    weir_be_fabric_handle handle{};
    weir_be_granule made = 0;
    say(words("cell ", store.number, " is exported to the fabric and imported"), &store);
    MUST(granule_export_fabric, store.device, first, &handle);
    MUST(granule_import_fabric, store.device, &handle, store.bytes(), &made);
    imported->adopt(made);
  } else {
    int32_t fd = -1;
    say(words("cell ", store.number, " is exported and imported"), &store);
    MUST(granule_export, store.device, first, &fd);
    const Descriptor closes(fd);
    TRY(imported->import(fd, store.bytes()));
  }
  // Either may end first, so the order is the draw's; but only the first can be exported again.
  store.handles.push_back(std::move(imported));
  return {};
}

/// Addresses come and go beside all else.
Outcome Actor::reserve() {
  const DeviceFacts &device = facts(static_cast<uint32_t>(below(common_.devices.size())));
  const uint64_t units = 1 + below(one_in(4) ? 512 : 16);
  if (device.unit == 0) return {};
  const uint64_t most = one_in(3) ? 0 : 4;
  if (device.has_addresses(16 * units * device.unit * common_.threads)) {
    auto range = std::make_unique<Range>(t, device.index);
    say(words(units, " units of addresses of device ", device.index));
    TRY(range->reserve(units * device.unit, device.unit << below(4)));
    ranges_.push_back(std::move(range));
  }
  while (ranges_.size() > most) {
    TRY(ranges_.front()->free());
    ranges_.pop_front();
  }
  return {};
}

}  // namespace weir::conformance::model
