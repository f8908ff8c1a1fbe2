// SPDX-License-Identifier: Apache-2.0
#include "collector.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weir::tool::exporter {
namespace {

using metrics::Family;
using metrics::Labels;
using metrics::Number;
using metrics::Numbers;
using metrics::Type;

enum Own : size_t { build_info, programs, elsewhere, unreadable, busy_pools, own_count };

const std::array<Family, own_count> &own() {
  static const std::array<Family, own_count> table = {{
      {"weir_exporter_build_info", Type::gauge, "version", "1; the version of the exporter"},
      {"weir_exporter_programs", Type::gauge, "state",
       "programs of the user that show themselves: seen; busy, some of its pools could not be read "
       "just now; refused, what it shows is no page that this version knows"},
      {"weir_exporter_programs_elsewhere", Type::gauge, "",
       "programs in other PID namespaces, which can't be looked at from here"},
      {"weir_exporter_unreadable_files", Type::gauge, "",
       "files in the folder of programs that name none"},
      {"weir_exporter_busy_pools", Type::gauge, "",
       "pools that were being written whenever they were looked at, and are not told of"},
  }};
  return table;
}

void tell_own(const LiveView &view, metrics::Sink &sink) {
  sink.family(own()[build_info]);
  sink.value({{"version", weir_version_string()}}, {1});
  sink.family(own()[programs]);
  const std::pair<LiveProgram::State, const char *> states[] = {
      {LiveProgram::State::seen, "seen"},
      {LiveProgram::State::busy, "busy"},
      {LiveProgram::State::refused, "refused"}};
  for (const auto &[state, name] : states) {
    const auto count = std::ranges::count(view.programs, state, &LiveProgram::state);
    sink.value({{"state", name}}, {static_cast<uint64_t>(count)});
  }
  uint64_t busy = 0;
  for (const LiveProgram &program : view.programs)
    for (const LiveContext &context : program.contexts) busy += context.busy_pools;
  sink.family(own()[elsewhere]);
  sink.value({}, {view.elsewhere});
  sink.family(own()[unreadable]);
  sink.value({}, {view.unreadable});
  sink.family(own()[busy_pools]);
  sink.value({}, {busy});
}

/// A context of a program, which is what has a number: a program with two counts as two of its name.
struct Page {
  const LiveProgram *program;
  const LiveContext *context;
  uint64_t key() const noexcept {
    return uint64_t{static_cast<uint32_t>(program->process)} << 32U | context->number;
  }
};

std::vector<Page> pages_of(const LiveView &view) {
  std::vector<Page> pages;
  for (const LiveProgram &program : view.programs)
    for (const LiveContext &context : program.contexts) {
      const Page page{&program, &context};
      // A page may say that it is another's number: one of each counts.
      const auto same = [&page](const Page &other) {
        return other.key() == page.key() && other.program->start_time == page.program->start_time;
      };
      if (std::ranges::none_of(pages, same)) pages.push_back(page);
    }
  return pages;
}

}  // namespace

std::vector<Family> Collector::own_families() { return {own().begin(), own().end()}; }

void Collector::tell(metrics::Sink &sink) {
  const std::lock_guard<std::mutex> turn(mutex_);
  const LiveView view = reader_.look();
  const std::vector<Page> pages = pages_of(view);
  std::vector<Numbers::Thing> things;
  for (const Page &page : pages)
    things.push_back({page.key(), page.program->start_time, page.program->name});
  const std::vector<uint32_t> numbers = programs_.number(things);

  std::vector<metrics::Program> told;
  std::vector<metrics::Subject> subjects;
  std::vector<Numbers::Thing> pools;
  for (size_t i = 0; i < pages.size(); ++i) {
    const LiveContext &context = *pages[i].context;
    metrics::Program &program = told.emplace_back();
    program.labels = {{"program", pages[i].program->name},
                      {"program_number", std::to_string(numbers[i])}};
    program.version = context.library;
    program.hidden_pools = context.pools_without_slot;
    const std::string owner =
        std::to_string(pages[i].key()) + " " + std::to_string(pages[i].program->start_time) + " ";
    uint64_t last = 0;
    for (const live::Pool &pool : context.pools) {
      // They come by serial; one that two slots claim is told once.
      if (subjects.size() == most_pools || pool.serial == last) {
        ++program.hidden_pools;
        continue;
      }
      last = pool.serial;
      pools.push_back({pool.serial, pages[i].key(), owner + metrics::text_of(pool.name)});
      subjects.push_back({program.labels, &pool, context.places, view.now_ns});
    }
  }
  const std::vector<uint32_t> pool_numbers = pools_.number(pools);
  for (size_t i = 0; i < subjects.size(); ++i)
    subjects[i].labels =
        metrics::with_pool(std::move(subjects[i].labels), *subjects[i].pool, pool_numbers[i]);
  tell_own(view, sink);
  metrics::tell(told, subjects, sink);
}

}  // namespace weir::tool::exporter
