// SPDX-License-Identifier: Apache-2.0
//
// Saving and loading what was learned.

#include "core/pool/policy_store.hpp"

#include "core/policy/log_saver.hpp"

namespace weir::pool {
namespace {

// Of the bytes that a blob may have. What is left is for the header, and for deaths that the records' size does not foresee.
constexpr uint64_t most_record_bytes = uint64_t{40} << 20U;
constexpr uint64_t most_name_bytes = uint64_t{16} << 20U;

}  // namespace

Status PolicyStore::check_learns() const noexcept {
  if (!env_.config.plans)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "the pool's policy learns nothing: only \"auto\" (weir_pool_desc.policy) does");
  if (!env_.config.background)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "with WEIR_POOL_NO_BACKGROUND the pool's policy learns nothing");
  if (!lease_.log.on())
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "in a pool with less than 64 MiB of memory on devices with virtual memory "
                "management the policy learns nothing");
  return {};
}

policy::BlobTerms PolicyStore::terms() const noexcept {
  return {"auto", page_.devices.front()->memory.page_size()};
}

Status PolicyStore::save(unsigned char *out, uint64_t capacity, uint64_t *needed) {
  WEIR_TRY(check_learns());
  const Guard turn(turns_);
  policy::SavedProgram program(env_.memory);
  prefetcher_.plans()->save(&program, most_record_bytes);
  policy::name_operations(&program, lease_.operations.all(), most_name_bytes);
  const uint64_t bytes = policy::blob_bytes(program);
  *needed = bytes;
  if (capacity == 0) return {};
  if (capacity < bytes)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "capacity is %llu; what was learned takes %llu bytes",
                llu(capacity), llu(bytes));
  policy::write_blob(program, terms(), out);
  return {};
}

Status PolicyStore::load(std::span<const unsigned char> bytes) {
  WEIR_TRY(check_learns());
  WEIR_TRY(policy::check_blob(bytes, terms()));
  const Guard turn(turns_);
  if (lease_.log.used())
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "the pool has acquired already: load before its first acquire");
  policy::SavedProgram program(env_.memory);
  policy::read_blob(bytes, &program);
  std::pmr::vector<uint32_t> numbers(env_.memory);
  numbers.reserve(program.names.size());
  for (const std::string_view name : program.names)
    numbers.push_back(lease_.operations.id_of(name));
  return prefetcher_.plans()->load(program, numbers);
}

}  // namespace weir::pool
