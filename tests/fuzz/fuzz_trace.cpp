// SPDX-License-Identifier: Apache-2.0
//
// Recorded programs (traces "#vmt 2") that are damaged in their bytes, lines and numbers, plain and compressed. The answer must be a program or a refusal
// that names the file; a program is then taken for operations, whose blocks and ranges must be right, and small ones are replayed:
// what they read must be what they wrote, or a call is refused. The same traces for the same seed.

#include "tests/fuzz/fuzz_options.hpp"
#include "tests/tools/trace_files.hpp"

#include "tools/weir/plan.hpp"
#include "tools/weir/recorded/program.hpp"
#include "tools/weir/recorded/run.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>
#include <zstd.h>

namespace {

using namespace weir::tool;

[[noreturn]] void die(const char *what) {
  std::fprintf(stderr, "fuzz_trace: %s\n", what);
  std::abort();
}

/// A file in memory with a path.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("weir-fuzz", MFD_CLOEXEC)) {
    if (file_ < 0) die("no file in memory");
    path_ = "/proc/self/fd/" + std::to_string(file_);
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  const std::string &holding(const std::string &bytes) const {
    if (ftruncate(file_, 0) != 0 ||
        pwrite(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      die("a file in memory is not written");
    return path_;
  }

 private:
  int file_;
  std::string path_;
};

constexpr const char *head =
    "#vmt 2\n#name fuzzed\ncontext 0\ndevice 0 0 backend=host memory=1048576 granule=4096\n"
    "device 0 1 backend=host memory=1048576 granule=4096\nlink 0 0 1 kind=nvlink bandwidth=5000\n"
    "pool 0 0 flags=1 host_budget=1048576 page_size=4096 large_page_size=4096 policy=lru-window\n"
    "pool_device 0 0 40960\npool_device 0 1 40960\n";

std::vector<std::string> valid_traces() {
  const std::string whole =
      std::string(head) +
      "stream 0 0 0\nstream 1 0 1\nstream 2 0 h\nclient 0 0 name=c priority=-1 device_quota=40960\n"
      "n 0 1 layer\nb 0 0 16384 name=a users=0,h\nb 1 0 16384 client=0 home=1 priority=1\n"
      "b 2 0 700 home=any\nb 3 0 20480 element=3 tag=77\nt 5\nj 0\np begin\nwrite 0\nwrite 2 1 99\n"
      "announce 0 0 2 flags=1\no 1 2\nu 0 r\nu 1 w\no =b%20c 1\nu 3 x 4096 -\nprefetch 0 0 1\nu 3 "
      "r\n"
      "l 0 0 0 1 2\nu 0 r\nu 3 w\nl 1 0 1 =other 2\nu 1 w\nu 2 X 5 9\nr 0 0\nr 1 1\nk 0 500\n"
      "l 0 0 2 - 1 flags=1 timeout_ns=5\nu 3 x 0 5000\nr 0 2\nhold 0 0 r\nunhold 0\n"
      "refused -6 0 0 - 1\nu 0 w\nm 4096 0 0 0 3000 name=m\nx 4096 -\ndiscard 3 4096 8192\nt 9\n"
      "advise 1 1\npriority 1 -2\nname 1 -\nread 3\nread 0 100 1000\nsynchronize 0\n"
      "trim 0 0 1 4096\nrebalance 0 4096\ndefragment 0 all flags=1 max_bytes=4096\nf 2\nj 1\n"
      "end_stream 2\nstats 0 hits=3\nend_pool 0\nend\n";
  std::string small = std::string(head) + "stream 0 0 0\n";
  for (int i = 0; i < 12; ++i) small += "b " + std::to_string(i) + " 0 8192\n";
  for (int i = 0; i < 60; ++i)
    small += "l " + std::to_string(i) + " 0 0 - 1\nu " + std::to_string(i * 7 % 12) +
             (i % 3 == 0 ? " w\nr " : " x\nr ") + std::to_string(i) + " 0\n";
  return {whole, small + "end\n"};
}

class Taking {
 public:
  /// Whether it was taken.
  bool run(const std::string &bytes, bool replay) {
    ++executions_;
    const std::string &path = file_.holding(bytes);
    recorded::Program program;
    try {
      TraceFile file(path);
      if (file.version() != 2) return false;
      program = recorded::read_program(file, {});
    } catch (const ToolError &error) {
      if (std::string(error.what()).find(path) == std::string::npos)
        die("a refusal that does not name the file");
      return false;
    }
    ++taken_;
    check(path, program);
    if (replay && is_small(program)) this->replay(program);
    return true;
  }
  uint64_t executions() const { return executions_; }
  uint64_t taken() const { return taken_; }
  uint64_t replayed() const { return replayed_; }

 private:
  /// Every operation is one of the program's, and the plan's own checks have nothing to say.
  void check(const std::string &path, const recorded::Program &program) {
    const Plan plan = read_plan(path, {});
    if (plan.operations.size() != program.leases.size()) die("an operation is not there");
    if (plan.uses != program.acquired_uses) die("a use is not there");
    if (plan.block_bytes.size() != program.buffers.size() + program.allocations.size())
      die("a block is not there");
    for (const recorded::ProgramUse &use : program.uses)
      if (use.buffer >= program.buffers.size() || use.length > program.buffers[use.buffer].size ||
          use.offset > program.buffers[use.buffer].size - use.length || use.length == 0)
        die("a use beyond its buffer");
    for (const recorded::ProgramCall &call : program.calls)
      if (call.pool != recorded::no_thing && call.pool >= program.pools.size())
        die("a call of no pool");
  }

  /// So that a replay takes little memory and time, whatever its numbers are.
  static bool is_small(const recorded::Program &program) {
    if (program.peak_live_bytes > (1 << 20) || program.pools.size() > 2 || program.pools.empty() ||
        program.streams.size() > 8 || program.calls.size() > 500)
      return false;
    for (const recorded::ProgramPool &pool : program.pools)
      if (pool.compress_threads > 4 || pool.storage_budget != 0 || pool.compressed_budget != 0 ||
          pool.policy != "lru-window" || pool.host_budget > (64 << 20) || pool.host_budget == 0 ||
          pool.devices.size() > 3 || pool.segment_size > (1 << 20) || pool.page_size > (1 << 20))
        return false;
    for (const recorded::ProgramDevice &device : program.devices)
      if (device.memory > (64 << 20)) return false;
    return std::none_of(program.calls.begin(), program.calls.end(),
                        [](const recorded::ProgramCall &call) {
                          return call.kind == recorded::CallKind::remove_device ||
                                 call.kind == recorded::CallKind::pool_device;
                        });
  }

  void replay(const recorded::Program &program) {
    ReplayFlags flags;
    flags.trace = "fuzzed";
    flags.ahead = 4;
    const ReplayOptions options = check_replay_flags(flags);
    try {
      const recorded::RunOutcome outcome = recorded::run_recorded(program, options, {});
      if (outcome.verify_errors != 0) die("what is read is not what was written");
      ++replayed_;
    } catch (const ToolError &) {  // some call can't be
    }
  }

  MemoryFile file_;
  uint64_t executions_ = 0, taken_ = 0, replayed_ = 0;
};

class Mutator {
 public:
  Mutator(Taking &taking, const std::vector<std::string> &valid, uint64_t seed)
      : taking_(taking), valid_(valid), random_(seed) {}

  void step() {
    std::string text = valid_[below(valid_.size())];
    const uint64_t edits = below(5);
    for (uint64_t edit = 0; edit < edits; ++edit) damage(&text);
    const bool packed = below(4) == 0;
    if (packed) text = compressed(text);
    if (packed && below(2) == 0) flip(&text);
    const bool taken = taking_.run(text, below(16) == 0);
    if (edits == 0 && !packed && !taken) die("a valid trace is refused");
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }

  static std::string compressed(const std::string &text) {
    std::string packed(ZSTD_compressBound(text.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
    return packed;
  }

  void flip(std::string *text) {
    if (below(2) == 0) return text->resize(below(text->size()));
    char &byte = (*text)[below(text->size())];
    byte = static_cast<char>(byte ^ (1 << below(8)));
  }

  /// Where a line begins that is not the first.
  size_t line(const std::string &text) {
    const size_t found = text.find('\n', below(text.size()));
    return found == text.npos || found + 1 >= text.size() ? 7 : found + 1;
  }

  void damage(std::string *text) {
    if (text->size() < 20) return;
    static constexpr const char *telling[] = {"0",  "1",    "4096",       "18446744073709551615",
                                              "-",  "=",    "4294967295", "18446744073709551614",
                                              "-1", "none", "unlimited",  "all",
                                              "h",  "%00",  "9999999",    "default"};
    const size_t at = line(*text);
    const size_t end = text->find('\n', at);
    switch (below(7)) {
      case 0:
        return flip(text);
      case 1:  // a line less
        text->erase(at, end == text->npos ? text->npos : end + 1 - at);
        return;
      case 2:  // a line twice, or elsewhere
        text->insert(line(*text), text->substr(at, end - at) + "\n");
        return;
      case 3:  // a line of the other
      {
        const std::string &other = valid_[below(valid_.size())];
        const size_t from = other.find('\n', below(other.size() - 1));
        if (from + 1 < other.size())
          text->insert(at, other.substr(from + 1, other.find('\n', from + 1) - from));
        return;
      }
      default: {  // another word
        const size_t space = text->find(' ', at + below(12));
        if (space == text->npos) return;
        const size_t after = std::min(text->find_first_of(" \n=", space + 1), text->size());
        text->replace(space + 1, after - space - 1, telling[below(std::size(telling))]);
        return;
      }
    }
  }

  Taking &taking_;
  const std::vector<std::string> &valid_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char **argv) {
  weir::test::FuzzOptions options;
  if (!options.read(argc, argv, "fuzz_trace")) return 2;
  const auto [seconds, seed, runs, steps] = options;
  const std::vector<std::string> valid = valid_traces();
  Taking taking;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  long done = 0;
  for (; runs != 0 ? done < runs : std::chrono::steady_clock::now() < end; ++done) {
    Mutator mutator(taking, valid, seed + static_cast<uint64_t>(done));
    for (long step = 0; step < steps; ++step) mutator.step();
  }
  std::printf("fuzz_trace: %ld runs, %llu executions, %llu taken, %llu replayed\n", done,
              static_cast<unsigned long long>(taking.executions()),
              static_cast<unsigned long long>(taking.taken()),
              static_cast<unsigned long long>(taking.replayed()));
  if (taking.executions() >= 1000 &&
      (taking.taken() * 20 < taking.executions() || taking.taken() == taking.executions() ||
       taking.replayed() == 0))
    die("the damage is too much, or too little, to say anything");
  return 0;
}
