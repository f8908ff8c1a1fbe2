// SPDX-License-Identifier: Apache-2.0
//
// The flags of the commands that read traces and snapshots, as CLI11 is told of them: main.cpp has the other commands' and the parsing.
#pragma once

#include "allocator_replay.hpp"
#include "commands.hpp"
#include "usage.hpp"

#include <string>

namespace CLI {
class App;
}

namespace weir::tool {

/// The name of a value that is one of a set: "auto|lz4|zstd". `otherwise` is what else may stand there, in capitals.
std::string one_of(const Choices &choices, const std::string &otherwise = "");

void add_replay_flags(CLI::App &command, ReplayFlags &flags);
/// Beside those of a replay, of which they exclude what means nothing without uses.
void add_allocator_flags(CLI::App &command, AllocatorFlags &flags);
void add_frag_flags(CLI::App &command, FragFlags &flags);
void add_import_flags(CLI::App &command, ImportFlags &flags);
void add_snapshot_flags(CLI::App &command, SnapshotFlags &flags);

}  // namespace weir::tool
