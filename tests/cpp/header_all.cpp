// SPDX-License-Identifier: Apache-2.0
//
// Compile check of weir.hpp (check_headers.py): every class and template is used, the options are written in every way. It
// is never linked.
#include <weir/weir.hpp>

#include <array>
#include <string>

#if !WEIR_CPP_STD_SPAN
template class weir::span<float>;
template class weir::span<const float>;
#endif
template class weir::result<float>;

namespace {

#if WEIR_CPP_EXCEPTIONS
template <class T>
T take(T &&value) {
  return static_cast<T &&>(value);
}
#else
template <class T>
T take(weir::result<T> &&value) {
  return std::move(value).value();
}
#endif

#if WEIR_CPP_EXCEPTIONS
#define OK(call) (call)
#else
#define OK(call) static_cast<void>(call)
#endif

weir::context_desc options() {
#if __cplusplus >= 202002L
  return {.options = "host.memory=64M", .flags = WEIR_CONTEXT_NO_SEARCH};
#else
  weir::context_desc desc;
  desc.options = "host.memory=64M";
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  return desc;
#endif
}

weir::pool_desc budgets() {
#if __cplusplus >= 202002L
  return {.devices = {{.device = 0, .budget = 8 << 20}, {.device = 1, .budget = 8 << 20}},
          .host_budget = 1 << 30,
          .storage_budget = 1 << 30,
          .storage_paths = {"/tmp"}};
#else
  weir::pool_desc desc;
  desc.devices = {{0, 8 << 20}, {1, 8 << 20}};
  desc.host_budget = 1 << 30;
  return desc;
#endif
}

struct Function {
  void operator()() const {}
};

[[maybe_unused]] void objects() {
  auto context = take(weir::context::create(options()));
  auto again = take(weir::context::borrow(context.get()));
  auto owned = take(weir::context::adopt(again.detach()));
  static_cast<void>(context.backend_count());
  static_cast<void>(context.backend_info(0));
  static_cast<void>(context.device_count());
  static_cast<void>(context.device_info(0));
  static_cast<void>(context.device());
  static_cast<void>(context.link_info(0, 1));
  static_cast<void>(context.topology_export(WEIR_TOPOLOGY_JSON));
  static_cast<void>(context.topology_calibrate());
  static_cast<void>(context.metrics_text());
  weir::trace_desc written;
  written.path = "file";
  auto trace = take(context.start_trace(written));
  OK(trace.stop());
  auto stream = take(weir::stream::create(context, 0));
  auto wrapped = take(weir::stream::wrap(context, 0, take(stream.native())));
  OK(stream.host_call(Function()));
  OK(stream.host_call(nullptr, nullptr));
  OK(wrapped.close());
  static_cast<void>(stream.query());
  auto pool = take(weir::pool::create(context, budgets()));
  auto client = take(weir::client::create(pool));
  weir::buffer_desc desc;
  desc.size = 4096;
  desc.shards.emplace();
  auto buffer = take(weir::buffer::create(pool, desc));
  auto charged = take(weir::buffer::create(pool, client, desc));
  std::array<float, 4> numbers = {};
  OK(buffer.write(0, numbers));
  OK(buffer.read(0, numbers));
  OK(buffer.read(0, weir::span<float>(numbers.data(), 4)));
  OK(buffer.discard());
  OK(buffer.advise(WEIR_ADVISE_COLD));
  OK(buffer.set_priority(WEIR_PRIORITY_HIGH));
  OK(buffer.set_name("name"));
  static_cast<void>(buffer.name());
  static_cast<void>(weir::last_error_report());
  OK(buffer.host_register(nullptr));
  OK(buffer.host_unregister());
  static_cast<void>(buffer.info());
  static_cast<void>(buffer.shards());
  auto hold = take(buffer.hold(0, WEIR_READ));
  OK(hold.unhold());
  OK(charged.destroy());
  OK(client.destroy());
  OK(pool.destroy());
  OK(context.destroy());
}

[[maybe_unused]] void pools(weir::pool &pool, weir::stream &stream, weir::buffer &a,
                            weir::buffer &b) {
  const std::vector<weir::use> uses = {weir::read(a), weir::read_write(b, 0, 16).allow_remote()};
  const weir::use fixed[] = {weir::read(a)};
  weir::acquire_options wait;
  wait.timeout_ns = 1000;
  auto lease = take(pool.acquire(stream, uses, wait));
  auto second = pool.try_acquire(stream, {weir::read(a), weir::discard_write(b)});
  static_cast<void>(second.code());
  OK(lease.release(stream));
  OK(pool.prefetch(stream, weir::use_list(fixed, 1)));
  wait.operation_id = take(pool.operation_id("a"));
  OK(pool.announce(stream, {{"a", uses}, {nullptr, {weir::read(a)}}, {nullptr, uses, 1}}));
  OK(pool.run(stream, uses,
              [](const weir::lease &held) { static_cast<void>(held.span<const int>(0)); }));
  static_cast<void>(
      pool.run(stream, uses, [](const weir::lease &held) { return held.address(0); }));
  static_cast<void>(
      pool.run(stream, uses, [](const weir::lease &) { return std::string("text"); }));
  static_cast<void>(
      pool.run(stream, uses, [](const weir::lease &) { return std::make_unique<int>(1); }));
  OK(pool.add_device({}));
  OK(pool.remove_device(0, WEIR_INFINITE));
  OK(pool.cancel_remove(0));
  OK(pool.set_defragmentation({}));
  OK(pool.set_loss_callback(nullptr, nullptr));
  OK(pool.reset_peak());
  static_cast<void>(pool.rebalance(1));
  static_cast<void>(pool.trim(0, WEIR_TRIM_GRADUAL));
  static_cast<void>(pool.defragment());
  static_cast<void>(pool.stats());
  static_cast<void>(pool.device_stats());
  static_cast<void>(pool.codec_stats());
  static_cast<void>(pool.lost_ranges());
  static_cast<void>(pool.map());
  static_cast<void>(pool.snapshot());
  const std::vector<unsigned char> learned = take(pool.policy_save());
  OK(pool.policy_load(learned.data(), learned.size()));
  weir::host_resource host(pool, stream);
  std::pmr::vector<int> in_host(&host);
  const weir::device_allocator allocator(pool, stream);
  auto memory = take(allocator.allocate(1024));
  static_cast<void>(memory.span<float>());
  OK(memory.free());
  static_cast<void>(allocator != weir::device_allocator(pool, stream, 1));
}

[[maybe_unused]] int results(weir::result<std::string> text, weir::result<void> nothing) {
  if (nothing) nothing.value();
  if (!text) return text.error().code();
  return static_cast<int>(text->size() + (*text).size() + std::move(text).value_or("none").size());
}

}  // namespace
