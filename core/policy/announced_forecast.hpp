// SPDX-License-Identifier: Apache-2.0
//
// AnnouncedForecast: what the streams of one device have announced, as one row of operations. What several streams have announced is
// merged by how fast each has been. A buffer of which no other use is announced is taken for dead: whoever plans by this plans nothing
// for it, and if it lives on, its pages go as those do that no plan knows. Guarded by whoever owns it.
//
// Invariants: it reads announcements and changes none. An operation that has been consumed is not given any more.
#pragma once

#include "core/policy/announcements.hpp"
#include "core/policy/forecast.hpp"

namespace weir::policy {

class AnnouncedForecast final : public Forecast {
 public:
  AnnouncedForecast(Announcements &announcements, Cast &cast, std::pmr::memory_resource *memory)
      : announcements_(announcements),
        cast_(cast),
        streams_(memory),
        regions_(memory),
        places_(memory),
        deaths_(memory),
        uses_(memory) {}

  /// The stream is one of the device's, from its oldest operation on. Throws std::bad_alloc with nothing changed.
  void follow(uint32_t slot);
  /// The stream has acquired.
  void note_acquire(uint32_t slot) noexcept;
  void forget(uint32_t slot) noexcept;
  /// Those of the streams of which that is true.
  template <class Ended>
  void forget_if(Ended &&ended) noexcept {
    std::erase_if(streams_, [&ended](const Stream &stream) { return ended(stream.slot); });
  }
  /// A stream has announced so many operations more. Where they are a large part of all, an iteration for instance, what was told to die
  /// before is used again in them.
  void note_announced(uint64_t count) noexcept {
    outdated_ = outdated_ || count >= announced() / large_part;
  }
  /// So much has been announced since rewind() that it is time to rewind.
  bool outdated() const noexcept { return outdated_; }
  /// Operations that are announced and have not been consumed.
  uint64_t announced() const noexcept;
  /// Streams that it follows.
  size_t streams() const noexcept { return streams_.size(); }

  void rewind() override;
  const ForecastOperation *next() override;
  Outlook outlook(uint32_t part) const noexcept override {
    return part < regions_.size() ? outlook_of(regions_[part]) : Outlook{};
  }
  /// The same of a region; from now on.
  Outlook outlook_of(uint32_t region) const noexcept;

 private:
  static constexpr uint64_t large_part = 3;
  struct Stream {
    uint32_t slot;
    uint64_t next;      ///< operation to be given
    double pace = 1;    ///< operations of late
    double walked = 0;  ///< operations given since the rewind, over its pace
  };
  /// An operation of the stream is as many of all streams' together.
  double of_all(const Stream &stream) const noexcept;
  Outlook outlook_after(const Stream &stream, const AnnouncedUse &use,
                        uint64_t number) const noexcept;
  uint32_t part_of(const AnnouncedUse &use);

  Announcements &announcements_;
  Cast &cast_;
  std::pmr::vector<Stream> streams_;
  std::pmr::vector<uint32_t> regions_;  ///< by part: that it was seen on
  std::pmr::vector<uint32_t> places_;   ///< by part: where it is among `uses_`, if it is there
  std::pmr::vector<uint32_t> deaths_;   ///< of `operation_`, as its ...
  std::pmr::vector<ForecastUse> uses_;  ///< of `operation_`
  ForecastOperation operation_;
  bool outdated_ = false;
};

}  // namespace weir::policy
