// SPDX-License-Identifier: Apache-2.0
//
// Flags of `weir replay`: checking, and what they come to for a trace. main.cpp declares them.
#include "replay_options.hpp"

#include "choices.hpp"
#include "error.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace weir::tool {
namespace {

constexpr uint64_t smallest_granule = 4096;
constexpr uint64_t most_ahead = 65536;
constexpr uint64_t most_lines = 1024;  // a line in 64 KiB: of small pages none is left out
constexpr size_t most_storage_directories = 16;  // weir/pool.h
constexpr uint64_t most_compress_threads = 1024;

struct KnownPace {
  const char *name;
  Pace pace;
};
constexpr KnownPace known_paces[] = {
    {"a100", {312e12, 1.555e12, 25e9, 1}},
    {"h100", {989e12, 3.35e12, 55e9, 1}},
};

constexpr std::string_view recorded_pace = "recorded";

constexpr DataMode data_modes[] = {DataMode::pattern, DataMode::tensor, DataMode::random,
                                   DataMode::zero};

Pace parse_pace(const std::string &text) {
  for (const KnownPace &known : known_paces)
    if (text == known.name) return known.pace;
  const size_t first = text.find(',');
  const size_t second = first == std::string::npos ? first : text.find(',', first + 1);
  if (second == std::string::npos || text.find(',', second + 1) != std::string::npos)
    throw ToolError(
        no_such_value("--pace", text, pace_choices(), "FLOPS,BYTES_PER_S,LINK_BYTES_PER_S"));
  const std::string_view view = text;
  return {parse_rate(view.substr(0, first), "--pace"),
          parse_rate(view.substr(first + 1, second - first - 1), "--pace"),
          parse_rate(view.substr(second + 1), "--pace"), 1};
}

DataMode parse_data(const std::string &text) {
  for (const DataMode mode : data_modes)
    if (text == data_mode_name(mode)) return mode;
  throw ToolError(no_such_value("--data", text, data_choices()));
}

void check_choice(const std::string &what, const std::string &text, const Choices &choices) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end())
    throw ToolError(no_such_value(what, text, choices));
}

void check_directory(const std::string &path) {
  struct stat found {};
  if (path.empty()) throw ToolError("--storage: '' names no directory");
  if (stat(path.c_str(), &found) != 0)
    throw ToolError("--storage: '" + path + "': " + std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) throw ToolError("--storage: '" + path + "' is not a directory");
}

void check_storage(const ReplayFlags &flags, ReplayOptions &options) {
  const auto needs_storage = [&](bool given, const std::string &flag) {
    if (given && flags.storage.empty()) throw ToolError(flag + " needs --storage DIR");
  };
  needs_storage(!flags.storage_size.empty(), "--storage-size: '" + flags.storage_size + "'");
  needs_storage(flags.encrypt_storage, "--encrypt-storage");
  needs_storage(flags.buffered_storage, "--buffered-storage");
  needs_storage(flags.no_io_uring, "--no-io-uring");
  if (flags.storage.size() > most_storage_directories)
    throw ToolError("--storage: " + std::to_string(flags.storage.size()) +
                    " directories are more than 16");
  for (const std::string &path : flags.storage) check_directory(path);
  options.storage = flags.storage;
  if (!flags.storage_size.empty()) {
    options.storage_size = parse_size_or_share(flags.storage_size, "--storage-size");
    if (!options.storage_size->percent && options.storage_size->bytes == 0)
      throw ToolError("--storage-size: '" + flags.storage_size + "' is no storage at all");
  }
  options.encrypt_storage = flags.encrypt_storage;
  options.buffered_storage = flags.buffered_storage;
  options.io_uring = !flags.no_io_uring;
}

void check_compression(const ReplayFlags &flags, ReplayOptions &options) {
  if (!flags.compressed_memory.empty())
    options.compressed_memory = parse_size_or_share(flags.compressed_memory, "--compressed-memory");
  if (!flags.codec.empty()) {
    check_choice("--codec", flags.codec, store_codec_choices());
    if (flags.compressed_memory.empty() && flags.storage.empty())
      throw ToolError("--codec: '" + flags.codec + "' needs --compressed-memory or --storage");
    options.codec = flags.codec;
    options.codec_given = true;
  }
  if (flags.compress_threads > most_compress_threads)
    throw ToolError("--compress-threads: " + std::to_string(flags.compress_threads) +
                    " is more than 1024");
  options.compress_threads = static_cast<uint32_t>(flags.compress_threads);
}

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/// `neighbour`: beside the device is another, by a link ten times the host's, as far as is told: copies take as long as they
/// take.
std::string host_options(const ReplayOptions &options, uint64_t page, uint64_t budget,
                         bool neighbour = false) {
  if (options.backend != "host") return {};
  // Beside the budget: room for what the device rounds and, without VMM, for fragments of its
  // segments.
  const uint64_t memory = round_up(budget + budget / 8 + (uint64_t{64} << 20), page);
  std::string text = std::string("host.devices=") + (neighbour ? "2" : "1") +
                     ";host.memory=" + std::to_string(memory) +
                     ";host.granule=" + std::to_string(page) + ";host.granule_large=0";
  if (neighbour) text += ";host.links=0-1:nvlink:300G,h-0:pcie:30G,h-1:pcie:30G";
  if (!options.vmm) text += ";host.vmm=0";
  if (!options.multi_map) text += ";host.multi_map=0";
  if (!options.contents) text += ";host.contents=0;host.register=0";
  if (options.pace)
    text += ";host.link_bandwidth=" +
            std::to_string(static_cast<uint64_t>(options.pace->link_bandwidth()));
  return text;
}

/// What has no time of its own there, or does work for its contents' sake, does not go with it.
void check_virtual(const ReplayFlags &flags, ReplayOptions &options) {
  if (!flags.virtual_time && !flags.no_contents) return;
  const std::string flag = flags.virtual_time ? "--virtual" : "--no-contents";
  const char *against = flags.backend != "host"                ? "another --backend than host"
                        : !flags.storage.empty()               ? "--storage"
                        : !flags.compressed_memory.empty()     ? "--compressed-memory"
                        : flags.yardstick                      ? "--yardstick"
                        : flags.virtual_time && flags.progress ? "--progress"
                                                               : nullptr;
  if (against != nullptr) throw ToolError(flag + " does not go with " + against);
  if (flags.pace.empty()) throw ToolError(flag + " needs --pace");
  options.virtual_time = flags.virtual_time;
  options.contents = options.verify = false;
}

}  // namespace

Choices data_choices() {
  Choices names;
  for (const DataMode mode : data_modes) names.push_back(data_mode_name(mode));
  return names;
}

Choices pace_choices() {
  Choices names;
  for (const KnownPace &known : known_paces) names.emplace_back(known.name);
  names.emplace_back(recorded_pace);
  return names;
}

Choices store_codec_choices() { return {"auto", "lz4", "zstd", "raw"}; }  // weir/pool.h
Choices policy_choices() { return {"auto", "lru-window"}; }               // weir/pool.h

ReplayOptions check_replay_flags(const ReplayFlags &flags) {
  ReplayOptions options;
  options.trace = flags.trace;
  if (!flags.device_memory.empty()) {
    options.device_memory = parse_size_or_share(flags.device_memory, "--device-memory");
    options.given_device_memory = options.device_memory;
  }
  if (!options.device_memory.percent && options.device_memory.bytes == 0)
    throw ToolError("--device-memory: '" + flags.device_memory + "' is no memory at all");
  if (!flags.host_memory.empty())
    options.host_memory = parse_size_or_share(flags.host_memory, "--host-memory");
  if (!flags.neighbour.empty()) {
    options.neighbour = parse_size_or_share(flags.neighbour, "--neighbour");
    const char *against = !flags.pace.empty()       ? "--pace"
                          : flags.no_vmm            ? "--no-vmm"
                          : flags.backend != "host" ? "another --backend than host"
                                                    : nullptr;
    if (against != nullptr)
      throw ToolError("--neighbour: '" + flags.neighbour + "' does not go with " + against);
  }
  check_compression(flags, options);
  check_storage(flags, options);
  if (!flags.granule.empty()) {
    options.granule = parse_size(flags.granule, "--granule");
    if (!std::has_single_bit(options.granule) || options.granule < smallest_granule)
      throw ToolError("--granule: '" + flags.granule + "' is not a power of two of 4K or more");
  }
  if (flags.scale == 0) throw ToolError("--scale: 0 is not a divisor");
  if (flags.limit == 0) throw ToolError("--limit: 0 operations are nothing to replay");
  if (flags.ahead == 0 || flags.ahead > most_ahead)
    throw ToolError("--ahead: " + std::to_string(flags.ahead) + " is not between 1 and 65536");
  if (flags.announce > most_ahead && flags.announce != announce_all)
    throw ToolError("--announce: " + std::to_string(flags.announce) +
                    " is not between 0 and 65536, nor 'all'");
  if (flags.no_all_resident && flags.yardstick)
    throw ToolError("--no-all-resident does not go with --yardstick");
  options.data_given = !flags.data.empty();
  if (options.data_given) options.data = parse_data(flags.data);
  if (!(flags.slow > 0))
    throw ToolError("--slow: " + std::to_string(flags.slow) + " is not above 0");
  if (flags.pace == recorded_pace) {
    options.recorded_pace = true;
    options.recorded_slow = flags.slow;
    options.pace_text = flags.pace;
  } else if (!flags.pace.empty()) {
    options.pace = parse_pace(flags.pace);
    options.pace->slow = flags.slow;
    options.pace_text = flags.pace;
    if (options.pace->link_bandwidth() < 1)
      throw ToolError("--slow: " + std::to_string(flags.slow) +
                      " leaves a link of less than 1 byte a second");
  } else if (flags.slow != 1) {
    throw ToolError("--slow needs --pace");
  }
  options.scale = flags.scale;
  options.seed = flags.seed;
  options.limit = flags.limit;
  options.announce = flags.announce;
  options.ahead = flags.ahead;
  options.vmm = !flags.no_vmm;
  options.multi_map = !flags.no_multi_map;
  options.verify = !flags.no_verify;
  if (flags.check_one_in == 0 || flags.check_one_in > most_lines)
    throw ToolError("--check-one-in: " + std::to_string(flags.check_one_in) +
                    " is not between 1 and " + std::to_string(most_lines));
  options.check_one_in = flags.check_one_in;
  options.warm_up = !flags.no_warm_up;
  options.steps = flags.steps;
  options.as_operations = flags.as_operations;
  options.touch = flags.touch;
  options.yardstick = flags.yardstick;
  options.all_resident = !flags.no_all_resident;
  if (!flags.policy.empty()) check_choice("--policy", flags.policy, policy_choices());
  options.policy = flags.policy;
  options.policy_load = flags.policy_load;
  options.policy_save = flags.policy_save;
  options.backend = flags.backend;
  check_virtual(flags, options);
  options.json = flags.json;
  options.json_out = flags.json_out;
  options.progress = flags.progress;
  return options;
}

Settings settle(const ReplayOptions &options, const Plan &plan) {
  Settings settings;
  // On other devices than the host's no page is smaller than their granules.
  constexpr uint64_t usual_page = uint64_t{4} << 20;
  settings.page = options.granule != 0        ? options.granule
                  : options.backend == "host" ? default_granule(plan.peak_live_bytes)
                                              : usual_page;
  const uint64_t page = settings.page;
  settings.footprint = measure_footprint(plan, {page, options.ahead, !options.vmm});

  const uint64_t least =
      round_up(settings.footprint.largest_set + settings.footprint.largest_set / 10, page);
  const uint64_t asked = options.device_memory.of(plan.peak_live_bytes);
  settings.device_budget = std::max<uint64_t>(asked / page * page, page);
  // Where nothing can leave the device all of a set is there before it is used, and whether all fits is what is asked.
  const bool nothing_leaves =
      options.host_memory && options.host_memory->of(plan.peak_live_bytes) == 0 &&
      !options.compressed_memory && options.storage.empty() && !options.neighbour;
  if (settings.device_budget < least && !nothing_leaves) {
    settings.notes.push_back("device memory raised from " + format_bytes(asked) + " to " +
                             format_bytes(least) + ": the largest operation uses " +
                             format_bytes(settings.footprint.largest_set) + " in whole pages");
    settings.device_budget = least;
  }
  const uint64_t everything = settings.footprint.live + settings.footprint.live / 4 + 64 * page;
  settings.host_budget = options.host_memory ? options.host_memory->of(plan.peak_live_bytes)
                                             : round_up(everything, page);
  if (options.compressed_memory)
    settings.compressed_budget = options.compressed_memory->of(plan.peak_live_bytes);
  if (!options.storage.empty())
    settings.storage_budget = round_up(
        options.storage_size ? options.storage_size->of(plan.peak_live_bytes) : everything, page);
  if (options.neighbour)
    settings.neighbour_budget =
        std::max(options.neighbour->of(plan.peak_live_bytes) / page * page, page);
  settings.all_resident_budget = settings.footprint.all_resident;
  // Without VMM blocks lie in segments with gaps between them.
  if (!options.vmm)
    settings.all_resident_budget = round_up(settings.all_resident_budget * 3 / 2, page);
  settings.context_options =
      host_options(options, page, std::max(settings.device_budget, settings.neighbour_budget),
                   settings.neighbour_budget != 0);
  settings.all_resident_context_options = host_options(options, page, settings.all_resident_budget);
  settings.notes.insert(settings.notes.end(), plan.notes.begin(), plan.notes.end());
  if (plan.stray_uses != 0)
    settings.notes.push_back(std::to_string(plan.stray_uses) +
                             " use lines outside any operation were left out");
  if ((settings.compressed_budget != 0 || settings.storage_budget != 0) && !options.host_memory)
    settings.notes.push_back(
        "host memory has room for everything, so nothing need sink to the tiers below it: see "
        "--host-memory");
  if (settings.compressed_budget != 0 && options.data == DataMode::pattern)
    settings.notes.push_back(
        "the contents 'pattern' do not compress as a program's data do: see --data tensor");
  if (plan.uses == 0)
    settings.notes.push_back("the trace has no uses: blocks come and go, nothing is acquired");
  return settings;
}

}  // namespace weir::tool
