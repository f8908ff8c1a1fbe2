// SPDX-License-Identifier: Apache-2.0
//
// The part of a program in docs/cpp.md where calls return results, in a program that runs: the page shows it to the letter, and a
// test compares the two.
#include <weir/weir.hpp>

#include <cstdio>

namespace {

weir::result<float> first(const weir::pool &pool, const weir::stream &stream,
                          const weir::buffer &buffer) {
  return pool.run(stream, weir::read(buffer), [&](const weir::lease &lease) -> weir::result<float> {
    auto numbers = lease.span<const float>(0);
    if (!numbers) return numbers.error();
    if (auto waited = stream.synchronize(); !waited) return waited.error();
    return (*numbers)[0];  // the CPU reads it: the host backend allows that
  });
}

}  // namespace

int main() {
  auto context = weir::context::create({.options = "host.memory=64M"});
  if (!context) return std::printf("%s\n", context.error().what()), 1;
  auto pool = weir::pool::create(*context, {.devices = {{.device = 0, .budget = 8 << 20}}});
  auto stream = weir::stream::create(*context, 0);
  if (!pool || !stream) return 1;
  auto buffer = weir::buffer::create(*pool, {.size = 4096});
  if (!buffer) return 1;
  auto number = first(*pool, *stream, *buffer);
  if (!number || *number > 0) return 1;
  std::printf("right\n");
}
