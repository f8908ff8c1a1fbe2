// SPDX-License-Identifier: Apache-2.0
//
// Views of slots: mapped over one reservation as long as the region.

#include "core/page/aliases.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace weir::page {

Status Aliases::show(const tier::HostStore &host, Region &region, uint32_t first, uint32_t last) {
  WEIR_TRY(host.check_aliasable());
  const bool fresh = region.host.alias == nullptr;
  if (fresh) {
    const uint64_t bytes = tier::HostStore::rounded(region.shape.size);
    void *place =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
      return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no address space for a host lease: %s",
                  strerrordesc_np(errno));
    }
    region.host.alias = static_cast<unsigned char *>(place);
    region.host.alias_bytes = bytes;
  }
  for (uint32_t p = first; p <= last; ++p) {
    Page &page = region.pages.edit(p);
    if (!page.host() || page.in_view) continue;
    const Status status =
        host.map_alias(page.host(), tier::HostStore::rounded(region.shape.used_bytes(p)),
                       region.host.alias + region.shape.offset(p));
    if (!status) {
      if (fresh) drop(region);
      return status;
    }
    page.in_view = true;
  }
  return {};
}

bool Aliases::in_use(const Region &region) noexcept {
  if (region.host.alias == nullptr || region.owner.buffer == BufferDirectory::none) return false;
  const uint64_t word = buffers_.hot(region.owner.buffer).word.load(std::memory_order_relaxed);
  return Word::leases(word) != 0 || (word & Word::partial) != 0;
}

void Aliases::hide(Region &region, uint32_t page) noexcept {
  if (region.host.alias == nullptr) return;
  const uint64_t word = region.owner.buffer != BufferDirectory::none
                            ? buffers_.hot(region.owner.buffer).word.load(std::memory_order_relaxed)
                            : 0;
  // The lease that has the whole buffer alone, to write it, gives the slot up itself.
  if (!in_use(region) || (word & (Word::writer | Word::part)) == Word::writer) {
    drop(region);
    return;
  }
  region.pages.edit(page).in_view = false;
  // Without memory for that it shows what nobody has a lease on.
  (void)mmap(region.host.alias + region.shape.offset(page),
             tier::HostStore::rounded(region.shape.used_bytes(page)), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void Aliases::drop(Region &region) noexcept {
  if (region.host.alias == nullptr) return;
  munmap(region.host.alias, region.host.alias_bytes);
  region.host.alias = nullptr;
  for (uint32_t p = 0; p < region.pages.size(); ++p) region.pages.edit(p).in_view = false;
}

}  // namespace weir::page
