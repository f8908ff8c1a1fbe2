// SPDX-License-Identifier: Apache-2.0
//
// The homes of buffers.

#include "core/acquire/homes.hpp"

#include "core/base/descriptor.hpp"

#include <algorithm>

namespace weir::acquire {

Status Homes::check_desc(const weir_buffer_desc &desc) {
  constexpr uint64_t lossy = WEIR_BUFFER_LOSSY_BF16 | WEIR_BUFFER_LOSSY_F16;
  constexpr uint64_t known = WEIR_BUFFER_STABLE_ADDRESS | WEIR_BUFFER_SCRUB | lossy;
  WEIR_TRY(check_flags(desc.flags, known));
  if ((desc.flags & lossy) == lossy)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags: LOSSY_BF16 and LOSSY_F16 exclude each other");
  if ((desc.flags & lossy) != 0 && desc.element != WEIR_ELEMENT_F32)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "flags: LOSSY_* is for elements of WEIR_ELEMENT_F32 (%d); element is %u",
                WEIR_ELEMENT_F32, desc.element);
  WEIR_TRY(page::Sizes::check_size(desc.size));
  if ((desc.alignment & (desc.alignment - 1)) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "alignment %llu is not a power of two",
                llu(desc.alignment));
  if (desc.priority < WEIR_PRIORITY_LOWEST || desc.priority > WEIR_PRIORITY_HIGHEST)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "priority is %d, not %d..%d", desc.priority,
                WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  if (desc.element >= codec::form_count)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "element is %u, no WEIR_ELEMENT_*", desc.element);
  return {};
}

Status Homes::read_users(const weir_buffer_desc &desc, page::Users *users) const {
  if (desc.reserved != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u", desc.reserved);
  constexpr uint32_t most = 1024;
  if (desc.user_count > most || (desc.user_count != 0 && desc.users == nullptr))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "user_count is %u%s", desc.user_count,
                desc.users == nullptr ? ", and users is NULL" : ", more than 1024");
  for (uint32_t i = 0; i < desc.user_count; ++i) {
    uint8_t place = page::Users::cpu;
    if (desc.users[i] != WEIR_DEVICE_HOST && !find_place(page_.devices, desc.users[i], &place))
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "users[%u]: device %u is not of this pool", i,
                  desc.users[i]);
    ++users->times[place];
  }
  return {};
}

page::Placement Homes::placement(uint32_t leave_out) const {
  std::pmr::vector<page::Placement::Place> places(env_.memory);
  for (const auto &device : page_.devices) {
    places.push_back({.budget = device->memory.budget(),
                      .promise = device->promise,
                      .node = device->node,
                      .usable = device->open() && (leave_out & device->bit()) == 0});
  }
  return page::Placement(env_.config.routes, env_.config.nodes, numa::current_node(),
                         std::move(places));
}

uint8_t Homes::choose(uint64_t bytes, const page::Users &users, uint32_t leave_out) {
  return placement(leave_out).choose({.bytes = bytes, .users = users});
}

uint32_t Homes::unfit_for(const weir_buffer_desc &desc) const noexcept {
  uint32_t unfit = 0;
  for (const auto &device : page_.devices) {
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

Status Homes::home_for(const weir_buffer_desc &desc, const page::Users &users, uint8_t *home) {
  if (desc.home != WEIR_DEVICE_ANY) return find_place(page_.devices, desc.home, home);
  *home = choose(desc.size, users, unfit_for(desc));
  // Then it is said of one of them what it lacks.
  if (*home == page::Placement::nowhere) *home = choose(desc.size, users, 0);
  return *home == page::Placement::nowhere ? fail_all_lost() : Status{};
}

Status Homes::place_together(const weir_buffer_desc *const *descs, size_t count,
                             weir_device *homes) {
  std::pmr::vector<page::Placement::Wish> wishes(count, env_.memory);
  Locked lock(env_.sync.lock);
  for (size_t i = 0; i < count; ++i) {
    const weir_buffer_desc &desc = *descs[i];
    WEIR_TRY(check_desc(desc));
    if (desc.shards != nullptr)
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "descs[%zu] has shards: it says itself where it is to be", i);
    page::Placement::Wish &wish = wishes[i];
    wish.bytes = desc.size;
    WEIR_TRY(read_users(desc, &wish.users));
    if (desc.home != WEIR_DEVICE_ANY)
      WEIR_TRY(find_place(page_.devices, desc.home, &wish.home));
    else
      wish.unfit = unfit_for(desc);
  }
  page::Placement model = placement(0);
  lock.unlocked([&] { model.choose_all(&wishes); });
  for (size_t i = 0; i < count; ++i) {
    if (wishes[i].home == page::Placement::nowhere && wishes[i].unfit != 0)
      return fail(WEIR_ERROR_NOT_SUPPORTED, "descs[%zu]: no device of the pool can be its home", i);
    if (wishes[i].home == page::Placement::nowhere) return fail_all_lost();
  }
  for (size_t i = 0; i < count; ++i) homes[i] = page_.devices[wishes[i].home]->device.id;
  return {};
}

void Homes::count_promise(uint32_t index, uint8_t home, uint64_t bytes, bool more) noexcept {
  const auto count = [&](uint8_t place, uint64_t there, const auto &...users) {
    page::Promise &promise = page_.devices[place]->promise;
    more ? promise.add(place, there, users...) : promise.remove(place, there, users...);
  };
  const page::Users *users = page_.buffers.users_of(index);
  if (users == nullptr && page_.buffers.tenant(index)) return count(home, bytes);
  const Region &region = *page_.buffers.target(index).region;
  const page::Shards *shards = region.shards.get();
  if (shards == nullptr) return count(home, bytes, users != nullptr ? *users : page::Users{});
  for (uint32_t i = 0; i < shards->count(); ++i)
    count(shards->place(i), shards->bytes_on(region.shape, shards->place(i)));
}

// ---- near the devices ----

uint32_t Homes::common_node() const noexcept {
  const uint32_t first = page_.devices.front()->node;
  const bool all = std::all_of(page_.devices.begin(), page_.devices.end(),
                               [first](const auto &device) { return device->node == first; });
  return all ? first : numa::unknown;
}

void Homes::warn_of_integrated() const {
  if (page_.cold.any()) return;
  for (const auto &device : page_.devices) {
    const auto lends = [&](const auto &to) {
      return !env_.config.no_peer && !to->integrated && to->vmm() && device->vmm() &&
             env_.config.routes.direct(device->place, to->place);
    };
    if (!device->integrated || std::any_of(page_.devices.begin(), page_.devices.end(), lends))
      continue;
    log_(WEIR_LOG_WARNING,
         "device %u has the host's memory, and its pool neither COMPRESSED nor STORAGE nor a "
         "neighbour: its pages go to HOST, which frees nothing",
         device->device.id);
    return;
  }
}

namespace {

Status check_layout(const weir_shard_desc &desc, uint64_t page) {
  if (desc.reserved != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: reserved is %u", desc.reserved);
  if (desc.policy != WEIR_SHARD_STRIPED && desc.policy != WEIR_SHARD_BLOCKED)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: policy is %u", desc.policy);
  if (desc.device_count == 0 || desc.device_count > page::Shards::most_places ||
      desc.devices == nullptr) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: device_count is %u%s", desc.device_count,
                desc.devices == nullptr ? ", and devices is NULL" : ", not 1 to 28");
  }
  if (desc.policy == WEIR_SHARD_BLOCKED && desc.stripe != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: stripe is %llu, and blocks have none",
                llu(desc.stripe));
  if (desc.stripe % page != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "shards: stripe %llu is no multiple of the page size %llu", llu(desc.stripe),
                llu(page));
  for (uint32_t i = 0; desc.weights != nullptr && i < desc.device_count; ++i) {
    if (desc.weights[i] == 0 || desc.weights[i] > page::Shards::most_weight)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: weights[%u] is %u, not 1 to %u", i,
                  desc.weights[i], page::Shards::most_weight);
  }
  return {};
}

}  // namespace

Status Homes::read_shards(const weir_buffer_desc &desc, page::ShardWish *wish) const {
  weir_shard_desc given = WEIR_SHARD_DESC_INIT;
  WEIR_TRY(read_descriptor(desc.shards, "desc.shards", &given));
  WEIR_TRY(check_layout(given, env_.config.memory.page_size));
  if (desc.user_count != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "user_count is %u: where a sharded buffer lies is said by its shards",
                desc.user_count);
  Owned<page::Shards> shards = make_owned<page::Shards>(env_.memory, env_.memory);
  for (uint32_t i = 0; i < given.device_count; ++i) {
    uint8_t place = 0;
    WEIR_TRY(find_place(page_.devices, given.devices[i], &place));
    const PoolDevice &device = *page_.devices[place];
    if (shards->has(place))
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: devices[%u] is device %u once more", i,
                  device.device.id);
    if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
    if (!device.open())
      return fail(WEIR_ERROR_DEVICE_REMOVED, "device %u is leaving the pool", device.device.id);
    shards->add(place, given.weights != nullptr ? given.weights[i] : 1);
  }
  wish->home = shards->place(0);
  const bool named = desc.home != WEIR_DEVICE_DEFAULT && desc.home != WEIR_DEVICE_ANY;
  if (named && desc.home != page_.devices[wish->home]->device.id)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "home is device %u, and the first of the shards' devices %u", desc.home,
                page_.devices[wish->home]->device.id);
  if (shards->count() == 1) return {};
  WEIR_TRY(check_shard_links(*shards));
  wish->policy = given.policy;
  wish->stripe = given.stripe;
  wish->shards = std::move(shards);
  return {};
}

Status Homes::check_shard_links(const page::Shards &shards) const {
  for (uint32_t i = 0; i < shards.count(); ++i) {
    const PoolDevice &device = *page_.devices[shards.place(i)];
    if (!device.vmm() || !device.device.has(WEIR_CAP_SHARED_RANGE))
      return fail(WEIR_ERROR_NOT_SUPPORTED,
                  "shards: device %u has no address ranges that several devices share "
                  "(WEIR_CAP_SHARED_RANGE)",
                  device.device.id);
    for (uint32_t j = 0; j < shards.count(); ++j) {
      const PoolDevice &other = *page_.devices[shards.place(j)];
      if (i == j || env_.config.routes.direct(other.place, device.place)) continue;
      return fail(WEIR_ERROR_NOT_SUPPORTED, "shards: device %u does not reach device %u directly",
                  device.device.id, other.device.id);
    }
  }
  return {};
}

}  // namespace weir::acquire
