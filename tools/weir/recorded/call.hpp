// SPDX-License-Identifier: Apache-2.0
//
// Call: one event of a trace of version 2 as its lines say it, with its uses; the numbers are the trace's own. Which things they
// mean is program.cpp's to find out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::tool::recorded {

/// In the order of the table in call_reader.cpp.
enum class CallKind : uint8_t {
  use,        ///< only within another
  operation,  ///< only within an announcement
  buffer,
  end_buffer,
  acquire,
  release,
  kernel,
  allocate,
  free,
  operation_name,
  time,
  thread,
  phase,
  read,
  write,
  discard,
  advise,
  rename,
  priority,
  hold,
  unhold,
  register_host,
  unregister_host,
  prefetch,
  announce,
  refused,
  synchronize,
  context,
  device,
  link,
  pool,
  pool_device,
  remove_device,
  stats,
  end_pool,
  client,
  end_client,
  stream,
  end_stream,
  trim,
  rebalance,
  defragment,
  defragmentation,
  policy_load,
  code_file,  ///< "module"
  stack,
  lost,
  end,
};

/// As a length: to the end. As a stream: none.
constexpr uint64_t call_none = UINT64_MAX;

struct CallUse {
  uint64_t buffer = 0;
  uint64_t offset = 0;
  uint64_t length = call_none;
  uint64_t flags = 0;  ///< WEIR_USE_*
  uint32_t mode = 0;   ///< WEIR_READ, ...
};

/// Of an announcement.
struct CallOperation {
  uint64_t number = 0;  ///< 0: `name`, which may be ""
  std::string name;
  size_t uses = 0;  ///< of Call::uses, after those of the operations before
};

struct CallKey {
  std::string name;
  std::string value;  ///< as it stands in the line
};

struct Call {
  CallKind kind = CallKind::end;
  std::array<uint64_t, 5> fields{};  ///< numbers, devices and amounts, in their order
  int64_t number = 0;                ///< the one that may be negative
  std::string text;                  ///< a name, decoded
  char mode = 0;
  uint64_t offset = 0;
  uint64_t length = call_none;
  std::vector<CallKey> keys;  ///< that this reader knows
  std::vector<CallUse> uses;
  std::vector<CallOperation> operations;
};

}  // namespace weir::tool::recorded
