// SPDX-License-Identifier: Apache-2.0
//
// Runs on lines, and the bundles at their ends.

#include "core/page/line_sharing.hpp"

#include "core/base/grow.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weir::page {
namespace {

constexpr uint64_t least_line_pages = 64;
/// There may be many clients, and a device's addresses have an end.
constexpr uint64_t largest_first_line = uint64_t{16} << 30U;
/// So that a line has room for several of the region that it is made for.
constexpr uint64_t regions_per_line = 8;

}  // namespace

LineSharing::LineSharing(AddressSpace &addresses, uint64_t page, uint64_t large_page,
                         uint64_t budget, std::pmr::memory_resource *memory)
    : Sharing(page, large_page, budget, memory),
      addresses_(addresses),
      first_line_(std::max(least_line_pages * page, std::min(budget / 2, largest_first_line))),
      lines_(memory) {}

LineSharing::Lines &LineSharing::lines_of(uint32_t client) {
  if (client >= lines_.size()) lines_.resize(client + 1);
  return lines_[client];
}

uint64_t LineSharing::address(uint32_t client, const Lot &lot) const noexcept {
  const Line &line = line_of(client, lot);
  return line.range.address + line.runs.address(std::get<LinePlace>(lot).run);
}

uint32_t LineSharing::bundle_at(uint32_t client, const Lot &lot, bool first) const noexcept {
  const Ends ends(line_of(client, lot).runs.owner(std::get<LinePlace>(lot).run));
  return first ? ends.first : ends.last;
}

/// The place that opens the fewest pages.
LineSharing::SharedLine::Plan LineSharing::choose(const Lines &lines, uint64_t size, uint64_t step,
                                                  uint32_t *line) const {
  SharedLine::Plan best;
  for (uint32_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == nullptr) continue;
    const SharedLine::Plan plan = lines[i]->runs.choose(size, step);
    if (!plan || (best && plan.opens.count >= best.opens.count)) continue;
    best = plan;
    *line = i;
  }
  return best;
}

/// False: the device has no addresses for it. Throws std::bad_alloc with nothing changed.
bool LineSharing::add_line(Lines &lines, uint64_t size) {
  uint64_t bytes = std::max(first_line_, regions_per_line * size);
  for (const auto &line : lines) {
    if (line != nullptr) bytes = std::max(bytes, 2 * line->bytes);
  }
  bytes = bytes / page_ * page_;
  grow_by(lines);
  AddressRange range;
  {
    const KeepError keep;
    if (!addresses_.allocate(bytes, page_, &range)) return false;
  }
  Owned<Line> fresh;
  try {
    fresh = make_owned<Line>(memory_, range, bytes, page_, memory_);
  } catch (...) {
    addresses_.free(range);
    throw;
  }
  const auto unused = std::find(lines.begin(), lines.end(), nullptr);
  if (unused == lines.end()) {
    lines.push_back(std::move(fresh));
  } else {
    *unused = std::move(fresh);
  }
  return true;
}

uint32_t LineSharing::take_mapped_bundle() {
  const uint32_t index = take_bundle();
  if (bundles_[index].mapping != nullptr) return index;
  try {
    bundles_[index].mapping = make_owned<physical::SharedMapping>(memory_);
  } catch (...) {
    give_bundle(index);
    throw;
  }
  return index;
}

/// The bundles of a run that was just taken: its neighbours' where they have a part of the page, else of the spare ones, which
/// become `none`.
LineSharing::Ends LineSharing::ends_of(const SharedLine &line, SharedLine::Run run,
                                       uint32_t spare[2]) noexcept {
  const uint64_t begin = line.address(run), end = begin + line.bytes(run);
  const auto join = [&](uint32_t theirs, uint32_t *fresh) {
    const uint32_t index = theirs != none ? theirs : std::exchange(*fresh, none);
    ++bundles_[index].lots;
    return index;
  };
  Ends ends(UINT64_MAX);
  if (begin % page_ != 0) {
    const SharedLine::Run before = line.before(run);
    const bool beside = before && line.address(before) + line.bytes(before) > begin / page_ * page_;
    ends.first = join(beside ? Ends(line.owner(before)).last : none, &spare[0]);
  }
  if (end % page_ != 0) {
    const SharedLine::Run behind = line.next(run);
    const bool beside = behind && line.address(behind) / page_ == end / page_;
    ends.last = join(beside ? Ends(line.owner(behind)).first : none, &spare[1]);
  }
  return ends;
}

Geometry LineSharing::place(uint32_t client, uint64_t size, uint64_t address_alignment, Lot *lot) {
  const Geometry alone = Geometry::paged(size, page_, large_page_);
  const uint64_t waste = alone.physical_bytes() - size;
  if (size < page_ || size > largest_ || alone.large != 0 || waste <= size / least_share)
    return alone;
  Lines &lines = lines_of(client);
  const uint64_t step = std::max(alignment, address_alignment);
  uint32_t at = 0;
  SharedLine::Plan plan = choose(lines, size, step, &at);
  if (!plan) {
    if (!add_line(lines, size)) return alone;
    plan = choose(lines, size, step, &at);
  }
  SharedLine &line = lines[at]->runs;
  LinePlace place;
  place.line = at;
  uint32_t spare[2] = {none, none};
  try {
    for (uint32_t &index : spare) index = take_mapped_bundle();
    place.run = line.commit(plan, UINT64_MAX);
  } catch (...) {
    for (const uint32_t index : spare) give_bundle(index);
    throw;
  }
  assert(place.run);
  line.set_owner(place.run, ends_of(line, place.run, spare).word());
  for (const uint32_t index : spare) give_bundle(index);
  *lot = place;
  const uint64_t lead = plan.address % page_;
  return shared_shape(size, lead != 0 ? page_ - lead : 0, (plan.address + plan.bytes) % page_ != 0);
}

void LineSharing::leave(uint32_t client, const Lot &lot) noexcept {
  const auto &place = std::get<LinePlace>(lot);
  Owned<Line> &line = lines_[client][place.line];
  const Ends ends(line->runs.owner(place.run));
  if (stuck(ends.first) || stuck(ends.last)) return;
  (void)line->runs.release(place.run);
  leave_bundle(ends.first);
  leave_bundle(ends.last);
  if (line->runs.runs() != 0) return;
  addresses_.free(line->range);
  line.reset();
}

std::string LineSharing::validate(const SharedLine &line, std::pmr::vector<uint32_t> *lots) const {
  std::string wrong = line.validate();
  uint64_t last_end = 0;
  uint32_t last_bundle = none;
  for (SharedLine::Run run = line.first(); run && wrong.empty(); run = line.next(run)) {
    const Ends ends(line.owner(run));
    const uint64_t begin = line.address(run), end = begin + line.bytes(run);
    if ((begin % page_ != 0) != (ends.first != none) || (end % page_ != 0) != (ends.last != none))
      return "a run's end and its bundle do not go together";
    if (begin % page_ != 0 && last_end > begin / page_ * page_ && ends.first != last_bundle)
      return "neighbours have two bundles for one page";
    for (const uint32_t index : {ends.first, ends.last}) {
      if (index != none) ++(*lots)[index];
    }
    last_end = end;
    last_bundle = ends.last;
  }
  return wrong;
}

std::string LineSharing::validate() const {
  std::pmr::vector<uint32_t> lots(bundles_.size(), memory_);
  for (const Lines &lines : lines_) {
    for (const auto &line : lines) {
      if (line == nullptr) continue;
      std::string wrong = validate(line->runs, &lots);
      if (!wrong.empty()) return "lines: " + wrong;
    }
  }
  for (size_t i = 0; i < bundles_.size(); ++i) {
    if (bundles_[i].lots != lots[i]) return "lines: a bundle is named by other runs than it counts";
  }
  return Sharing::validate();
}

}  // namespace weir::page
