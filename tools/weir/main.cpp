// SPDX-License-Identifier: Apache-2.0
//
// The `weir` command: declares and parses the command line, and hands over. Everything that goes
// wrong ends here as one sentence on stderr and exit status 1, or 2 if the command line names no
// command. The only file that includes CLI11, which is slow to compile.
#include "allocator_replay.hpp"
#include "commands.hpp"
#include "error.hpp"
#include "job.hpp"
#include "usage.hpp"

#include "tools/virtual_time/virtual_time.hpp"

#include <weir/weir.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>

namespace {

using weir::tool::AllocatorFlags;
using weir::tool::CalibrateFlags;
using weir::tool::CodecFlags;
using weir::tool::FragFlags;
using weir::tool::ReplayFlags;
using weir::tool::ToolError;
using weir::tool::TopoFlags;
using weir::tool::UsageError;

/// Before the program has a second thread.
void begin_virtual_time() {
  if (!weir::virtual_time::available())
    throw ToolError(
        "--virtual: this program was built with a sanitizer, which has its own threads and clocks");
  weir::virtual_time::start();
  weir::tool::JobRing::sleeps_are_exact = true;
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
      ->allow_extra_args(false);
  command.add_option("--storage-size", flags.storage_size,
                     "storage budget, as above [default: enough for everything]");
  command.add_flag("--encrypt-storage", flags.encrypt_storage,
                   "encrypt what is spilled, with a key that only this process has");
  command.add_flag("--buffered-storage", flags.buffered_storage,
                   "spill through the page cache, not past it");
  command.add_flag("--no-io-uring", flags.no_io_uring, "read and write on threads");
  command.add_option("--codec", flags.codec, "auto, lz4, zstd or raw [default: auto]");
  command.add_option("--compress-threads", flags.compress_threads,
                     "threads that compress [default: a quarter of the CPUs]");
  command
      .add_option("--scale", flags.scale,
                  "divide all sizes and offsets (and modelled times) by this")
      ->capture_default_str();
  command.add_option("--granule", flags.granule,
                     "page size, a power of two [default: near peak / 4096, 16K to 2M]");
  command.add_option("--data", flags.data, "contents: pattern, tensor, random or zero")
      ->capture_default_str();
  command.add_option("--seed", flags.seed, "seed of the contents")->capture_default_str();
  command.add_option(
      "--pace", flags.pace,
      "a100, h100 or FLOPS,BYTES_PER_S,LINK_BYTES_PER_S: operations take as long as on such a "
      "device, and its link is as fast");
  command.add_option("--slow", flags.slow, "with --pace: stretch all modelled times by this")
      ->capture_default_str();
  command.add_flag("--no-vmm", flags.no_vmm, "host backend without virtual memory management");
  command.add_flag("--no-multi-map", flags.no_multi_map, "host backend with one mapping a granule");
  command.add_flag("--no-verify", flags.no_verify,
                   "neither fill nor check; operations only hold time (--pace)");
  command.add_option("--limit", flags.limit, "replay only the first operations");
  command
      .add_option("--announce", flags.announce,
                  "operations announced ahead; 0 = none, all = the whole trace before its first")
      ->transform([](const std::string &text) {
        return text == "all" ? std::to_string(weir::tool::announce_all) : text;
      })
      ->capture_default_str();
  command.add_option("--policy", flags.policy, "the pool's policy [default: the library's]");
  command.add_option("--ahead", flags.ahead, "operations the host may be ahead of the stream")
      ->capture_default_str();
  command.add_option("--backend", flags.backend, "use the first device of this backend")
      ->capture_default_str();
}

void add_replay_flags(CLI::App &command, ReplayFlags &flags) {
  command.add_option("trace", flags.trace, "trace file (.vmt, plain or zstd-compressed)")
      ->required();
  command
      .add_option("--device-memory", flags.device_memory,
                  "device budget: a size (K, M, G, T = powers of 1024) or P% of the trace's peak")
      ->capture_default_str();
  add_pool_flags(command, flags);
  command.add_flag("--steps", flags.steps,
                   "what an operation frees before its end is gone before it goes on");
  command.add_flag("--touch", flags.touch, "write every block once when it is allocated");
  command.add_option(
      "--policy-load", flags.policy_load,
      "before the run with the budgets, load what a policy has learned from this file");
  command.add_option("--policy-save", flags.policy_save,
                     "after it, save what the policy has learned in this file");
  command.add_flag("--no-warm-up", flags.no_warm_up,
                   "do not replay once on cold memory before the clock starts");
  command.add_flag(
      "--virtual", flags.virtual_time,
      "with --pace: in time that only passes while all threads wait, and without contents; any "
      "size fits, and each run is as the last");
  command.add_flag(
      "--yardstick", flags.yardstick,
      "also run on plain memory, alternating with the all-resident run, three times each");
  command.add_flag("--no-all-resident", flags.no_all_resident,
                   "no run with everything in place: only those under the budgets");
  command.add_flag("--json", flags.json, "print the result as JSON");
  command.add_option("--json-out", flags.json_out, "also write the JSON to this file");
  command.add_flag("--progress", flags.progress, "show progress also with --json and no terminal");
}

void add_frag_flags(CLI::App &command, FragFlags &flags) {
  command.add_option("trace", flags.pool.trace, "trace file (.vmt, plain or zstd-compressed)")
      ->required();
  command.add_option("--html", flags.html,
                     "the page to write [default: NAME.frag.html, unless only --png is given]");
  command.add_option("--png", flags.png, "the picture to write");
  command.add_option("--placement", flags.placement,
                     "without budgets: multi-map, vmm, segments or pytorch [default: multi-map]");
  command.add_option("--capacity", flags.capacity,
                     "with --placement: the most that may be reserved; a refusal ends the film");
  command
      .add_option("--frames", flags.frames, "instants to draw, at least; named ones come on top")
      ->capture_default_str();
  command.add_option("--colour,--color", flags.colour,
                     "tier, tag, size or age [default: tier with budgets, else tag]");
  command.add_flag("--json", flags.json, "print the figures as JSON");
  command.add_option("--device-memory", flags.pool.device_memory,
                     "replay in a pool with this device budget: a size (K, M, G, T = powers of "
                     "1024) or P% of the trace's peak [default with other budgets: 75%]");
  add_pool_flags(command, flags.pool);
}

void add_codec_flags(CLI::App &command, CodecFlags &flags) {
  command.add_option("files", flags.files, "files of raw bytes, as device memory has them")
      ->required();
  command
      .add_option(
          "--codec", flags.codecs,
          "fast or dense (what pays), lz4, zstd, fx, sparse, mask, planes or narrow; more than "
          "one: each [default: fast, dense, lz4, zstd]")
      ->allow_extra_args(false);
  command.add_option("--element", flags.element,
                     "what the bytes are: f16, bf16, f32 or f64 [default: found out by looking]");
  command.add_option("--mib", flags.mib, "repeat a file's bytes to at least so many MiB")
      ->capture_default_str();
  command
      .add_option("--seconds", flags.seconds,
                  "measure memcpy, compression and decompression for at least so long each")
      ->capture_default_str();
  command.add_flag("--json", flags.json, "print the figures as JSON");
}

void add_topo_flags(CLI::App &command, TopoFlags &flags) {
  command.add_option(
      "--xml", flags.xml,
      "a machine's topology, as hwloc's lstopo exports it, instead of this machine's");
  command.add_option("--options", flags.options, "options of the context, \"key=value;...\"");
  command.add_option("--svg", flags.svg, "write a picture to this file");
  command.add_flag("--json", flags.json, "print JSON");
}

void add_calibrate_flags(CLI::App &command, CalibrateFlags &flags) {
  command.add_option("--seconds", flags.seconds, "time for all links together")
      ->capture_default_str();
  command.add_flag("--no-save", flags.no_save, "measure only; later runs do not see the figures");
  command.add_option("--options", flags.options, "options of the context, \"key=value;...\"");
  command.add_flag("--json", flags.json, "print JSON");
}

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
                  "multi-map, vmm, segments or pytorch; more than one: each [default: all]")
      ->allow_extra_args(false)
      ->needs(only);
  command
      .add_option("--capacity", flags.capacity,
                  "memory that may be reserved: a size or P% of the trace's peak "
                  "[default: unlimited]")
      ->needs(only);
}

/// An option that the command does not have, and that stands among its arguments: CLI11 would list these with it.
void refuse_option(const CLI::App &command) {
  for (const std::string &word : command.remaining()) {
    if (!word.starts_with('-')) continue;
    std::vector<std::string> options;
    for (const CLI::Option *option : command.get_options())
      for (const std::string &name : option->get_lnames()) options.push_back("--" + name);
    throw ToolError(weir::tool::no_such_option(command.get_name(), word, options));
  }
}

/// What CLI11 says of a command's own arguments that it can't parse; of what stands before a command or in its place,
/// what we do.
[[noreturn]] void refuse(const CLI::App &app, const CLI::ParseError &error) {
  const std::vector<CLI::App *> parsed = app.get_subcommands();
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty() && !parsed.empty()) {
    refuse_option(*parsed.front());
    throw ToolError(std::string(error.what()) + " (see weir " + parsed.front()->get_name() +
                    " --help)");
  }
  if (rest.empty() || rest.front().starts_with('-'))
    throw UsageError((rest.empty() ? error.what() : "there is no option '" + rest.front() + "'") +
                     " (see weir --help)");
  std::vector<std::string_view> commands;
  for (const CLI::App *command : app.get_subcommands({})) commands.push_back(command->get_name());
  throw UsageError(weir::tool::no_such_command(rest.front(), commands));
}

int run(int argc, char **argv) {
  using namespace weir::tool;
  CLI::App app("Weir, a portable virtual-GPU-memory manager", "weir");
  app.set_version_flag("--version", std::string("weir ") + weir_version_string());
  app.require_subcommand(1);
  bool devices_json = false;
  bool info_json = false;
  ReplayFlags replay_flags;
  AllocatorFlags allocator_flags;
  CLI::App *devices = app.add_subcommand("devices", "list backends and their devices");
  devices->add_flag("--json", devices_json, "print JSON");
  TopoFlags topo_flags;
  CLI::App *topo = app.add_subcommand("topo", "show places, devices and the links between them");
  add_topo_flags(*topo, topo_flags);
  CalibrateFlags calibrate_flags;
  CLI::App *calibrate =
      app.add_subcommand("calibrate", "measure the links, for this user's later runs");
  add_calibrate_flags(*calibrate, calibrate_flags);
  CLI::App *info = app.add_subcommand("info", "show version, build, limits and options");
  info->add_flag("--json", info_json, "print JSON");
  CLI::App *replay =
      app.add_subcommand("replay", "run an allocation and use trace under a memory budget");
  add_replay_flags(*replay, replay_flags);
  FragFlags frag_flags;
  CLI::App *frag = app.add_subcommand("frag", "draw how a trace lies in memory");
  add_frag_flags(*frag, frag_flags);
  add_allocator_flags(*replay, allocator_flags);
  CodecFlags codec_flags;
  CLI::App *codec = app.add_subcommand("codec", "measure what compression makes of files");
  add_codec_flags(*codec, codec_flags);
  if (argc <= 1) {
    std::fputs(app.help().c_str(), stderr);
    return usage_status;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    refuse(app, error);
  }
  if (devices->parsed()) return run_devices(devices_json);
  if (topo->parsed()) return run_topo(topo_flags);
  if (calibrate->parsed()) return run_calibrate(calibrate_flags);
  if (info->parsed()) return run_info(info_json);
  if (frag->parsed()) return run_frag(check_frag_flags(frag_flags));
  if (codec->parsed()) return run_codec(check_codec_flags(codec_flags));
  if (allocator_flags.allocator_only)
    return run_allocator_replay(check_allocator_flags(allocator_flags, replay_flags.trace,
                                                      replay_flags.granule, replay_flags.json,
                                                      replay_flags.json_out));
  const weir::tool::ReplayOptions options = check_replay_flags(replay_flags);
  if (options.virtual_time) begin_virtual_time();
  return run_replay(options);
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return run(argc, argv);
  } catch (const UsageError &error) {
    std::fprintf(stderr, "weir: %s\n", error.what());
    return weir::tool::usage_status;
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "weir: out of memory\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "weir: %s\n", error.what());
  }
  return 1;
}
