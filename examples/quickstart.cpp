// SPDX-License-Identifier: Apache-2.0
//
// The first program in C++: twice as many bytes in buffers as the device has room for, all written, all read back.
// What follows this comment stands in docs/cpp.md to the letter; a test compares the two.
#include <weir/weir.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

constexpr size_t count = 8, size = 2 << 20;  // 16 MiB of buffers ...

int main() try {
  auto context = weir::context::create({.options = "host.memory=64M"});
  auto pool = weir::pool::create(
      context, {.devices = {{.device = 0, .budget = 8 << 20}},  // ... on 8 MiB of device memory
                .host_budget = 32 << 20});
  auto stream = weir::stream::create(context, 0);

  std::vector<weir::buffer> buffers;
  for (size_t i = 0; i < count; i++) buffers.push_back(weir::buffer::create(pool, {.size = size}));

  for (size_t i = 0; i < count; i++) {
    pool.run(stream, weir::discard_write(buffers[i]), [&](const weir::lease &lease) {
      auto numbers = lease.span<size_t>(0);  // resident until the kernel below has ended
      stream.host_call([=] { std::fill(numbers.begin(), numbers.end(), i); });
    });
  }

  size_t wrong[count] = {};
  for (size_t i = 0; i < count; i++) {
    pool.run(stream, weir::read(buffers[i]), [&](const weir::lease &lease) {
      auto numbers = lease.span<const size_t>(0);
      stream.host_call([=, &wrong] {
        for (size_t number : numbers) wrong[i] += number != i;
      });
    });
  }
  stream.synchronize();

  for (size_t i = 0; i < count; i++) {
    if (wrong[i] != 0) return std::printf("buffer %zu is wrong\n", i), 1;
  }
  const auto stats = pool.stats();
  std::printf("right: all %zu MiB; moved down %zu MiB, up %zu MiB\n", (count * size) >> 20,
              size_t{stats.demoted_bytes >> 20}, size_t{stats.promoted_bytes >> 20});
} catch (const weir::error &error) {
  return std::printf("%s\n", error.what()), 1;
}
