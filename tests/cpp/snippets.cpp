// SPDX-License-Identifier: Apache-2.0
//
// The parts of programs in docs/cpp.md where calls throw, in a program that runs: the page shows them to the letter, and a
// test compares the two.
#include <weir/weir.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <vector>

namespace {

[[noreturn]] void wrong(const char *what) {
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

weir::pool made_in_cpp17(const weir::context &context) {
  weir::pool_desc desc;
  desc.devices.push_back({0, 8 << 20});
  desc.host_budget = 32 << 20;
  auto pool = weir::pool::create(context, desc);
  return pool;
}

void leases(const weir::pool &pool, const weir::stream &stream, const weir::buffer &weights,
            const weir::buffer &output) {
  weir::acquire_options options;
  options.timeout_ns = 1000000000;  // wait up to a second for the leases of others
  options.operation_id = pool.operation_id("attention");  // asked once, outside of the loop
  auto lease =
      pool.acquire(stream, {weir::read(weights), weir::discard_write(output, 0, 4096)}, options);
  auto in = lease.span<const float>(0);
  auto out = lease.span<float>(1);
  stream.host_call([in, out] { out[0] = in[0]; });  // on a GPU: a launch on stream.native()
  lease.release();                                  // or its destructor

  auto maybe = pool.try_acquire(stream, weir::read_write(weights));
  if (!maybe && maybe.code() != WEIR_ERROR_WOULD_BLOCK) throw maybe.error();
}

void containers(const weir::context &context, const weir::pool &pool) {
  auto cpu = weir::stream::create(context, WEIR_DEVICE_HOST);
  weir::host_resource host(pool, cpu);
  std::pmr::monotonic_buffer_resource chunks(1 << 20, &host);
  std::pmr::vector<float> numbers(1000, 1.0F, &chunks);
  if (numbers[999] < 1.0F) wrong("the vector");
}

void scratch(const weir::pool &pool, const weir::stream &stream) {
  weir::device_allocator allocator(pool, stream);
  auto memory = allocator.allocate(1 << 20);
  auto floats = memory.span<float>();  // for kernels on the stream
  stream.host_call([floats] { floats[0] = 0; });
}  // freed after the kernel, by then

void other_side(weir_context c_context, weir_pool c_pool) {
  auto context = weir::context::borrow(c_context);
  auto pool = weir::pool::borrow(context, c_pool);
  if (pool.stats().device_budget == 0) wrong("the budget");
}

void leaks() {
  weir::set_leak_handler([](const char *what, weir_result, const char *message) noexcept {
    std::fprintf(stderr, "a %s was left behind: %s\n", what, message);
    std::abort();
  });
}

}  // namespace

int main() try {
  leaks();
  const auto context = weir::context::create({.options = "host.memory=64M"});
  const auto pool = made_in_cpp17(context);
  const auto stream = weir::stream::create(context, 0);
  const auto weights = weir::buffer::create(pool, {.size = 1 << 20});
  const auto output = weir::buffer::create(pool, {.size = 1 << 20});
  leases(pool, stream, weights, output);
  containers(context, pool);
  scratch(pool, stream);
  other_side(context.get(), pool.get());
  stream.synchronize();
  std::printf("right\n");
} catch (const weir::error &error) {
  return std::printf("%s\n", error.what()), 1;
}
