// SPDX-License-Identifier: Apache-2.0
//
// Checks, and the ends of fills: vkCmdFillBuffer takes whole words at whole words' offsets, so the up to three bytes before and
// behind them are copied from a small buffer that has every byte value four times.

#include "backends/vulkan/copies.hpp"

#include "backends/vulkan/device.hpp"

#include <algorithm>
#include <array>

namespace weir::vulkan {
namespace {

constexpr uint64_t word = 4;

}  // namespace

weir_result Copies::find(const Stream &stream, const char *side, uint64_t address, uint64_t bytes,
                         Spot *spot) const {
  const uint32_t device = stream.device().index();
  const bool known = address != 0 && bytes != 0 && bytes <= UINT64_MAX - address &&
                     memory_.find(device, address, bytes, spot) &&
                     (!spot->sparse || space_.maps(device, address, bytes));
  if (known) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                "the %s [%#llx, +%llu) is not inside one mapping or one range of memory that "
                "device %u can reach",
                side, number(address), number(bytes), device);
}

weir_result Copies::command_of(const Stream &stream, const weir_be_copy &copy,
                               Command *command) const {
  Spot from, to;
  WEIR_BACKEND_TRY(find(stream, "source", copy.source, copy.bytes, &from));
  WEIR_BACKEND_TRY(find(stream, "destination", copy.destination, copy.bytes, &to));
  command->source = from.buffer;
  command->destination = to.buffer;
  command->region = {from.offset, to.offset, copy.bytes};
  command->source_sparse = from.sparse;
  command->destination_sparse = to.sparse;
  return WEIR_SUCCESS;
}

weir_result Copies::copy(Stream &stream, const weir_be_copy &copy) const {
  Command command;
  WEIR_BACKEND_TRY(command_of(stream, copy, &command));
  return stream.add(&command, 1, false);
}

weir_result Copies::copy_batch(Stream &stream, const weir_be_copy *copies, uint32_t count) const {
  if (!stream.device().has(WEIR_CAP_BATCH_COPY))
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "copies in batches are off (batch_copy=0)");
  if (count != 0 && copies == nullptr)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "copies is NULL with count=%u", count);
  std::vector<Command> commands(count);
  for (uint32_t i = 0; i < count; ++i)
    WEIR_BACKEND_TRY(command_of(stream, copies[i], &commands[i]));
  return count == 0 ? WEIR_SUCCESS : stream.add(commands.data(), count, true);
}

weir_result Copies::fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes) const {
  Spot spot;
  WEIR_BACKEND_TRY(find(stream, "filled range", address, bytes, &spot));
  if (spot.host) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is host memory; fills are of device memory",
                  number(address));
  }
  const uint64_t head = std::min(bytes, (word - spot.offset % word) % word);
  const uint64_t middle = (bytes - head) / word * word;
  const uint64_t tail = bytes - head - middle;
  std::array<Command, 3> commands;
  size_t count = 0;
  const auto end_piece = [&](uint64_t offset, uint64_t size) {
    if (size == 0) return;
    Command &command = commands[count++];
    command.source = stream.device().patterns();
    command.destination = spot.buffer;
    command.region = {word * value, offset, size};
    command.destination_sparse = spot.sparse;
  };
  end_piece(spot.offset, head);
  if (middle != 0) {
    Command &command = commands[count++];
    command.destination = spot.buffer;
    command.region = {0, spot.offset + head, middle};
    command.destination_sparse = spot.sparse;
    command.pattern = value * 0x01010101U;
  }
  end_piece(spot.offset + head + middle, tail);
  return stream.add(commands.data(), count, true);
}

}  // namespace weir::vulkan
