// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/pool.hpp - weir::pool, budgets over devices and tiers, and weir::client, to which bytes are charged. A pool ends with
// the last of its handle and of the buffers, clients, allocations and resources made of it; pool::destroy ends it at once, with
// its buffers. Leases keep nothing alive: a pool or stream whose last handle goes before a lease is left behind and told.
#ifndef WEIR_CPP_POOL_HPP
#define WEIR_CPP_POOL_HPP

#include <weir/cpp/context.hpp>

#include <vector>

WEIR_CPP_BEGIN

class buffer;
class lease;
class operation;
class stream;
class use_list;

/** @{ What calls fill in: the C structs under the names that the rest has here. */
using client_stats = weir_client_stats;
using codec_stats = weir_codec_stats;
using defragment_report = weir_defragment_report;
using lost_range = weir_lost_range;
using piece = weir_piece;
using pool_device_stats = weir_pool_device_stats;
using pool_stats = weir_pool_stats;
/** @} */

namespace detail {

/// A list that a function writes as far as there is room: `write(items, capacity, &count)`. It may grow between two calls.
template <class Item, class Write>
returned<std::vector<Item>> list_of(Write write) {
  std::vector<Item> items;
  for (size_t count = 0;; items.resize(count)) {
    const weir_result code = write(items.data(), items.size(), &count);
    if (code < 0) return fail_last<std::vector<Item>>(code);
    if (count > items.size()) continue;
    items.resize(count);
    return returned<std::vector<Item>>(std::move(items));
  }
}

/// What pool::run returns for a function that returns Value: a result in a result is one result.
template <class Value>
struct run_of {
  using value = Value;
  using type = returned<Value>;
};
#if !WEIR_CPP_EXCEPTIONS
template <class Value>
struct run_of<result<Value>> {
  using value = Value;
  using type = result<Value>;
};
#endif
template <class Function>
using value_of = std::decay_t<std::invoke_result_t<Function, const lease &>>;

}  // namespace detail

/// weir_pool. Moved, not copied; empty when moved from.
class pool {
 public:
  pool() noexcept = default;
  pool(const pool &) = delete;
  pool(pool &&) noexcept = default;
  pool &operator=(const pool &) = delete;
  pool &operator=(pool &&) noexcept = default;

  /// weir_pool_create.
  static returned<pool> create(const context &of, const pool_desc &desc) {
    const c_struct<pool_desc> c(desc);
    weir_pool made = nullptr;
    const weir_result code = weir_pool_create(of.get(), c.get(), &made);
    if (code < 0) return detail::fail_last<pool>(code);
    return from(of, made, ownership::adopted);
  }
  /** @{ Of a C handle, which is ended with this one, or is its lender's. */
  static returned<pool> adopt(const context &of, weir_pool handle) {
    return from(of, handle, ownership::adopted);
  }
  static returned<pool> borrow(const context &of, weir_pool handle) {
    return from(of, handle, ownership::borrowed);
  }
  /** @} */

  weir_pool get() const noexcept { return ref_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  /// weir_pool_destroy now, with its buffers and clients: their handles are empty from then on. BUSY while leases or
  /// allocations are out; nothing is changed then. No other thread may use what was made of the pool meanwhile.
  returned<void> destroy() {
    if (!ref_) return detail::fail_empty<void>();
    return detail::done(ref_.end());
  }
  /// Gives the C handle away; what was made of the pool goes on.
  weir_pool detach() noexcept { return ref_.detach(); }

  /** @{ lease.hpp: weir_acquire, and what goes with it. */

  /// weir_acquire.
  returned<lease> acquire(const stream &on, const use_list &uses,
                          const acquire_options &options = {}) const;
  /// The same, with a result where others throw too: for WOULD_BLOCK, TIMEOUT and what else is an answer to the caller.
  result<lease> try_acquire(const stream &on, const use_list &uses,
                            const acquire_options &options = {}) const;
  /// Acquires, calls function(const lease &), and releases on the same stream, however the function ends. Returns what it
  /// returns. What `function` enqueues on the stream is what the lease protects; nothing is waited for. An error of the release
  /// is told where the function gave none.
  template <class Function>
  typename detail::run_of<detail::value_of<Function>>::type run(
      const stream &on, const use_list &uses, Function &&function,
      const acquire_options &options = {}) const;
  /// weir_prefetch.
  returned<void> prefetch(const stream &on, const use_list &uses) const;
  /// weir_operation_id; the number.
  returned<uint32_t> operation_id(const char *name) const {
    uint32_t id = 0;
    const weir_result code = weir_operation_id(get(), name, &id);
    return detail::done(code, uint32_t{id});
  }
  /// weir_announce.
  returned<void> announce(const stream &on, const std::vector<operation> &operations,
                          uint64_t flags = 0) const;
  /** @} */

  /// weir_pool_add_device.
  returned<void> add_device(const pool_device &device) const {
    const weir_pool_device c = device;
    return detail::done(weir_pool_add_device(get(), &c));
  }
  /// weir_pool_remove_device.
  returned<void> remove_device(weir_device device, uint64_t timeout_ns) const {
    return detail::done(weir_pool_remove_device(get(), device, timeout_ns));
  }
  /// weir_pool_cancel_remove.
  returned<void> cancel_remove(weir_device device) const {
    return detail::done(weir_pool_cancel_remove(get(), device));
  }
  /// weir_pool_rebalance; the bytes moved.
  returned<uint64_t> rebalance(uint64_t bytes) const {
    uint64_t moved = 0;
    const weir_result code = weir_pool_rebalance(get(), bytes, &moved);
    return detail::done(code, uint64_t{moved});
  }
  /// weir_pool_trim; the bytes freed.
  returned<uint64_t> trim(weir_device device, uint32_t level, uint64_t bytes = WEIR_WHOLE) const {
    uint64_t freed = 0;
    const weir_result code = weir_pool_trim(get(), device, level, bytes, &freed);
    return detail::done(code, uint64_t{freed});
  }
  /// weir_pool_defragment.
  returned<defragment_report> defragment(const defragment_desc &desc = {}) const {
    const weir_defragment_desc c = desc;
    defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
    const weir_result code = weir_pool_defragment(get(), &c, &report);
    return detail::done(code, std::move(report));
  }
  /// weir_pool_set_defragmentation.
  returned<void> set_defragmentation(const defragmentation_desc &desc) const {
    const weir_defragmentation_desc c = desc;
    return detail::done(weir_pool_set_defragmentation(get(), &c));
  }
  /// weir_pool_set_loss_callback; `user` must live until the next such call or the pool's end.
  returned<void> set_loss_callback(weir_loss_callback callback, void *user) const {
    return detail::done(weir_pool_set_loss_callback(get(), callback, user));
  }

  /// weir_pool_policy_save, whole.
  returned<std::vector<unsigned char>> policy_save() const {
    std::vector<unsigned char> bytes;
    for (uint64_t needed = 0;; bytes.resize(needed + needed / 8)) {
      needed = 0;
      const weir_result code = weir_pool_policy_save(get(), bytes.data(), bytes.size(), &needed);
      if (needed > bytes.size()) continue;
      if (code < 0) return detail::fail_last<std::vector<unsigned char>>(code);
      bytes.resize(needed);
      return returned<std::vector<unsigned char>>(std::move(bytes));
    }
  }
  /// weir_pool_policy_load.
  returned<void> policy_load(const void *bytes, uint64_t size) const {
    return detail::done(weir_pool_policy_load(get(), bytes, size));
  }

  /// weir_pool_stats_get.
  returned<pool_stats> stats() const {
    pool_stats stats = WEIR_POOL_STATS_INIT;
    const weir_result code = weir_pool_stats_get(get(), &stats);
    return detail::done(code, std::move(stats));
  }
  /// weir_pool_device_stats_get.
  returned<pool_device_stats> device_stats(weir_device device = WEIR_DEVICE_DEFAULT) const {
    pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    const weir_result code = weir_pool_device_stats_get(get(), device, &stats);
    return detail::done(code, std::move(stats));
  }
  /// weir_pool_codec_stats_get.
  returned<weir::codec_stats> codec_stats() const {
    weir::codec_stats stats = WEIR_CODEC_STATS_INIT;
    const weir_result code = weir_pool_codec_stats_get(get(), &stats);
    return detail::done(code, std::move(stats));
  }
  /// weir_pool_reset_peak.
  returned<void> reset_peak(weir_device device = WEIR_DEVICE_DEFAULT) const {
    return detail::done(weir_pool_reset_peak(get(), device));
  }
  /// weir_pool_lost_ranges, all of them.
  returned<std::vector<lost_range>> lost_ranges() const {
    return detail::list_of<lost_range>([&](lost_range *ranges, size_t capacity, size_t *count) {
      return weir_pool_lost_ranges(get(), ranges, capacity, count);
    });
  }
  /// weir_pool_map, all of it.
  returned<std::vector<piece>> map() const {
    return detail::list_of<piece>([&](piece *pieces, size_t capacity, size_t *count) {
      return weir_pool_map(get(), pieces, capacity, count);
    });
  }
  /// weir_pool_snapshot, whole: JSON.
  returned<std::string> snapshot() const {
    return detail::text_of([&](char *text, size_t capacity, size_t *needed) {
      return weir_pool_snapshot(get(), text, capacity, needed);
    });
  }

 private:
  friend class buffer;
  friend class client;
  friend class device_allocator;
  friend class host_resource;

  explicit pool(detail::ref<detail::pool_kind> made) noexcept : ref_(std::move(made)) {}
  static returned<pool> from(const context &of, weir_pool handle, ownership whose) {
    auto made = detail::ref<detail::pool_kind>::make(handle, of.ref_, whose);
    if (!made) return detail::fail_made<pool>(handle);
    return returned<pool>(pool(std::move(made)));
  }

  /// An answer of acquire_into that no function of the library gives: the error is not its last one.
  static constexpr weir_result no_room_for_uses = INT32_MIN;
  /// weir_acquire, into an empty lease.
  weir_result acquire_into(lease &taken, const stream &on, const use_list &uses,
                           const acquire_options &options) const noexcept;
  static error why_not_acquired(weir_result code);

  detail::ref<detail::pool_kind> ref_;
};

/// weir_client. It ends with the last of its handle and of its buffers. Moved, not copied; empty when moved from.
class client {
 public:
  client() noexcept = default;
  client(const client &) = delete;
  client(client &&) noexcept = default;
  client &operator=(const client &) = delete;
  client &operator=(client &&) noexcept = default;

  /// weir_client_create.
  static returned<client> create(const pool &of, const client_desc &desc = {}) {
    const weir_client_desc c = desc;
    weir_client handle = nullptr;
    const weir_result code = weir_client_create(of.get(), &c, &handle);
    if (code < 0) return detail::fail_last<client>(code);
    auto made = detail::ref<detail::client_kind>::make(handle, of.ref_, ownership::adopted);
    if (!made) return detail::fail_made<client>(handle);
    return returned<client>(client(std::move(made)));
  }

  /// NULL too where the pool has been ended by hand.
  weir_client get() const noexcept {
    const weir_client handle = ref_.get();
    return handle != nullptr && ref_.parent() ? handle : nullptr;
  }
  explicit operator bool() const noexcept { return get() != nullptr; }
  /// weir_client_destroy now; refused with BUSY while it has buffers.
  returned<void> destroy() {
    if (get() == nullptr) return detail::fail_empty<void>();
    return detail::done(ref_.end());
  }
  /// weir_client_stats_get.
  returned<client_stats> stats() const {
    client_stats stats = WEIR_CLIENT_STATS_INIT;
    const weir_result code = weir_client_stats_get(get(), &stats);
    return detail::done(code, std::move(stats));
  }

 private:
  friend class buffer;

  explicit client(detail::ref<detail::client_kind> made) noexcept : ref_(std::move(made)) {}

  detail::ref<detail::client_kind> ref_;
};

WEIR_CPP_END

#endif  // WEIR_CPP_POOL_HPP
