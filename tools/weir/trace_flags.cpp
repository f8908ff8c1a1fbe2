// SPDX-License-Identifier: Apache-2.0
//
// One option after the other, with the words that --help, the man pages and shells show for it. The name of a value tells what a shell may
// complete there (completion.hpp).
#include "trace_flags.hpp"

#include "choices.hpp"
#include "error.hpp"

#include <CLI/CLI.hpp>

#include <vector>

namespace weir::tool {
namespace {

/// A number of operations, or "all".
std::string announced(const std::string &text) {
  if (text == "all") return std::to_string(announce_all);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos)
    throw ToolError(no_such_value("--announce", text, {"all"}, "a number"));
  return text;
}

/// What a pool is made of, and how a trace runs in it.
void add_pool_flags(CLI::App &command, ReplayFlags &flags) {
  command.add_option("--host-memory", flags.host_memory,
                     "host budget, as above; 0 = none [default: enough for everything]");
  command.add_option("--neighbour", flags.neighbour,
                     "memory of a second device, as above, which lies idle and is lent over a link "
                     "better than the host's [default: none]");
  command.add_option("--compressed-memory", flags.compressed_memory,
                     "budget of memory for compressed pages, as above [default: none]");
  command
      .add_option("--storage", flags.storage,
                  "directory for spilled pages; more than one: striped over them")
      ->allow_extra_args(false)
      ->type_name("DIR");
  command.add_option("--storage-size", flags.storage_size,
                     "storage budget, as above [default: enough for everything]");
  command.add_flag("--encrypt-storage", flags.encrypt_storage,
                   "encrypt what is spilled, with a key that only this process has");
  command.add_flag("--buffered-storage", flags.buffered_storage,
                   "spill through the page cache, not past it");
  command.add_flag("--no-io-uring", flags.no_io_uring, "read and write on threads");
  command.add_option("--codec", flags.codec, "how pages are compressed [default: auto]")
      ->type_name(one_of(store_codec_choices()));
  command.add_option("--compress-threads", flags.compress_threads,
                     "threads that compress [default: a quarter of the CPUs]");
  command
      .add_option("--scale", flags.scale,
                  "divide all sizes and offsets (and modelled times) by this")
      ->capture_default_str();
  command.add_option("--granule", flags.granule,
                     "page size, a power of two [default: near peak / 4096, 16K to 2M]");
  command
      .add_option(
          "--data", flags.data,
          "the contents of blocks [default: pattern; of a recorded program, what compresses "
          "as its own bytes did]")
      ->type_name(one_of(data_choices()));
  command.add_option("--seed", flags.seed, "seed of the contents")->capture_default_str();
  command
      .add_option(
          "--pace", flags.pace,
          "operations take as long as on such a device, and its link is as fast; recorded: as "
          "they took in the program that was recorded")
      ->type_name(one_of(pace_choices(), "FLOPS,BYTES_PER_S,LINK_BYTES_PER_S"));
  command.add_option("--slow", flags.slow, "with --pace: stretch all modelled times by this")
      ->capture_default_str();
  command.add_flag("--no-vmm", flags.no_vmm, "host backend without virtual memory management");
  command.add_flag("--no-multi-map", flags.no_multi_map, "host backend with one mapping a granule");
  command.add_flag("--no-verify", flags.no_verify,
                   "neither fill nor check; operations only hold time (--pace)");
  command
      .add_option("--check-one-in", flags.check_one_in,
                  "fill and check the first of so many lines of 64 bytes, not all")
      ->capture_default_str();
  command.add_option("--limit", flags.limit, "replay only the first operations");
  command
      .add_option("--announce", flags.announce,
                  "operations announced ahead; 0 = none, all = the whole trace before its first")
      ->transform(announced)
      ->capture_default_str()
      ->type_name("all|UINT");
  command.add_option("--policy", flags.policy, "the pool's policy [default: the library's]")
      ->type_name(one_of(policy_choices()));
  command.add_option("--ahead", flags.ahead, "operations the host may be ahead of the stream")
      ->capture_default_str();
  command.add_option("--backend", flags.backend, "use the first device of this backend")
      ->capture_default_str()
      ->type_name(one_of(backend_choices(), "NAME"));
}

}  // namespace

std::string one_of(const Choices &choices, const std::string &otherwise) {
  std::string name;
  for (const std::string_view choice : choices) name.append(name.empty() ? "" : "|").append(choice);
  return otherwise.empty() ? name : name + "|" + otherwise;
}

void add_replay_flags(CLI::App &command, ReplayFlags &flags) {
  command.add_option("trace", flags.trace, "trace file (.vmt, plain or zstd-compressed)")
      ->required()
      ->type_name("FILE");
  command.add_option(
      "--device-memory", flags.device_memory,
      "device budget: a size (K, M, G, T = powers of 1024) or P% of the trace's peak "
      "[default: 75%]; of a recorded program P% of each device's [default: as it was]");
  add_pool_flags(command, flags);
  command.add_flag("--as-operations", flags.as_operations,
                   "take a recorded program (#vmt 2) for one device, one stream and one operation "
                   "after the other");
  command.add_flag("--steps", flags.steps,
                   "what an operation frees before its end is gone before it goes on");
  command.add_flag("--touch", flags.touch, "write every block once when it is allocated");
  command
      .add_option("--policy-load", flags.policy_load,
                  "before the run with the budgets, load what a policy has learned from this file")
      ->type_name("FILE");
  command
      .add_option("--policy-save", flags.policy_save,
                  "after it, save what the policy has learned in this file")
      ->type_name("FILE");
  command.add_flag("--no-warm-up", flags.no_warm_up,
                   "do not replay once on cold memory before the clock starts");
  command.add_flag(
      "--virtual", flags.virtual_time,
      "with --pace: in time that only passes while all threads wait, and without contents; any "
      "size fits, and each run is as the last");
  command.add_flag("--no-contents", flags.no_contents,
                   "with --pace: pages have no bytes, as with --virtual, in real time");
  command.add_flag(
      "--yardstick", flags.yardstick,
      "also run on plain memory, alternating with the all-resident run, three times each");
  command.add_flag("--no-all-resident", flags.no_all_resident,
                   "no run with everything in place: only those under the budgets");
  command.add_flag("--json", flags.json, "print the result as JSON");
  command.add_option("--json-out", flags.json_out, "also write the JSON to this file")
      ->type_name("FILE");
  command.add_flag("--progress", flags.progress, "show progress also with --json and no terminal");
}

void add_frag_flags(CLI::App &command, FragFlags &flags) {
  command.add_option("trace", flags.pool.trace, "trace file (.vmt, plain or zstd-compressed)")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--html", flags.html,
                  "the page to write [default: NAME.frag.html, unless only --png is given]")
      ->type_name("FILE");
  command.add_option("--png", flags.png, "the picture to write")->type_name("FILE");
  command
      .add_option("--placement", flags.placement,
                  "without budgets: where blocks are placed [default: multi-map]")
      ->type_name(one_of(placement_choices()));
  command.add_option("--capacity", flags.capacity,
                     "with --placement: the most that may be reserved; a refusal ends the film");
  command
      .add_option("--frames", flags.frames, "instants to draw, at least; named ones come on top")
      ->capture_default_str();
  command
      .add_option("--colour,--color", flags.colour,
                  "what colours stand for [default: tier with budgets, else tag]")
      ->type_name(one_of(colour_choices()));
  command.add_flag("--json", flags.json, "print the figures as JSON");
  command.add_option("--device-memory", flags.pool.device_memory,
                     "replay in a pool with this device budget: a size (K, M, G, T = powers of "
                     "1024) or P% of the trace's peak [default with other budgets: 75%]");
  add_pool_flags(command, flags.pool);
}

void add_import_flags(CLI::App &command, ImportFlags &flags) {
  command
      .add_option("snapshot", flags.file,
                  "a memory snapshot of PyTorch, as torch.cuda.memory._dump_snapshot writes it")
      ->required()
      ->type_name("FILE");
  command
      .add_option("-o,--output", flags.output,
                  "the trace to write; compressed if its name ends in .zst")
      ->required()
      ->type_name("FILE");
  command.add_flag("--json", flags.json, "print the figures as JSON");
}

void add_snapshot_flags(CLI::App &command, SnapshotFlags &flags) {
  command
      .add_option("snapshot", flags.file,
                  "a pool's snapshot: JSON of weir_pool_snapshot, or a file of WEIR_OOM_DUMP")
      ->required()
      ->type_name("FILE");
  command.add_flag("--memory-viz", flags.memory_viz,
                   "write what pytorch.org/memory_viz opens, not a table");
  command.add_option("-o,--output", flags.output, "with --memory-viz: the file to write")
      ->type_name("FILE");
};

/// Runs nothing but allocations and frees: of the other options, it takes those that mean something then.
void add_allocator_flags(CLI::App &command, AllocatorFlags &flags) {
  const std::vector<CLI::Option *> others = command.get_options([](const CLI::Option *option) {
    for (const char *shared : {"trace", "--granule", "--json", "--json-out", "--help"})
      if (option->check_name(shared)) return false;
    return true;
  });
  CLI::Option *only = command.add_flag("--allocator-only", flags.allocator_only,
                                       "allocate and free only, on each placement: no contents, "
                                       "no operations (granules: 2M)");
  for (CLI::Option *other : others) only->excludes(other);
  command
      .add_option("--placement", flags.placements,
                  "where blocks are placed; more than one: each [default: all]")
      ->allow_extra_args(false)
      ->needs(only)
      ->type_name(one_of(placement_choices()));
  command
      .add_option("--capacity", flags.capacity,
                  "memory that may be reserved: a size or P% of the trace's peak "
                  "[default: unlimited]")
      ->needs(only);
}

}  // namespace weir::tool
