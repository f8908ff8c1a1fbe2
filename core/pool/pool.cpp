// SPDX-License-Identifier: Apache-2.0
//
// A pool's descriptor turned into an engine's configuration, client handles, and the request thread.

#include "core/pool/pool.hpp"

#include "core/pool/taped_calls.hpp"
#include "core/pool/usable_bytes.hpp"

#include "core/base/descriptor.hpp"
#include "core/base/grow.hpp"
#include "core/base/signals.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace weir::pool {

namespace {

/// Of the thread that runs callbacks: whose.
thread_local const Engine *serving = nullptr;

/// 1/64 of the machine's memory; no limit where it does not tell how much that is.
uint64_t usual_record_budget() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return UINT64_MAX;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) / 64;
}

}  // namespace

/// Of the process: what a thread's last error is about is told from every other pool.
static uint64_t next_serial() noexcept {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Pool::Pool(Context &context, uint32_t id)
    : context_(context),
      id_(id),
      serial_(next_serial()),
      name_(context.memory()),
      engine_(context.memory(), context.streams(), context.ticks(), id, context.log().of(&name_)),
      defragmenter_(engine_.relocator(), engine_.background(), context.memory()),
      loss_watch_(engine_),
      clients_(context.memory()) {}

Pool::~Pool() {
  magic_.store(0, std::memory_order_release);
  {
    const Guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Pool::start(const weir_pool_desc &desc) {
  constexpr uint64_t known = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_CHECKSUM_HOST |
                             WEIR_POOL_ENCRYPT_STORAGE | WEIR_POOL_BUFFERED_STORAGE |
                             WEIR_POOL_NO_IO_URING | WEIR_POOL_NO_PEER;
  name_ = kept_name(desc.name != nullptr ? desc.name : "pool");
  engine_.tap.set({context_.ranges(), name_.c_str()});
  WEIR_TRY(check_flags(desc.flags, known));
  if (desc.device_count == 0 || desc.device_count > page::max_devices || desc.devices == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "device_count is %u; a pool has 1 to %u devices",
                desc.device_count, page::max_devices);
  page::EngineConfig config;
  config.nodes = numa::Nodes(context_.numa_root);
  std::pmr::vector<uint32_t> ids;
  for (uint32_t i = 0; i < desc.device_count; ++i) {
    const weir_pool_device &entry = desc.devices[i];
    char where[24];
    std::snprintf(where, sizeof where, "devices[%u]", i);
    const backend::Device *device = nullptr;
    WEIR_TRY(read_device(entry, where, &device));
    if (std::find(ids.begin(), ids.end(), entry.device) != ids.end())
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s: device %u is listed twice", where,
                  entry.device);
    ids.push_back(entry.device);
    // Looking at the machine takes its time: only where there is a choice.
    const bool matters = desc.device_count > 1 || config.nodes.count() > 1;
    const uint32_t node = matters ? context_.places().numa_node(*device) : numa::unknown;
    config.devices.push_back({device, entry.budget, node});
  }
  if (desc.watermark_low_permille > 500 || desc.watermark_high_permille > 500 ||
      (desc.watermark_high_permille != 0 &&
       desc.watermark_low_permille > desc.watermark_high_permille)) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "watermarks %u and %u: thousandths, low <= high <= 500",
                desc.watermark_low_permille, desc.watermark_high_permille);
  }
  config.routes.find(context_.places(), ids);
  config.no_peer = (desc.flags & WEIR_POOL_NO_PEER) != 0;
  config.host.memory_root = context_.memory_root;
  config.host.follows = desc.host_budget == 0;
  config.host.budget = desc.host_budget != WEIR_NONE ? desc.host_budget : 0;
  config.clock = context_.clock;
  config.split_sizes = context_.split_sizes;
  config.memory.page_size = desc.page_size;
  config.memory.segment_size = desc.segment_size;
  if (desc.idle_grace_ns != 0)
    config.idle_grace_ns = desc.idle_grace_ns != WEIR_NONE ? desc.idle_grace_ns : UINT64_MAX;
  config.memory.large_page_size = desc.large_page_size;
  config.record_budget = desc.record_budget != 0 ? desc.record_budget : usual_record_budget();
  if (desc.watermark_low_permille != 0) config.memory.watermark_low = desc.watermark_low_permille;
  config.memory.watermark_high = desc.watermark_high_permille != 0
                                     ? desc.watermark_high_permille
                                     : std::max(30U, config.memory.watermark_low);
  if (desc.evict_wait_ns != 0) config.evict_wait_ns = desc.evict_wait_ns;
  config.background = (desc.flags & WEIR_POOL_NO_BACKGROUND) == 0;
  if (!config.background) config.idle_grace_ns = UINT64_MAX;
  WEIR_TRY(read_policy(desc, &config));
  config.host.checksum = (desc.flags & WEIR_POOL_CHECKSUM_HOST) != 0;
  config.pool_id = id_;
  config.stacks = context_.stacks();
  WEIR_TRY(read_lower(desc, &config));
  background_ = config.background;
  engine_.relocator().set_compactor(&defragmenter_);
  WEIR_TRY(engine_.start(std::move(config)));
  engine_.upkeep().publisher().start(context_.live(), serial_, name_);
  return {};
}

/// Checks an entry of the pool's devices; `name` is what a message calls it.
Status Pool::read_device(const weir_pool_device &entry, const char *name,
                         const backend::Device **device) {
  *device = context_.places().find(entry.device);
  if (*device == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s.device is %u; the context has %u devices", name,
                entry.device, context_.places().count());
  if (entry.reserved0 != 0 || entry.reserved[0] != 0 || entry.reserved[1] != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s: its reserved words are not zero", name);
  return {};
}

Status Pool::add_device(const weir_pool_device &entry) {
  const backend::Device *device = nullptr;
  WEIR_TRY(read_device(entry, "device", &device));
  WEIR_TRY(join(*device, entry));
  engine_.sizes().warn_of_budget(*device, entry.budget);
  return {};
}

/// One at a time.
Status Pool::join(const backend::Device &device, const weir_pool_device &entry) {
  const PoolLock::Hush hush(engine_.sync().lock);
  const Guard one(devices_mutex_);
  std::pmr::vector<uint32_t> ids(context_.memory());
  Membership &membership = engine_.membership();
  membership.list(&ids);
  if (std::find(ids.begin(), ids.end(), entry.device) == ids.end()) ids.push_back(entry.device);
  transfer::Routes routes;
  routes.find(context_.places(), ids);
  const uint32_t node = context_.places().numa_node(device);
  return membership.add({&device, entry.budget, node}, std::move(routes));
}

/// What the descriptor says of the policy, and of what it may take.
Status Pool::read_policy(const weir_pool_desc &desc, page::EngineConfig *config) {
  constexpr uint64_t usual_memory = uint64_t{32} << 20U;
  constexpr uint64_t least_memory = uint64_t{2} << 20U;
  static_assert(least_memory >= page::max_devices * policy::LearnedForecast::least_budget);
  if (desc.reserved2 != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved2 is %u", desc.reserved2);
  if (desc.policy_memory != 0 && desc.policy_memory < least_memory)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "policy_memory is %llu, less than %llu; 0 takes the default",
                llu(desc.policy_memory), llu(least_memory));
  if (desc.policy_memory != 0 && desc.policy_memory >= config->record_budget)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "policy_memory is %llu, and record_budget, of which it is a part, %llu",
                llu(desc.policy_memory), llu(config->record_budget));
  if (desc.policy_cpu_percent > 100)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "policy_cpu_percent is %u, not 1 to 100, or 0",
                desc.policy_cpu_percent);
  // Where there is little, learning takes more than it can save.
  constexpr uint64_t worth_learning = uint64_t{64} << 20U;
  UsableBytes budgets;
  for (const auto &each : config->devices) budgets.add(*each.device, each.budget);
  const bool worth = budgets.all() >= worth_learning;
  const bool can = config->background && config->record_budget / 4 >= usual_memory;
  // Devices that come later are made with this name: it is none of the caller's.
  config->plans = desc.policy != nullptr ? std::strcmp(desc.policy, "auto") == 0 : worth && can;
  config->policy = config->plans ? "auto" : "lru-window";
  if (desc.policy != nullptr && std::strcmp(desc.policy, config->policy) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "there is no policy \"%s\"", desc.policy);
  config->learning.memory =
      desc.policy_memory != 0
          ? desc.policy_memory
          : std::max(least_memory, std::min(usual_memory, config->record_budget / 4));
  // Without threads of its own a pool plans nothing, but for tests, which wait for what was planned.
  constexpr uint32_t usual_percent = 10;
  const uint32_t percent = desc.policy_cpu_percent != 0 ? desc.policy_cpu_percent : usual_percent;
  config->learning.cpu_percent = config->background ? percent : 100;
  config->learning.on = context_.learns || (config->plans && worth);
  return {};
}

/// What the descriptor says of the tiers below HOST.
Status Pool::read_lower(const weir_pool_desc &desc, page::EngineConfig *config) {
  if (desc.reserved != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u", desc.reserved);
  if (desc.compress_share_percent > 100)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "compress_share_percent is %u",
                desc.compress_share_percent);
  if (!codec::Codec::parse(desc.codec, &config->below.codec))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "there is no codec \"%s\"", desc.codec);
  if (desc.compressed_budget != 0 && desc.compressed_budget < tier::UnitArena::unit)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "compressed_budget is %llu, less than a unit of %llu",
                llu(desc.compressed_budget), llu(tier::UnitArena::unit));
  config->below.compressed = desc.compressed_budget;
  if (desc.recompress_idle_ns != 0) config->recompress_idle_ns = desc.recompress_idle_ns;
  if (desc.recompress_idle_ns == WEIR_NONE || (!config->background && desc.recompress_idle_ns == 0))
    config->recompress_idle_ns = UINT64_MAX;
  if (desc.rebalance_bytes_per_second != 0)
    config->rebalance_rate =
        desc.rebalance_bytes_per_second != WEIR_NONE ? desc.rebalance_bytes_per_second : 0;
  config->below.share = desc.compress_share_percent != 0 ? desc.compress_share_percent : 100;
  config->below.threads = desc.compress_threads != 0
                              ? desc.compress_threads
                              : std::max(1U, std::thread::hardware_concurrency() / 4);
  if (desc.storage_budget == 0) {
    if (desc.storage_path_count == 0) return {};
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "storage_budget is 0, but there are storage_paths");
  }
  if (desc.storage_path_count == 0 || desc.storage_path_count > 16 ||
      desc.storage_paths == nullptr) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "storage_path_count is %u; STORAGE takes 1 to 16 directories",
                desc.storage_path_count);
  }
  for (uint32_t i = 0; i < desc.storage_path_count; ++i) {
    if (desc.storage_paths[i] == nullptr || desc.storage_paths[i][0] == '\0')
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "storage_paths[%u] is NULL or empty", i);
    config->below.storage.directories.emplace_back(desc.storage_paths[i]);
  }
  config->below.storage.budget = desc.storage_budget;
  config->below.storage.encrypt = (desc.flags & WEIR_POOL_ENCRYPT_STORAGE) != 0;
  config->below.storage.direct = (desc.flags & WEIR_POOL_BUFFERED_STORAGE) == 0;
  config->below.storage.uring = (desc.flags & WEIR_POOL_NO_IO_URING) == 0;
  config->below.storage.hook = context_.io_hook;
  return {};
}

Status Pool::shutdown() {
  if (serves(engine_))
    return fail(WEIR_ERROR_BUSY, "not from within the callback of an asynchronous acquire");
  WEIR_TRY(loss_watch_.check_thread());
  {
    Guard hold(mutex_);
    // A callback may still use the pool: it ends first, unless something else is in the way.
    while (calling_ && idle()) changed_.wait(hold);
    if (!idle()) return fail(WEIR_ERROR_BUSY, "asynchronous acquires are not finished");
    WEIR_TRY(engine_.shutdown());
    ending_ = true;
  }
  // Without the mutex, which a callback under way may be about to take.
  return loss_watch_.set(nullptr, nullptr);
}

Status Pool::set_defragmentation(const weir_defragmentation_desc &desc) {
  return defragmenter_.set_background(desc, background_);
}

Status Pool::create_client(const weir_client_desc &desc, ClientHandle **client) {
  const Guard hold(mutex_);
  grow_by(clients_);
  auto fresh = make_owned<ClientHandle>(context_.memory());
  WEIR_TRY(engine_.create_client(desc, &fresh->id));
  fresh->pool = this;
  *client = fresh.get();
  clients_.push_back(std::move(fresh));
  return {};
}

Status Pool::destroy_client(ClientHandle *client) {
  const Guard hold(mutex_);
  WEIR_TRY(engine_.destroy_client(client->id));
  client->magic = 0;  // the record goes with the pool, so that a dead handle is recognised
  return {};
}

bool Pool::serves(const Engine &engine) noexcept { return serving == &engine; }

Status Pool::submit(std::shared_ptr<Request> request) {
  const Guard hold(mutex_);
  if (ending_) return fail(WEIR_ERROR_INVALID_HANDLE, "the pool is being destroyed");
  if (!thread_.joinable())
    WEIR_TRY(start_thread(&thread_, "the pool's request thread", [this] { serve(); }));
  requests_.push_back(std::move(request));
  changed_.notify_all();
  return {};
}

Status Pool::grant(Request &request, weir_lease *lease) {
  if (request.cancelled.load()) return fail(WEIR_ERROR_CANCELLED, "the acquire was cancelled");
  page::AcquireOptions options;
  options.timeout_ns = request.timeout_ns;
  options.operation = request.operation;
  options.cancelled = &request.cancelled;
  if (Tape *const tape = engine_.tap.tape(); tape != nullptr)
    return taped::acquire(*this, *tape, *request.stream, request.uses, request.count, options,
                          lease, true);
  return engine_.acquire(*request.stream, request.uses, request.count, options, lease);
}

void Pool::serve() {
  serving = &engine_;
  Guard hold(mutex_);
  for (;;) {
    while (!stopping_ && requests_.empty()) changed_.wait(hold);
    if (requests_.empty()) return;
    std::shared_ptr<Request> request = std::move(requests_.front());
    requests_.pop_front();
    running_ = request;
    weir_lease lease = nullptr;
    const Status status = hold.unlocked([&] {
      const Status granted = grant(*request, &lease);
      if (!granted) note_refusal(granted.code());
      request->error.put(granted);
      return granted;
    });
    // The callback may use the pool again, so the request is off the books before it runs.
    running_ = nullptr;
    calling_ = true;
    hold.unlocked([&] {
      request->callback(request->user, status.code(), lease);
      {
        const Guard own(request->mutex);
        request->done = true;
        request->result = status.code();
      }
      request->ended.notify_all();
      request.reset();
    });
    calling_ = false;
    changed_.notify_all();
  }
}

}  // namespace weir::pool
