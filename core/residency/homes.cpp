// SPDX-License-Identifier: Apache-2.0
//
// Homes: the cost model of placement.hpp put to use for an engine's buffers: what a descriptor says of users, what each device has
// promised, and the choice. Under the pool's lock, but for place_together() and what is called at the start.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

/// The descriptor's list as positions in the pool.
Status Engine::read_users(const weir_buffer_desc &desc, Users *users) {
  if (desc.reserved != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u", desc.reserved);
  constexpr uint32_t most = 1024;
  if (desc.user_count > most || (desc.user_count != 0 && desc.users == nullptr))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "user_count is %u%s", desc.user_count,
                desc.users == nullptr ? ", and users is NULL" : ", more than 1024");
  for (uint32_t i = 0; i < desc.user_count; ++i) {
    uint8_t place = Users::cpu;
    if (desc.users[i] != WEIR_DEVICE_HOST && !place_of(desc.users[i], &place))
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "users[%u]: device %u is not of this pool", i,
                  desc.users[i]);
    ++users->times[place];
  }
  return {};
}

/// The model of the pool as it stands.
Placement Engine::placement(uint32_t leave_out) {
  std::pmr::vector<Placement::Place> places(&memory_);
  for (const auto &device : devices_) {
    places.push_back({.budget = device->memory.budget(),
                      .promise = device->promise,
                      .node = device->node,
                      .usable = device->open() && (leave_out & device->bit()) == 0});
  }
  return Placement(config_.routes, config_.nodes, numa::current_node(), std::move(places));
}

uint8_t Engine::choose_home(uint64_t bytes, const Users &users, uint32_t leave_out) {
  return placement(leave_out).choose({.bytes = bytes, .users = users});
}

uint32_t Engine::unfit_for(const weir_buffer_desc &desc) const noexcept {
  uint32_t unfit = 0;
  for (const auto &device : devices_) {
    const bool stable = (desc.flags & WEIR_BUFFER_STABLE_ADDRESS) == 0 || device->vmm();
    if (!stable || desc.alignment > device->memory.page_size()) unfit |= device->bit();
  }
  return unfit;
}

namespace {

Status fail_all_lost() noexcept {
  return fail(WEIR_ERROR_DEVICE_LOST,
              "home is WEIR_DEVICE_ANY, and every device of the pool is lost or leaving");
}

}  // namespace

/// The home that a descriptor names or leaves to Weir.
Status Engine::home_for(const weir_buffer_desc &desc, const Users &users, uint8_t *home) {
  if (desc.home != WEIR_DEVICE_ANY) return place_of(desc.home, home);
  *home = choose_home(desc.size, users, unfit_for(desc));
  // Then it is said of one of them what it lacks.
  if (*home == Placement::nowhere) *home = choose_home(desc.size, users, 0);
  return *home == Placement::nowhere ? fail_all_lost() : Status{};
}

Status Engine::place_together(const weir_buffer_desc *const *descs, size_t count,
                              weir_device *homes) {
  std::pmr::vector<Placement::Wish> wishes(count, &memory_);
  Locked lock(lock_);
  for (size_t i = 0; i < count; ++i) {
    const weir_buffer_desc &desc = *descs[i];
    WEIR_TRY(check_desc(desc));
    if (desc.shards != nullptr)
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "descs[%zu] has shards: it says itself where it is to be", i);
    Placement::Wish &wish = wishes[i];
    wish.bytes = desc.size;
    WEIR_TRY(read_users(desc, &wish.users));
    if (desc.home != WEIR_DEVICE_ANY)
      WEIR_TRY(place_of(desc.home, &wish.home));
    else
      wish.unfit = unfit_for(desc);
  }
  Placement model = placement(0);
  lock.unlocked([&] { model.choose_all(&wishes); });
  for (size_t i = 0; i < count; ++i) {
    if (wishes[i].home == Placement::nowhere && wishes[i].unfit != 0)
      return fail(WEIR_ERROR_NOT_SUPPORTED, "descs[%zu]: no device of the pool can be its home", i);
    if (wishes[i].home == Placement::nowhere) return fail_all_lost();
  }
  for (size_t i = 0; i < count; ++i) homes[i] = devices_[wishes[i].home]->device.id;
  return {};
}

/// A buffer at home on the place begins or ends.
void Engine::count_promise(uint32_t index, uint8_t home, uint64_t bytes, bool more) noexcept {
  const auto count = [&](uint8_t place, uint64_t there, const auto &...users) {
    Promise &promise = devices_[place]->promise;
    more ? promise.add(place, there, users...) : promise.remove(place, there, users...);
  };
  const Users *users = buffers_.users_of(index);
  if (users == nullptr && buffers_.tenant(index)) return count(home, bytes);
  const Region &region = *buffers_.target(index).region;
  const vm::Shards *shards = region.shards.get();
  if (shards == nullptr) return count(home, bytes, users != nullptr ? *users : Users{});
  for (uint32_t i = 0; i < shards->count(); ++i)
    count(shards->place(i), shards->bytes_on(region.shape, shards->place(i)));
}

// ---- near the devices ----

/// The NUMA node that all devices are at, or unknown.
uint32_t Engine::common_node() const noexcept {
  const uint32_t first = devices_.front()->node;
  const bool all = std::all_of(devices_.begin(), devices_.end(),
                               [first](const auto &device) { return device->node == first; });
  return all ? first : numa::unknown;
}

/// Says so where pages of an integrated device have nowhere else to go than HOST, by which nothing is won.
void Engine::warn_of_integrated() {
  if (cold_.any()) return;
  for (const auto &device : devices_) {
    const auto lends = [&](const auto &to) {
      return !config_.no_peer && !to->integrated && to->vmm() && device->vmm() &&
             config_.routes.direct(device->place, to->place);
    };
    if (!device->integrated || std::any_of(devices_.begin(), devices_.end(), lends)) continue;
    log_(WEIR_LOG_WARNING,
         "device %u has the host's memory, and its pool neither COMPRESSED nor STORAGE nor a "
         "neighbour: its pages go to HOST, which frees nothing",
         device->device.id);
    return;
  }
}

}  // namespace weir::residency
