// SPDX-License-Identifier: Apache-2.0
//
// Policy: which pages leave a device. The engine tells what becomes resident and asks for victims; the
// policy reads the rest (recency, announced next use, cost) through a View when it decides, so that the hit
// path need not tell it anything. Nor is it told which pages leave without having been chosen: it asks for some now and then, so
// that what it keeps stays in proportion to the pages there are. One policy object per device; called under the pool's lock.
#pragma once

#include "core/base/memory.hpp"

#include <cstdint>
#include <functional>
#include <memory_resource>
#include <vector>

namespace weir::policy {

/// A page of a region on the policy's device. The generation tells a dead region from one that reuses its slot; once in
/// 65536 lives it does not, and the policy then knows a page twice, which is harmless: the engine refuses the second.
struct PageRef {
  uint32_t region = 0;
  uint32_t page = 0;
  uint16_t generation = 0;
};

/// Where a walk over pages goes on: by the numbers of regions, and within one by those of its pages.
struct PageCursor {
  uint32_t region = 0, page = 0;
};

/// What a policy may weigh.
struct PageInfo {
  uint64_t bytes = 0;
  uint64_t last_use = 0;           ///< logical tick (base/clock.hpp)
  uint64_t next_use = UINT64_MAX;  ///< operations until then; UINT64_MAX: not announced
  /// Operations until then by what was learned of the program; UINT64_MAX: nothing is foreseen.
  uint64_t foreseen = UINT64_MAX;
  bool done =
      false;  ///< by that, nobody reads these bytes again: then they are destroyed or overwritten
  /// Its place among the prefetches that nobody has used yet, by their age; UINT64_MAX: it is none of them.
  uint64_t prefetch = UINT64_MAX;
  int32_t priority = 0;
  bool dirty = false;       ///< evicting it means a copy down
  bool disposable = false;  ///< nobody owns it any more, or ...
  bool borrowed = false;    ///< ... its owner is to be elsewhere
  bool cold = false;        ///< advised so
  bool evictable = false;   ///< neither leased nor held, and in place
  /// By a glance: last_use is what is known without looking at all of many buffers, and may be less; evictable may be more.
  bool rough = false;
  uint32_t client = 0;
  static constexpr uint64_t lives = UINT64_MAX - 1;
  /// Of a disposable page: the look at what is idle (IdleScan) at which its owner died; `lives`: he did not.
  uint64_t dead_since = 0;
};

class View {
 public:
  /// False: the page is no longer resident here; the policy forgets it.
  virtual bool describe(const PageRef &page, PageInfo *info) = 0;
  /// The same at a cost that does not grow with the buffers that lie there: then it may be rough.
  virtual bool glance(const PageRef &page, PageInfo *info) { return describe(page, info); }
  /// As describe(), for nothing but its answer.
  virtual bool knows(const PageRef &page) noexcept = 0;
  /// Whose page it is; UINT32_MAX: nobody's, or it is not known.
  virtual uint32_t client_of(const PageRef &page) const noexcept = 0;
  /// A page, and when it was used last, as far as that is known.
  using Visit = std::function<void(const PageRef &page, uint64_t last_use)>;
  /// Tells of the client's pages that are there and not borrowed, from *from on, and looks at some thousand records at most.
  /// Between two calls pages may come, which the policy is told of, and go. True: that were all.
  virtual bool list(uint32_t client, PageCursor *from, const Visit &visit) = 0;
  virtual uint64_t now() const = 0;
  virtual ~View() = default;
};

struct Wanted {
  uint64_t bytes = 0;
  uint32_t client = UINT32_MAX;  ///< only pages of this client, if set
  uint64_t not_before = 0;       ///< prefetch: nothing whose announced next use is nearer than this
  bool clean_only = false;
  bool dirty_only = false;
  bool disposable_only = false;
  bool keep_prefetched = false;       ///< nothing that was prefetched and not used yet
  bool given_up_only = false;         ///< only what a plan has given up, and can be dropped
  bool all_or_nothing = false;        ///< no victims where there are not `bytes` of them
  uint64_t dead_before = UINT64_MAX;  ///< if set, only of owners that died before this look
  size_t most_looks = SIZE_MAX;       ///< no page beyond so many, coldest first, is looked at
};

class GivenUp;

class Policy {
 public:
  virtual ~Policy() = default;

  /// The page became resident. Throws std::bad_alloc with nothing changed.
  virtual void admit(const PageRef &page, uint64_t tick) = 0;
  /// Makes room for `pages` admissions, so that the next ones do not fail.
  virtual void reserve(size_t pages) = 0;
  /// Pages may have left that were not chosen: a good time to ask for some.
  virtual void forget_some() noexcept = 0;
  /// The page lost its owner, or (`borrowed`) that is to be elsewhere: it is to go before any other.
  virtual void dispose(const PageRef &page, bool borrowed) = 0;
  /// Whether there may be a disposable page.
  virtual bool any_disposable() const noexcept = 0;
  /// choose() for a client alone looks through the client's pages, which have to be listed for that: this does so with some thousand
  /// records. True: they are all listed; false: it is to be called again, before which the lock may be dropped. What choose() does
  /// not find listed it lists at once. Throws std::bad_alloc, and then it begins anew.
  virtual bool list_own(uint32_t client) = 0;
  /// Appends victims worth at least wanted.bytes to *victims, as far as there are any, in the order they should go;
  /// returns their bytes. A page that is known twice may be returned twice, until somebody claims it.
  virtual uint64_t choose(const Wanted &wanted, std::pmr::vector<PageRef> *victims) = 0;
  /// A victim that stays after all. False: there was no memory to remember it; it is to be admitted again later.
  virtual bool give_back(const PageRef &page, uint64_t tick) noexcept = 0;
  /// What plans have given up, of a policy that carries plans out; nullptr: it does not.
  virtual GivenUp *given_up() noexcept { return nullptr; }
};

/// Policies by name; nullptr if there is none. The view outlives the policy.
Owned<Policy> make_policy(const char *name, View &view, std::pmr::memory_resource *memory);

}  // namespace weir::policy
