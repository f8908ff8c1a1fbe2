// SPDX-License-Identifier: Apache-2.0
//
// PlainMachine: memory by size class, four classes to a power of two. A block freed while its jobs
// still run may be given out again at once: jobs run in the stream's order, so the next owner's
// come after.
#include "plain_machine.hpp"

#include "error.hpp"
#include "job.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace weir::tool {
namespace {

uint64_t capacity_for(uint64_t bytes) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(bytes) / 4, 64);
  return (bytes + step - 1) / step * step;
}

}  // namespace

void PlainMachine::Free::operator()(std::byte *memory) const noexcept { std::free(memory); }

PlainMachine::PlainMachine(const std::string &context_options, const std::string &backend,
                           size_t blocks)
    : context_(open_context(context_options)), blocks_(blocks) {
  stream_ = open_stream(context_.get(), find_device(context_.get(), backend));
}

PlainMachine::~PlainMachine() { abandon(); }

void PlainMachine::create(uint32_t block, uint64_t bytes) {
  const uint64_t capacity = capacity_for(bytes);
  Block &made = blocks_[block];
  made.capacity = capacity;
  std::vector<Memory> &spare = spare_[capacity];
  if (!spare.empty()) {
    made.memory = std::move(spare.back());
    spare.pop_back();
    return;
  }
  made.memory.reset(static_cast<std::byte *>(std::malloc(capacity)));
  if (!made.memory)
    throw ToolError("out of memory for block " + std::to_string(block) + " of " +
                    std::to_string(bytes) + " bytes");
}

void PlainMachine::destroy(uint32_t block) {
  Block &gone = blocks_[block];
  spare_[gone.capacity].push_back(std::move(gone.memory));
}

void PlainMachine::begin(const std::string &, std::span<const BlockUse> uses,
                         std::span<std::byte *> addresses) {
  for (size_t i = 0; i < uses.size(); ++i)
    addresses[i] = blocks_[uses[i].block].memory.get() + uses[i].offset;
}

void PlainMachine::submit(Job &job) {
  require(weir_stream_host_call(stream_.get(), &JobRing::run, &job),
          "cannot enqueue on the stream");
}

void PlainMachine::finish() {
  require(weir_stream_synchronize(stream_.get()), "cannot finish the stream's work");
}

void PlainMachine::abandon() noexcept {
  if (stream_) weir_stream_synchronize(stream_.get());
}

}  // namespace weir::tool
