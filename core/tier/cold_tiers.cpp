// SPDX-License-Identifier: Apache-2.0
//
// COMPRESSED and STORAGE: their start, places and figures.

#include "core/tier/cold_tiers.hpp"

#include "core/base/amount.hpp"

#include <algorithm>

namespace weir::tier {

Status ColdTiers::start(Config config, backend::Runtime &runtime, backend::StreamTable &streams,
                        const Clock &clock, const Log &log) {
  workers_ = make_owned<Workers>(memory_, config.threads, config.share, clock);
  WEIR_TRY(workers_->start());
  codec_ = make_owned<codec::Codec>(memory_, *workers_, config.codec);
  staging_ = make_owned<Staging>(memory_, streams);
  {
    const numa::PreferNode prefer(*config.nodes, config.node);
    WEIR_TRY(staging_->start(runtime, config.staging_slots, config.part_bytes,
                             codec::Codec::bound(config.part_bytes)));
  }
  if (config.storage.budget != 0) {
    storage_ = make_owned<StorageStore>(memory_, std::move(config.storage), log, memory_);
    WEIR_TRY(storage_->start());
    storage_->add_memory(staging_->base(), staging_->bytes());
  }
  if (config.compressed == 0) return {};
  compressed_ = make_owned<CompressedStore>(memory_, config.compressed, memory_);
  return compressed_->start();
}

void ColdTiers::list_parts(uint32_t chain, uint32_t bit, uint64_t used, LiftPart part,
                           std::pmr::vector<LiftPart> *parts) const {
  part.store = store(bit);
  for (uint32_t at = chain; at != none; at = next(at)) {
    const UnitName name = chains_[at].in(part.store->place);
    part.place = part.store->slot(name);
    part.blob = part.store->blob_bytes(name);
    part.bytes = std::min(part_bytes(), used - part.offset);
    parts->push_back(part);
    part.offset += part.bytes;
  }
}

UnitSlot ColdTiers::try_place(ColdStore &store, uint32_t client, uint64_t bytes) {
  Charge charge = accounts_.charge(client, Accounts::at(store.place), UnitArena::rounded(bytes));
  if (!charge) return {};
  return charge.pay_for([&] { return store.allocate(bytes); });
}

bool ColdTiers::free_places(uint32_t chain, uint32_t client, bool secret, uint32_t bits) noexcept {
  bool left = false;
  for (uint32_t at = chain; at != none; at = next(at)) {
    for (const Place tier : {Place::compressed, Place::storage}) {
      ColdStore *const store = this->store(tier.bit());
      if (store == nullptr || (bits & tier.bit()) == 0) continue;
      UnitName &name = chains_[at].in(store->place);
      if (!name) continue;
      const UnitSlot slot = store->slot(name);
      accounts_.freed(client, Accounts::at(store->place), store->bytes(slot));
      if (!secret) store->free(slot, client);
      left = (secret && store->free_secret(slot)) || left;
      name = {};
    }
  }
  return left;
}

bool ColdTiers::storage_is_quicker() noexcept {
  const uint64_t compressing = compressed_->pace.cost();
  const uint64_t storing = storage_->pace.cost();
  const bool room = storage_->room() > storage_->budget() / 8;
  if (!room || compressing == 0 || storing == 0 || compressing <= storing) return false;
  return ++passed_over_ % 64 != 0;
}

Status ColdTiers::fail_full(uint32_t client, uint64_t bytes) const {
  struct Tier {
    uint64_t budget = 0, used = 0;
  } packed, stored;
  if (compressed_ != nullptr) packed = {compressed_->budget(), compressed_->used()};
  if (storage_ != nullptr) stored = {storage_->budget(), storage_->used()};
  const bool last = storage_ != nullptr;
  const uint64_t room = last ? stored.budget - stored.used : packed.budget - packed.used;
  const uint64_t allowed =
      accounts_.quota(client, last ? Accounts::storage : Accounts::compressed).room();
  const bool quota = allowed < room;
  const ErrorDetail detail{.tier = last ? WEIR_TIER_STORAGE : WEIR_TIER_COMPRESSED,
                           .asked = bytes,
                           .available = std::min(room, allowed),
                           .cause = quota ? Cause::cold_quota : Cause::cold_budget,
                           .client = quota ? client : UINT32_MAX};
  return fail(WEIR_ERROR_OVER_BUDGET, detail,
              "no room below HOST for %s: COMPRESSED has %s of %s in use, STORAGE %s of %s%s%s",
              Amount(bytes).c_str(), Amount(packed.used).c_str(), Amount(packed.budget).c_str(),
              Amount(stored.used).c_str(), Amount(stored.budget).c_str(),
              quota ? "; short is the quota of client" : "",
              quota ? accounts_.quoted(client).c_str() : "");
}

void ColdTiers::add_stats(Counters &stats) const noexcept {
  if (!any()) return;
  stats[Counter::staging_bytes] += staging_->bytes();
  stats[Counter::host_budget] += staging_->bytes();
  stats[Counter::host_bytes] += staging_->bytes();
  const codec::CodecStats codec = codec_->stats();
  stats[Counter::compressed_in_bytes] += codec.in_bytes;
  stats[Counter::compressed_out_bytes] += codec.out_bytes;
  stats[Counter::decompressed_bytes] += codec.decoded_bytes;
  stats[Counter::incompressible_bytes] += codec.incompressible_bytes;
  if (compressed_ != nullptr) {
    stats[Counter::compressed_budget] += compressed_->budget();
    stats[Counter::compressed_bytes] += compressed_->used();
  }
  if (storage_ != nullptr) {
    stats[Counter::storage_budget] += storage_->budget();
    stats[Counter::storage_bytes] += storage_->used();
    stats[Counter::storage_written_bytes] += storage_->written_bytes();
    stats[Counter::storage_read_bytes] += storage_->read_bytes();
    stats[Counter::io_errors] += storage_->errors();
  }
}

}  // namespace weir::tier
