// SPDX-License-Identifier: Apache-2.0
//
// Replays a load in a process that this one starts, and gets one figure back through a pipe.

#include "bench/arena/pairs.hpp"

#include "bench/arena/allocators.hpp"
#include "bench/common.hpp"
#if WEIR_BENCH_YARDSTICKS
#include "bench/arena/yardsticks.hpp"
#endif

#include <sys/wait.h>
#include <unistd.h>

namespace weir::bench {

namespace {

constexpr uint64_t line = 72 * gib;
constexpr size_t round_length = 8000;

template <class Allocator>
void replay(Allocator &allocator, std::vector<Range> &live, const Operation *begin,
            const Operation *end) {
  for (const Operation *at = begin; at != end; ++at) {
    // The caller has the handle at hand: finding it in this table is not the allocator's cost.
    if (end - at > 8) __builtin_prefetch(&live[at[8].slot], 1);
    Range &range = live[at->slot];
    if (at->size == 0) {
      allocator.free(range);
      continue;
    }
    range = allocator.allocate(at->size);
    if (range.size == 0) die("the load does not fit the line");
  }
}

template <class Allocator>
double run(const Load &load) {
  Allocator allocator(line);
  std::vector<Range> live(load.slots);
  replay(allocator, live, load.fill.data(), load.fill.data() + load.fill.size());
  std::vector<double> pair_ns;
  for (size_t at = 0; at + round_length <= load.operations.size(); at += round_length) {
    const Operation *begin = load.operations.data() + at;
    const double start = cpu_ns();
    replay(allocator, live, begin, begin + round_length);
    pair_ns.push_back((cpu_ns() - start) / (round_length / 2));
  }
  return undisturbed(pair_ns);
}

/// What a process of its own measures.
double run_alone(const Load &load, const char *allocator) {
  int ends[2];
  if (pipe(ends) != 0) die("pipe");
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "bench_arena", "--one", load.name, allocator, nullptr);
    _exit(1);
  }
  close(ends[1]);
  double figure = 0;
  const bool read_all = read(ends[0], &figure, sizeof(figure)) == sizeof(figure);
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0 || !read_all) die("a run failed");
  return figure;
}

struct Contender {
  const char *name;
  double (*run)(const Load &load);
};
/// The arena first: the others are its yardsticks.
constexpr Contender contenders[] = {
    {"arena", run<WeirArena>}, {"map_best_fit", run<MapBestFit>},          {"malloc", run<CMalloc>},
#if WEIR_BENCH_YARDSTICKS
    {"vma", run<VmaBlock>},    {"offset_allocator", run<OffsetAllocator>},
#endif
};

}  // namespace

int run_one(std::string_view load_name, std::string_view allocator) {
  for (const Load &load : all_loads()) {
    if (load_name != load.name) continue;
    for (const Contender &contender : contenders) {
      if (allocator != contender.name) continue;
      const double figure = contender.run(load);
      return write(STDOUT_FILENO, &figure, sizeof(figure)) == sizeof(figure) ? 0 : 1;
    }
  }
  return 1;
}

std::vector<Figures> measure_pairs(const Load &load, int repetitions) {
  std::vector<Figures> figures;
  for (const Contender &contender : contenders) figures.push_back({contender.name, {}});
  for (int i = 0; i < repetitions; ++i) {
    for (Figures &of : figures) of.ns.push_back(run_alone(load, of.name));
  }
  return figures;
}

Ratio ratio(const Figures &subject, const Figures &yardstick) {
  std::vector<double> ratios;
  for (size_t i = 0; i < subject.ns.size(); ++i) ratios.push_back(subject.ns[i] / yardstick.ns[i]);
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(ratios), *low, *high};
}

}  // namespace weir::bench
