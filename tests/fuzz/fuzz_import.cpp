// SPDX-License-Identifier: Apache-2.0
//
// What weir import and weir snapshot read, damaged: pickles of memory snapshots and JSON of pools. The answer must be what was made of it or a refusal that
// names the file. A trace that is made must be one that is read without a word; a pickle that is written must be one that is read, with blocks that
// fill their segments. The same files for the same seed.

#include "tests/fuzz/fuzz_options.hpp"
#include "tests/tools/trace_files.hpp"

#include "tools/weir/import/import_trace.hpp"
#include "tools/weir/import/memory_viz.hpp"
#include "tools/weir/import/pickle.hpp"
#include "tools/weir/import/pickle_writer.hpp"
#include "tools/weir/import/pool_snapshot.hpp"
#include "tools/weir/import/torch_snapshot.hpp"
#include "tools/weir/recorded/program.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

namespace {

using namespace weir::tool;

[[noreturn]] void die(const char *what) {
  std::fprintf(stderr, "fuzz_import: %s\n", what);
  std::abort();
}

void expect_named(const ToolError &error) {
  if (std::string(error.what()).find("fuzzed") == std::string::npos)
    die("a refusal that does not name the file");
}

/// A history of allocations in every form that a pickle has: texts and numbers of several kinds, and shared lists.
std::string valid_pickle() {
  PickleWriter writer;
  const auto text = [&writer](const char *key, const char *value) {
    writer.key(key);
    writer.text(value);
  };
  const auto number = [&writer](const char *key, uint64_t value) {
    writer.key(key);
    writer.number(value);
  };
  const auto frames = [&] {
    writer.key("frames");
    writer.begin_list();
    writer.begin_dict();
    text("filename", "/home/user/train.py");
    text("name", "forward");
    number("line", 12);
    writer.end_dict();
    writer.end_list();
  };
  writer.begin_dict();
  writer.key("segments");
  writer.begin_list();
  for (uint64_t segment = 0; segment < 2; ++segment) {
    writer.begin_dict();
    number("device", segment);
    number("address", (segment + 1) << 40);
    number("total_size", 2 << 20);
    number("stream", segment * 7);
    writer.key("blocks");
    writer.begin_list();
    for (uint64_t block = 0; block < 4; ++block) {
      writer.begin_dict();
      number("size", 512 << 10);
      number("requested_size", 500'000 + block);
      text("state", block % 2 == 0 ? "active_allocated" : "inactive");
      frames();
      writer.end_dict();
    }
    writer.end_list();
    writer.end_dict();
  }
  writer.end_list();
  writer.key("device_traces");
  writer.begin_list();
  for (uint64_t device = 0; device < 2; ++device) {
    writer.begin_list();
    for (uint64_t i = 0; i < 12; ++i) {
      static constexpr const char *actions[] = {"alloc", "free_requested", "free_completed"};
      writer.begin_dict();
      text("action", i == 11 ? "snapshot" : actions[i % 3]);
      number("addr", ((device + 1) << 40) + 4096 * (1 + 2 * (i / 3)));
      number("size", 100 + i / 3);
      number("stream", device * 7);
      number("time_us", 1'700'000'000'000'000 + 10 * i);
      frames();
      writer.end_dict();
    }
    writer.end_list();
  }
  writer.end_list();
  writer.end_dict();
  return writer.take();
}

std::string valid_json() {
  std::string text =
      "{\"pool\": \"p\", \"stats\": {\"host_bytes\": 65536, \"host_budget\": 1048576},\n"
      "\"devices\": [{\"device\": 0, \"budget\": 1048576, \"bytes\": 524288, \"free_bytes\": 5},\n"
      "{\"device\": 1, \"budget\": 1048576, \"bytes\": 0}], \"clients\": [{\"name\": \"\"},\n"
      "{\"name\": \"c\"}], \"buffers\": [\n";
  for (int i = 0; i < 6; ++i)
    text += std::string(i == 0 ? "" : ",") +
            "{\"name\": \"b\\u00e9\", \"client\": " + std::to_string(i % 3) +
            ", \"stack\": 1, \"size\": 65536, \"home\": " + std::to_string(i % 2) +
            ", \"device_bytes\": 65536, \"host_bytes\": " + std::to_string(i * 4096) +
            ", \"storage_bytes\": 12}\n";
  return text +
         "], \"stacks\": {\"1\": [\"main(+0x5) [+0x7]\"]}, \"modules\": [{\"path\": \"/bin/main\", "
         "\"build_id\": \"0a\"}], \"dropped_stacks\": 0}";
}

std::string file_text(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Taking {
 public:
  Taking() : file_(memfd_create("weir-fuzz", MFD_CLOEXEC)) {
    if (file_ < 0) die("no file in memory");
    path_ = "/proc/self/fd/" + std::to_string(file_);
    limits_.values = 1 << 16;
    limits_.memo = 1 << 12;
    limits_.stack = 1 << 14;
  }
  ~Taking() { close(file_); }
  Taking(const Taking &) = delete;
  Taking &operator=(const Taking &) = delete;

  bool pickle(const std::string &bytes) {
    ++executions_;
    ImportResult result;
    try {
      const Pickle read(bytes, "fuzzed", limits_);
      try {
        result = import_trace(read_torch_snapshot(read), "fuzzed", executions_ % 2 == 0);
      } catch (const ToolError &) {  // a pickle, and no snapshot
        ++plain_;
        return false;
      }
    } catch (const ToolError &error) {
      expect_named(error);
      return false;
    }
    ++taken_;
    check_trace(result);
    return true;
  }

  bool json(const std::string &text) {
    ++executions_;
    std::string bytes;
    try {
      bytes = memory_viz(parse_pool_snapshot(text, "fuzzed"), {});
    } catch (const ToolError &error) {
      expect_named(error);
      return false;
    }
    ++taken_;
    const Pickle read(bytes, "viz");
    const PickleValue *segments = read.find(read.root(), "segments");
    if (segments == nullptr) die("no segments");
    for (const PickleValue &segment : read.elements(*segments)) {
      int64_t sum = 0;
      for (const PickleValue &block : read.elements(*read.find(segment, "blocks")))
        sum += read.integer(block, "size", 0);
      if (sum != read.integer(segment, "total_size", -1)) die("blocks do not fill their segment");
    }
    (void)read_torch_snapshot(read);
    return true;
  }

  uint64_t executions() const { return executions_; }
  uint64_t taken() const { return taken_; }
  uint64_t plain() const { return plain_; }

 private:
  void check_trace(const ImportResult &result) {
    const std::string &trace = result.trace;
    if (ftruncate(file_, 0) != 0 ||
        pwrite(file_, trace.data(), trace.size(), 0) != static_cast<ssize_t>(trace.size()))
      die("a file in memory is not written");
    try {
      TraceFile file(path_);
      const recorded::Program program = recorded::read_program(file, {});
      if (!program.notes.empty()) die("a trace that is read with a word");
      if (program.allocations.size() != result.allocations) die("an allocation is not there");
      if (program.peak_live_bytes != result.peak_live_bytes) die("another peak");
    } catch (const ToolError &error) {
      die(error.what());
    }
  }

  int file_;
  std::string path_;
  PickleLimits limits_;
  uint64_t executions_ = 0, taken_ = 0, plain_ = 0;
};

class Mutator {
 public:
  Mutator(Taking &taking, const std::vector<std::string> &pickles, uint64_t seed)
      : taking_(taking), pickles_(pickles), json_(valid_json()), random_(seed) {}

  void step() {
    const bool json = below(4) == 0;
    std::string bytes = json ? json_ : pickles_[below(pickles_.size())];
    const uint64_t edits = below(5);
    for (uint64_t edit = 0; edit < edits; ++edit) damage(&bytes, json);
    const bool taken = json ? taking_.json(bytes) : taking_.pickle(bytes);
    if (edits == 0 && !taken) die("a valid file is refused");
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }

  void damage(std::string *bytes, bool json) {
    if (bytes->size() < 20) return;
    // Operations, and what numbers and texts begin with.
    static constexpr char pickle_bytes[] =
        "\x80\x95(]})lt\x85\x86\x87"
        "aesu0"
        "12pqrghj\x94NKMJ\x8a\x8b"
        "GXU\x8c\x8d\x88\x90\x91\xff\0.";
    static constexpr char json_bytes[] = "{}[],:\"\\-0129.eEtn \xff\0";
    const size_t size = bytes->size();
    const size_t at = below(size);
    switch (below(8)) {
      case 0:
        return bytes->resize(at);
      case 1: {  // a piece of it again, elsewhere
        const size_t from = below(size), length = std::min<size_t>(below(200), size - from);
        bytes->insert(at, bytes->substr(from, length));
        return;
      }
      case 2:
        bytes->erase(at, below(30));
        return;
      case 3:
        (*bytes)[at] = static_cast<char>(random_());
        return;
      case 4: {  // a number
        if (json) return number(bytes, at);
        std::memset(bytes->data() + at, below(2) == 0 ? 0xff : 0x7f,
                    std::min<size_t>(1 + below(8), size - at));
        return;
      }
      case 5:
        if (json) return number(bytes, at);
        [[fallthrough]];
      default:
        if (json)
          (*bytes)[at] = json_bytes[below(sizeof json_bytes - 1)];
        else
          (*bytes)[at] = pickle_bytes[below(sizeof pickle_bytes - 1)];
    }
  }

  void number(std::string *text, size_t at) {
    static constexpr const char *telling[] = {
        "0", "18446744073709551615", "-1", "1e9", "9000000000000000000", "null", "[]", "\"x\""};
    at = text->find_first_of("0123456789", at);
    if (at == text->npos) return;
    const size_t end = std::min(text->find_first_not_of("0123456789", at), text->size());
    text->replace(at, end - at, telling[below(std::size(telling))]);
  }

  Taking &taking_;
  const std::vector<std::string> &pickles_;
  std::string json_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char **argv) {
  weir::test::FuzzOptions options;
  if (!options.read(argc, argv, "fuzz_import")) return 2;
  const auto [seconds, seed, runs, steps] = options;
  std::vector<std::string> pickles = {valid_pickle()};
  if (const char *source = std::getenv("WEIR_SOURCE_DIR"))
    for (const char *name : {"training", "two_devices_cut", "older"})
      pickles.push_back(
          file_text(std::string(source) + "/tests/tools/snapshots/" + name + ".pickle"));
  Taking taking;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  long done = 0;
  for (; runs != 0 ? done < runs : std::chrono::steady_clock::now() < end; ++done) {
    Mutator mutator(taking, pickles, seed + static_cast<uint64_t>(done));
    for (long step = 0; step < steps; ++step) mutator.step();
  }
  std::printf("fuzz_import: %ld runs, %llu executions, %llu taken, %llu only pickles\n", done,
              static_cast<unsigned long long>(taking.executions()),
              static_cast<unsigned long long>(taking.taken()),
              static_cast<unsigned long long>(taking.plain()));
  if (taking.executions() >= 1000 &&
      (taking.taken() * 20 < taking.executions() || taking.taken() == taking.executions()))
    die("the damage is too much, or too little, to say anything");
  return 0;
}
