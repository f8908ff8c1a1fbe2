// SPDX-License-Identifier: Apache-2.0
//
// LineSharing: sharing where a granule has one address. A client's regions lie byte by byte on lines of addresses, as
// physical/shared_line.hpp chooses, and two neighbours share the page at their boundary: its granule is mapped once, for
// both. A region's address comes from its run, so it has no range of its own on the device; nothing on a line moves.
//
//     pages    |        |        |        |
//     regions  [    a      |   b      ]            the second page is a bundle of a's last fragment and b's first,
//                                                  the third one of b's last
//
// Regions that are large enough for large pages keep these, which want their alignment, and share nothing: a page is little to
// them. A new line is at least twice as long as the longest that its client has; a line goes back when its last run has ended.
//
// Invariants, checked by validate(): a run that does not begin, or end, at a page's boundary has a bundle there, and its
// neighbour in that page has the same one; a bundle's `lots` are the runs that name it. Under the pool's lock.
#pragma once

#include "core/page/address_space.hpp"
#include "core/page/sharing.hpp"

namespace weir::page {

class LineSharing final : public Sharing {
 public:
  LineSharing(AddressSpace &addresses, uint64_t page, uint64_t large_page, uint64_t budget,
              std::pmr::memory_resource *memory);

  Geometry place(uint32_t client, uint64_t size, uint64_t address_alignment, Lot *lot) override;
  /// A run beside a page that could not be unmapped stays taken: nothing else can be mapped there.
  void leave(uint32_t client, const Lot &lot) noexcept override;
  uint64_t address(uint32_t client, const Lot &lot) const noexcept override;
  std::string validate() const override;

 private:
  using SharedLine = physical::SharedLine;
  /// Rounding to whole pages that wastes no more than a share of this of a region is left alone.
  static constexpr uint64_t least_share = 200;
  struct Line {
    Line(const AddressRange &range_, uint64_t bytes_, uint64_t page,
         std::pmr::memory_resource *memory)
        : range(range_), bytes(bytes_), runs(bytes_, page, memory, least_share) {}
    AddressRange range;
    uint64_t bytes;
    SharedLine runs;
  };
  using Lines = std::pmr::vector<Owned<Line>>;  ///< of one client; those that went back are null
  /// The bundles of a run's ends, as its owner word has them.
  struct Ends {
    uint32_t first = none, last = none;
    explicit Ends(uint64_t word) noexcept
        : first(static_cast<uint32_t>(word)), last(static_cast<uint32_t>(word >> 32U)) {}
    uint64_t word() const noexcept { return first | (uint64_t{last} << 32U); }
  };

  uint32_t bundle_at(uint32_t client, const Lot &lot, bool first) const noexcept override;
  const Line &line_of(uint32_t client, const Lot &lot) const noexcept {
    return *lines_[client][std::get<LinePlace>(lot).line];
  }
  Lines &lines_of(uint32_t client);
  SharedLine::Plan choose(const Lines &lines, uint64_t size, uint64_t step, uint32_t *line) const;
  bool add_line(Lines &lines, uint64_t size);
  uint32_t take_mapped_bundle();
  Ends ends_of(const SharedLine &line, SharedLine::Run run, uint32_t spare[2]) noexcept;
  void leave_bundle(uint32_t index) noexcept {
    if (index != none && --bundles_[index].lots == 0) give_bundle(index);
  }
  bool stuck(uint32_t index) const noexcept {
    return index != none && bundles_[index].mapping->stuck();
  }
  std::string validate(const SharedLine &line, std::pmr::vector<uint32_t> *lots) const;

  AddressSpace &addresses_;
  const uint64_t first_line_;      ///< bytes of a client's first line
  std::pmr::vector<Lines> lines_;  ///< by client
};

}  // namespace weir::page
