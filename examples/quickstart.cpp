// SPDX-License-Identifier: Apache-2.0
//
// The first program in C++: twice as many bytes in buffers as the device has room for, all written, all read back.
// What follows this comment stands in docs/cpp.md to the letter; a test compares the two.
#include <weir/weir.hpp>

#include <cstdio>
#include <vector>

constexpr size_t count = 8, length = 1 << 19;  // 16 MiB of buffers ...

int main() try {
  auto context = weir::context::create();
  weir_device device = context.device("gpu,host");  // CPU memory where there is no GPU
  auto pool = weir::pool::create(
      context,
      {.devices = {{.device = device, .budget = 8 << 20}},  // ... on 8 MiB of device memory
       .host_budget = 32 << 20});  // what does not fit goes to pinned host memory
  auto stream = weir::stream::create(context, device);

  std::vector<weir::buffer> buffers;
  for (unsigned i = 0; i < count; i++) {
    buffers.push_back(weir::buffer::create(pool, {.size = length * sizeof(unsigned)}));
    buffers[i].write(0, std::vector<unsigned>(length, i));
  }

  for (const weir::buffer &buffer : buffers) {
    pool.run(stream, weir::read_write(buffer), [](const weir::lease &) {
      // On the device from here on. Launch kernels on stream.native(), with lease.span<unsigned>(0).
    });  // The buffer may leave when they have ended. Nothing waits here.
  }

  std::vector<unsigned> numbers(length);
  for (unsigned i = 0; i < count; i++) {
    buffers[i].read(0, numbers);
    if (numbers != std::vector<unsigned>(length, i))
      return std::printf("buffer %u is wrong\n", i), 1;
  }
  const auto stats = pool.stats();
  std::printf("right: all 16 MiB; moved %zu MiB up to \"%s\" and %zu MiB down\n",
              size_t{stats.promoted_bytes >> 20}, context.device_info(device).name,
              size_t{stats.demoted_bytes >> 20});
} catch (const weir::error &error) {
  return std::printf("%s\n", error.what()), 1;
}
