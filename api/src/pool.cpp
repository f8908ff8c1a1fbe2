// SPDX-License-Identifier: Apache-2.0
//
// weir/pool.h: pools, clients, trim, what was learned, counters, snapshot.

#include "api/src/contexts.hpp"
#include "api/src/guard.hpp"
#include "core/pool/recorded_calls.hpp"

#include "core/pool/left_behind.hpp"
#include "core/pool/snapshot.hpp"

#include <cstring>
#include <memory>

using weir::fail;
using weir::Status;
using weir::api::get;
using weir::api::guarded;
using weir::api::need;
using weir::pool::ClientHandle;
using weir::pool::Context;
using weir::pool::Pool;
using weir::pool::recorded::line;
using weir::pool::recorded::tape_of;
using weir::pool::recorded::VmtLines;
namespace recorded = weir::pool::recorded;

namespace {

Status create_pool(weir_context handle, const weir_pool_desc *given, weir_pool *out) {
  Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  WEIR_TRY(need(out, "pool"));
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
  // The number first: leases and buffers carry it.
  uint32_t id = 0;
  WEIR_TRY(context->reserve_pool(&id));
  std::unique_ptr<Pool> pool;
  Status status;
  try {
    pool = std::make_unique<Pool>(*context, id);
    status = pool->start(desc);
  } catch (...) {
    pool.reset();
    context->remove_pool(id);
    throw;
  }
  if (!status) {
    const weir::KeepError keep;
    pool.reset();
    context->remove_pool(id);
    return status;
  }
  context->set_pool(id, pool.get());
  context->tracer().add(*pool);
  *out = reinterpret_cast<weir_pool>(pool.release());
  return {};
}

/// At INFO: what is left dies with its pool, which is allowed.
void tell_what_is_left(Pool &pool) noexcept {
  const weir::Log log = pool.context().log().of(&pool.full_name());
  if (!weir::api::is_logged(log, WEIR_LOG_INFO)) return;
  (void)weir::if_memory([&] {
    if (const weir::pool::LeftBehind left(pool.engine().inspector()); left.any())
      log(WEIR_LOG_INFO, "ends with what was not destroyed: %s", left.line().c_str());
  });
}

Status destroy_pool(weir_pool handle) {
  if (handle == nullptr) return {};
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  recorded::stats(*pool);
  WEIR_TRY(pool->shutdown());
  line(pool->engine().tap,
       [&](VmtLines &text) { return text.ends(weir::record::VmtThing::pool, pool->id()); });
  tell_what_is_left(*pool);
  Context &context = pool->context();
  const uint32_t id = pool->id();
  context.hide_pool(id);  // no trace that starts finds it any more
  context.tracer().remove(*pool);
  delete pool;
  context.remove_pool(id);
  return {};
}

Status snapshot(weir_pool handle, char *text, size_t capacity, size_t *needed) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(weir::api::need_text(text, capacity, needed));
  const std::string json = weir::pool::snapshot(pool->engine().inspector(), pool->name());
  return weir::api::write_text(json, text, capacity, needed);
}

Status policy_save(weir_pool handle, void *bytes, uint64_t capacity, uint64_t *needed) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(need(needed, "needed"));
  if (capacity != 0) WEIR_TRY(need(bytes, "bytes"));
  return pool->engine().policy_store().save(static_cast<unsigned char *>(bytes), capacity, needed);
}

Status policy_load(weir_pool handle, const void *bytes, uint64_t size) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(need(bytes, "bytes"));
  WEIR_TRY(pool->engine().policy_store().load({static_cast<const unsigned char *>(bytes), size}));
  line(pool->engine().tap, [&](VmtLines &text) { return text.policy_load(pool->id(), size); });
  return {};
}

Status map(weir_pool handle, weir_piece *pieces, size_t capacity, size_t *count) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(need(count, "count"));
  if (pieces == nullptr && capacity != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "pieces is NULL and capacity %zu", capacity);
  size_t found = 0;
  pool->engine().inspector().for_each_piece([&](const weir_piece &piece) {
    if (found < capacity) pieces[found] = piece;
    ++found;
  });
  *count = found;
  return Status(found <= capacity || capacity == 0 ? WEIR_SUCCESS : WEIR_INCOMPLETE);
}

Status lost_ranges(weir_pool handle, weir_lost_range *ranges, size_t capacity, size_t *count) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(need(count, "count"));
  if (ranges == nullptr && capacity != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "ranges is NULL and capacity %zu", capacity);
  size_t found = 0;
  pool->engine().inspector().for_each_lost([&](const weir_lost_range &range) {
    if (found < capacity) ranges[found] = range;
    ++found;
  });
  *count = found;
  return Status(found <= capacity || capacity == 0 ? WEIR_SUCCESS : WEIR_INCOMPLETE);
}

}  // namespace

extern "C" {

weir_result weir_pool_create(weir_context context, const weir_pool_desc *desc, weir_pool *pool) {
  return guarded([&] { return create_pool(context, desc, pool); });
}

weir_result weir_pool_destroy(weir_pool pool) {
  return guarded(pool, [&] { return destroy_pool(pool); });
}

weir_result weir_pool_add_device(weir_pool pool, const weir_pool_device *device) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(need(device, "device"));
    WEIR_TRY(object->add_device(*device));
    line(object->engine().tap, [&](VmtLines &text) {
      return text.pool_device(object->id(), device->device, device->budget);
    });
    return {};
  });
}

weir_result weir_pool_rebalance(weir_pool pool, uint64_t bytes, uint64_t *moved) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    uint64_t done = 0;
    const Status status = object->engine().prefetcher().rebalance(bytes, &done);
    line(object->engine().tap, [&](VmtLines &text) { return text.rebalance(object->id(), bytes); });
    if (moved != nullptr) *moved = done;
    return status;
  });
}

weir_result weir_pool_remove_device(weir_pool pool, weir_device device, uint64_t timeout_ns) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(object->engine().membership().remove(device, timeout_ns));
    line(object->engine().tap,
         [&](VmtLines &text) { return text.remove_device(object->id(), device); });
    return {};
  });
}

weir_result weir_pool_cancel_remove(weir_pool pool, weir_device device) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    return object->engine().membership().cancel(device);
  });
}

weir_result weir_pool_set_loss_callback(weir_pool pool, weir_loss_callback callback, void *user) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    return object->loss_watch().set(callback, user);
  });
}

weir_result weir_pool_lost_ranges(weir_pool pool, weir_lost_range *ranges, size_t capacity,
                                  size_t *count) {
  return guarded(pool, [&] { return lost_ranges(pool, ranges, capacity, count); });
}

weir_result weir_client_create(weir_pool pool, const weir_client_desc *given, weir_client *client) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(need(client, "client"));
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
    ClientHandle *handle = nullptr;
    WEIR_TRY(object->create_client(desc, &handle));
    *client = reinterpret_cast<weir_client>(handle);
    recorded::client(*object, tape_of(object->engine().tap), handle, desc);
    return {};
  });
}

weir_result weir_client_destroy(weir_client client) {
  return guarded([&]() -> Status {
    if (client == nullptr) return {};
    ClientHandle *object = nullptr;
    WEIR_TRY(get(client, &object));
    Pool &pool = *object->pool;
    WEIR_TRY(pool.destroy_client(object));
    line(pool.engine().tap, [&](VmtLines &text) {
      return text.ends(weir::record::VmtThing::client, recorded::number(client));
    });
    return {};
  });
}

weir_result weir_client_stats_get(weir_client client, weir_client_stats *stats) {
  return guarded([&]() -> Status {
    ClientHandle *object = nullptr;
    WEIR_TRY(get(client, &object));
    weir_client_stats value = WEIR_CLIENT_STATS_INIT;
    WEIR_TRY(object->pool->engine().inspector().client_stats(object->id, &value));
    return weir::write_output(value, "stats", stats);
  });
}

weir_result weir_pool_trim(weir_pool pool, weir_device device, uint32_t level, uint64_t bytes,
                           uint64_t *freed) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    uint64_t done = 0;
    const Status status = object->engine().trimmer().trim(device, level, bytes, &done);
    if (freed != nullptr) *freed = done;
    line(object->engine().tap,
         [&](VmtLines &text) { return text.trim(object->id(), device, level, bytes); });
    return status;
  });
}

weir_result weir_pool_defragment(weir_pool pool, const weir_defragment_desc *given,
                                 weir_defragment_report *report) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
    weir_defragment_report value = WEIR_DEFRAGMENT_REPORT_INIT;
    // A report that cannot be written is refused before anything is done.
    if (report != nullptr) WEIR_TRY(weir::check_size_of(report, "report"));
    const Status status = object->defragmenter().run(desc, &value);
    line(object->engine().tap, [&](VmtLines &text) {
      return text.defragment({object->id(), desc.device, desc.flags, desc.max_bytes, desc.max_moves,
                              desc.max_ns, desc.max_cost_permille});
    });
    if (report != nullptr) {
      const weir::KeepError keep;
      (void)weir::write_output(value, "report", report);
    }
    return status;
  });
}

weir_result weir_pool_set_defragmentation(weir_pool pool, const weir_defragmentation_desc *given) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    weir_defragmentation_desc desc = WEIR_DEFRAGMENTATION_DESC_INIT;
    WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
    WEIR_TRY(object->set_defragmentation(desc));
    line(object->engine().tap, [&](VmtLines &text) {
      return text.defragmentation({object->id(), desc.threshold_permille, desc.flags,
                                   desc.bytes_per_second, desc.max_cost_permille});
    });
    return {};
  });
}

weir_result weir_pool_policy_save(weir_pool pool, void *bytes, uint64_t capacity,
                                  uint64_t *needed) {
  return guarded(pool, [&] { return policy_save(pool, bytes, capacity, needed); });
}

weir_result weir_pool_policy_load(weir_pool pool, const void *bytes, uint64_t size) {
  return guarded(pool, [&] { return policy_load(pool, bytes, size); });
}

weir_result weir_pool_stats_get(weir_pool pool, weir_pool_stats *stats) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    weir_pool_stats value{};
    object->engine().inspector().stats(&value);
    return weir::write_output(value, "stats", stats);
  });
}

weir_result weir_pool_codec_stats_get(weir_pool pool, weir_codec_stats *stats) {
  return guarded(pool, [&]() -> Status {
    weir::pool::Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    weir_codec_stats all = WEIR_CODEC_STATS_INIT;
    object->engine().inspector().codec_stats(&all);
    return weir::write_output(all, "stats", stats);
  });
}

weir_result weir_pool_device_stats_get(weir_pool pool, weir_device device,
                                       weir_pool_device_stats *stats) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    weir_pool_device_stats value = WEIR_POOL_DEVICE_STATS_INIT;
    WEIR_TRY(object->engine().inspector().device_stats(device, &value));
    return weir::write_output(value, "stats", stats);
  });
}

weir_result weir_pool_reset_peak(weir_pool pool, weir_device device) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    return object->engine().inspector().reset_peak(device);
  });
}

weir_result weir_pool_map(weir_pool pool, weir_piece *pieces, size_t capacity, size_t *count) {
  return guarded(pool, [&] { return map(pool, pieces, capacity, count); });
}

weir_result weir_pool_snapshot(weir_pool pool, char *text, size_t capacity, size_t *needed) {
  return guarded(pool, [&] { return snapshot(pool, text, capacity, needed); });
}

}  // extern "C"
