// SPDX-License-Identifier: Apache-2.0
//
// A model-based fuzzer of the C ABI: several threads make random calls on buffers of their own in one shared
// pool that is far too small, over every combination of capabilities and of tiers, and an oracle holds the bytes that each
// buffer must have. Every kernel checks what it reads before it writes; every refusal must be one that the documentation
// allows; at the end everything is read back.
//
// Half of the pools have the policy "auto", which learns what the threads do. In most of those the threads repeat themselves
// (rounds.hpp). What plans bring is counted in those pools in which nobody announces anything, or asks for it to be brought.
//
//   fuzz_pool [--seconds S] [--seed N] [--runs R] [--steps K] [--policy NAME] [--verbose]
//
// A run's seed is printed; the same seed makes the same calls (threads still interleave as they like).

#include "tests/fuzz/rounds.hpp"

#include <algorithm>
#include <chrono>

namespace {

using namespace weir::fuzz;
namespace test = weir::test;

constexpr uint64_t page_of_options = 16 * 1024;

// Over all runs.
uint64_t sunk_bytes = 0, lifted_bytes = 0, returned_bytes = 0, moved_bytes = 0, recoded_bytes = 0,
         lent_bytes = 0, changes = 0, relayed_bytes = 0, remote_uses = 0, shard_leases = 0,
         refusals = 0, planned_bytes = 0;
const char *only_policy = nullptr;  // of all runs

/// Half of the runs have tiers below HOST, which is short then.
void add_tiers(std::mt19937_64 &random, const char *const *folders, World *world,
               weir_pool_desc *desc) {
  const uint64_t kind = random() % 8;
  if (kind < 4) return;
  if (kind != 4) {
    desc->storage_budget = world->page * 4096;
    desc->storage_paths = folders;
    desc->storage_path_count = 1 + static_cast<uint32_t>(random() % 2);
    const uint64_t flags[] = {
        0, 0, 0, WEIR_POOL_NO_IO_URING, WEIR_POOL_BUFFERED_STORAGE, WEIR_POOL_ENCRYPT_STORAGE};
    desc->flags |= flags[random() % 6];
  }
  // COMPRESSED alone has to take everything; beside STORAGE it is small enough to be spilled.
  if (kind == 4) desc->compressed_budget = world->page * 4096;
  if (kind > 5) desc->compressed_budget = world->page * (2 + random() % 40);
  const char *const codecs[] = {nullptr, nullptr, nullptr, "lz4", "zstd", "raw"};
  desc->codec = codecs[random() % 6];
  world->host_is_short = true;
  const uint64_t staging = world->vmm ? 8 * world->page * 4 : 8 * world->page * 50;
  desc->host_budget = random() % 6 == 0 ? WEIR_NONE : staging + world->page * (4 + random() % 60);
}

/// The policy, and what the threads do. Drawn apart: the rest of a seed's run is the same whatever comes out.
void choose_policy(uint64_t seed, World *world) {
  std::mt19937_64 random(seed ^ 0x706f6c696379U);
  world->policy = random() % 2 == 0 ? "auto" : "lru-window";
  const uint64_t kind = random() % 8;
  world->scarce = random() % 4 == 0;
  if (only_policy != nullptr) world->policy = only_policy;
  const bool planned = only_policy != nullptr || std::strcmp(world->policy, "auto") == 0;
  world->rounds = planned && kind < 6;
  world->disturbed = world->rounds && kind < 4;
  world->scarce = world->scarce && world->disturbed && test::Target::get().host();
}

/// Once the rest is chosen.
void set_policy(const World &world, weir_pool_desc *desc) {
  desc->policy = world.policy;
  // A pool that is as small as these would not learn by itself.
  reinterpret_cast<weir::pool::Context *>(world.context)->learns =
      std::strcmp(world.policy, "auto") == 0;
  if (world.rounds) desc->flags &= ~uint64_t{WEIR_POOL_NO_BACKGROUND};
}

/// Of a client without buffers.
void check_idle(weir_client client, uint64_t seed) {
  weir_client_stats held = WEIR_CLIENT_STATS_INIT;
  if (weir_client_stats_get(client, &held) == WEIR_SUCCESS && held.device_bytes == 0 &&
      held.host_bytes == 0 && held.compressed_bytes == 0 && held.storage_bytes == 0)
    return;
  std::fprintf(stderr, "device %llu host %llu\n",
               static_cast<unsigned long long>(held.device_bytes),
               static_cast<unsigned long long>(held.host_bytes));
  report("a client without buffers is charged", seed);
}

template <class Each>
void run_threads(World &world, size_t threads, int steps, std::mt19937_64 &random) {
  std::vector<std::unique_ptr<Each>> workers;
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) workers.push_back(std::make_unique<Each>(world, random()));
  for (auto &worker : workers) running.emplace_back([&worker, steps] { worker->run(steps); });
  for (std::thread &thread : running) thread.join();
  for (auto &worker : workers) worker->free_allocations();
}

void run_once(uint64_t seed, int steps, bool verbose) {
  std::mt19937_64 random(seed);
  const auto flip = [&random] { return (random() & 1U) != 0; };
  World world;
  world.seed = seed;
  choose_policy(seed, &world);
  world.devices = 1 + static_cast<uint32_t>(random() % 3);
  world.vmm = random() % 4 != 0 && test::Target::get().vmm();
  std::string options = "host.memory=64M;host.granule=16K;host.granule_large=0;host.devices=" +
                        std::to_string(world.devices);
  if (world.scarce) options.replace(options.find("64M"), 3, "512K");
  if (random() % 3 == 0) options.replace(options.find("granule_large=0"), 15, "granule_large=64K");
  options += std::string(";host.vmm=") + (world.vmm ? "1" : "0");
  for (const char *key :
       {"multi_map", "peer", "batch_copy", "any_thread", "map_any_thread", "register"}) {
    const bool on = flip();
    options += std::string(";host.") + key + (on ? "=1" : "=0");
    if (std::strcmp(key, "register") == 0) world.host_leases = on;
  }
  // Neighbours whose memory is nearer than the host's, or of which nothing is known.
  if (world.devices == 2 && random() % 3 != 0)
    options += ";host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G";
  if (random() % 6 == 0) options += ";host.integrated=0";
  // Copies around a corner, or through the host.
  if (world.devices == 3 && random() % 4 != 0)
    options += flip() ? ";host.links=0-1:none:0,0-2:nvlink:50G,1-2:nvlink:40G,h-0:pcie:16G,h-1:"
                        "pcie:16G,h-2:pcie:16G"
                      : ";host.links=0-1:none:0,0-2:none:0,1-2:nvlink:50G,h-0:pcie:16G,h-1:pcie:"
                        "16G,h-2:pcie:16G";
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  test::Target &target = test::Target::get();
  const weir_backend_query_fn backend = target.query();
  const std::string own = target.options(options, page_of_options);
  context_desc.options = own.c_str();
  context_desc.flags = WEIR_CONTEXT_NO_SEARCH;
  if (backend != nullptr) {
    context_desc.flags |= WEIR_CONTEXT_NO_HOST_BACKEND;
    context_desc.backends = &backend;
    context_desc.backend_count = 1;
  }
  if (weir_context_create(&context_desc, &world.context) != WEIR_SUCCESS)
    return report("context_create", seed);
  uint32_t count = 0;
  if (weir_device_count(world.context, &count) != WEIR_SUCCESS) return report("device_count", seed);
  if (target.real()) world.devices = std::min(world.devices, count);
  weir_pool_device devices[3] = {{0, 0, world.page * (10 + random() % 40), {0, 0}},
                                 {1, 0, world.page * (10 + random() % 40), {0, 0}},
                                 {2, 0, world.page * (10 + random() % 40), {0, 0}}};
  weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  pool_desc.devices = devices;
  pool_desc.device_count = world.devices;
  pool_desc.host_budget = world.page * 3072;
  pool_desc.page_size = world.page;
  pool_desc.large_page_size = random() % 3 == 0 ? world.page * 4 : 0;
  pool_desc.flags = (flip() ? WEIR_POOL_NO_BACKGROUND : 0) | (flip() ? WEIR_POOL_CHECKSUM_HOST : 0);
  // Without VMM in several segments too; and what is idle goes back to the system while others are at work.
  pool_desc.segment_size = flip() ? world.page * (1 + random() % 16) : 0;
  pool_desc.idle_grace_ns = random() % 3 == 0 ? 200'000 : 0;
  pool_desc.recompress_idle_ns = random() % 4 != 0 ? 1 : 0;
  const char *folder = std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp";
  const char *const folders[] = {folder, folder};
  add_tiers(random, folders, &world, &pool_desc);
  set_policy(world, &pool_desc);
  if (weir_pool_create(world.context, &pool_desc, &world.pool) != WEIR_SUCCESS)
    return report("pool_create", seed);
  weir_client_desc client_desc = WEIR_CLIENT_DESC_INIT;
  client_desc.name = "tenant";
  for (weir_client &client : world.clients) {
    client_desc.device_quota = world.page * (6 + random() % 20);
    if (weir_client_create(world.pool, &client_desc, &client) != WEIR_SUCCESS)
      return report("client_create", seed);
  }
  if ((pool_desc.flags & WEIR_POOL_NO_BACKGROUND) == 0 && flip()) {
    weir_defragmentation_desc always = WEIR_DEFRAGMENTATION_DESC_INIT;
    always.threshold_permille = 1;
    always.max_cost_permille = 1000;
    if (weir_pool_set_defragmentation(world.pool, &always) != WEIR_SUCCESS)
      return report("set_defragmentation", seed);
  }
  world.elastic = world.devices > 1 && random() % 2 == 0;
  for (uint32_t i = 0; i < world.devices; ++i) world.budgets[i] = devices[i].budget;
  const size_t threads = 1 + random() % 3;
  if (verbose)
    std::fprintf(
        stderr,
        "seed %llu: %s%s, %s, %zu threads, flags %llu, host %lld, compressed %llu, storage %llu\n",
        static_cast<unsigned long long>(seed), world.policy,
        world.disturbed ? ", disturbed rounds"
        : world.rounds  ? ", rounds"
                        : "",
        options.c_str(), threads, static_cast<unsigned long long>(pool_desc.flags),
        static_cast<long long>(pool_desc.host_budget),
        static_cast<unsigned long long>(pool_desc.compressed_budget),
        static_cast<unsigned long long>(pool_desc.storage_budget));
  world.rounds ? run_threads<Rounds>(world, threads, steps, random)
               : run_threads<Worker>(world, threads, steps, random);
  // Pages of dead buffers that are being moved down are charged until that ends.
  reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().wait_idle();
  weir_pool_stats stats{};
  stats.struct_size = sizeof stats;
  if (weir_pool_stats_get(world.pool, &stats) != WEIR_SUCCESS || stats.buffers != 0)
    report("buffers are left", seed);
  if (stats.device_held_bytes != 0) report("held bytes are left", seed);
  validate(world);
  if (stats.device_bytes > stats.device_budget || stats.host_bytes > stats.host_budget)
    report("a budget was passed", seed);
  returned_bytes += stats.device_returned_bytes;
  if (stats.compressed_raw_bytes != 0 || stats.storage_raw_bytes != 0 ||
      stats.compressed_bytes != 0 || stats.storage_bytes != 0)
    report("bytes are left below HOST", seed);
  sunk_bytes += stats.sunk_bytes;
  lifted_bytes += stats.lifted_bytes;
  moved_bytes += stats.defragment_moved_bytes;
  recoded_bytes += stats.recompressed_bytes;
  lent_bytes += stats.lent_bytes;
  refusals += stats.device_oom;
  changes += world.changes.load();
  shard_leases += world.shard_leases.load();
  relayed_bytes += stats.relayed_bytes + stats.host_relayed_bytes;
  remote_uses += stats.remote_uses;
  if (world.rounds && !world.disturbed) planned_bytes += stats.prefetched_bytes;
  for (weir_client client : world.clients) check_idle(client, seed);
  if (weir_pool_destroy(world.pool) != WEIR_SUCCESS) report("pool_destroy", seed);
  if (weir_context_destroy(world.context) != WEIR_SUCCESS) report("context_destroy", seed);
}

unsigned long long number(uint64_t n) { return n; }

}  // namespace

int main(int argc, char **argv) {
  double seconds = 20;
  uint64_t seed = std::random_device{}();
  long runs = 0;
  int steps = 400;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--verbose") {
      verbose = true;
    } else if (i + 1 < argc && name == "--seconds") {
      seconds = std::atof(argv[++i]);
    } else if (i + 1 < argc && name == "--seed") {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && name == "--runs") {
      runs = std::atol(argv[++i]);
    } else if (i + 1 < argc && name == "--steps") {
      steps = std::atoi(argv[++i]);
    } else if (i + 1 < argc && name == "--policy") {
      only_policy = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: fuzz_pool [--seconds S] [--seed N] [--runs R] [--steps K] [--policy "
                   "NAME] [--verbose]\n");
      return 2;
    }
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  long done = 0;
  for (; (runs != 0 ? done < runs : std::chrono::steady_clock::now() < end) && failures.load() == 0;
       ++done) {
    run_once(seed + static_cast<uint64_t>(done), steps, verbose);
  }
  std::printf(
      "fuzz_pool: %ld runs from seed %llu, %llu failures; %llu bytes sunk, %llu lifted, %llu "
      "returned, %llu moved, %llu compressed again, %llu lent, %llu relayed; %llu devices left, "
      "%llu remote uses, %llu leases of shards, %llu refusals of memory; by plans alone %llu bytes "
      "brought\n",
      done, number(seed), number(failures.load()), number(sunk_bytes), number(lifted_bytes),
      number(returned_bytes), number(moved_bytes), number(recoded_bytes), number(lent_bytes),
      number(relayed_bytes), number(changes), number(remote_uses), number(shard_leases),
      number(refusals), number(planned_bytes));
  return failures.load() == 0 ? 0 : 1;
}
