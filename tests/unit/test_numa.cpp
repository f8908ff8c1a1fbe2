// SPDX-License-Identifier: Apache-2.0
//
// NUMA nodes: read from files of the test's own; memory and threads asked for on them, looked up by the kernel's own word; and
// a pool whose pinned memory lies near the device that it is for. What the kernel of this machine does not offer is skipped,
// and said to be.

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/unit/interleaving.hpp"

#include "core/base/numa.hpp"
#include "core/pool/pool.hpp"

namespace {

using namespace weir::test;
namespace numa = weir::numa;

/// A root with a folder of nodes in it, gone with the object.
struct Root {
  std::string path;
  explicit Root(const std::string &online) {
    std::string name = std::string(spill_folder()) + "/weir-numa-XXXXXX";
    assert_non_null(mkdtemp(name.data()));
    path = name;
    std::filesystem::create_directories(folder());
    std::ofstream(folder() + "online") << online << "\n";
  }
  ~Root() { std::filesystem::remove_all(path); }
  Root(const Root &) = delete;
  Root &operator=(const Root &) = delete;
  std::string folder() const { return path + "/sys/devices/system/node/"; }
  void node(uint32_t number, const std::string &cpus, const std::string &distances) const {
    const std::string of = folder() + "node" + std::to_string(number) + "/";
    std::filesystem::create_directories(of);
    std::ofstream(of + "cpulist") << cpus << "\n";
    std::ofstream(of + "distance") << distances << "\n";
  }
};

using Numbers = std::vector<uint32_t>;

void lists_are_read(void **) {
  assert_true(numa::read_list("0-3,8\n") == Numbers({0, 1, 2, 3, 8}));
  assert_true(numa::read_list("5") == Numbers({5}));
  for (const char *bad : {"", "\n", "x", "3-1", "0-", "0-99999999", "1;2"})
    assert_true(numa::read_list(bad).empty());
}

void nodes_are_read(void **) {
  const Root root("0,2-3");
  root.node(0, "0-1,4", "10 21 31");
  root.node(1, "9", "10");  // not online
  root.node(2, "2-3", "21 10 21");
  root.node(3, "", "31 21 10");
  const numa::Nodes nodes(root.path);
  assert_int_equal(nodes.count(), 3);
  assert_true(nodes.has(0) && nodes.has(2) && nodes.has(3) && !nodes.has(1));
  assert_true(nodes.cpus(0) == Numbers({0, 1, 4}));
  assert_true(nodes.cpus(3).empty() && nodes.cpus(7).empty());
  assert_int_equal(nodes.distance(0, 0), 10);
  assert_int_equal(nodes.distance(0, 2), 21);
  assert_int_equal(nodes.distance(3, 0), 31);
  assert_int_equal(nodes.distance(0, 1), numa::Nodes::far);
  assert_int_equal(nodes.distance(5, 5), 10);
  assert_int_equal(nodes.distance(numa::unknown, numa::unknown), numa::Nodes::far);
}

void a_system_without_nodes(void **) {
  const numa::Nodes nodes("/nowhere/at/all");
  assert_int_equal(nodes.count(), 0);
  assert_false(numa::PreferNode(nodes, 0).active());
  assert_false(numa::stay_on(nodes, 0));
}

// ---- memory ----

struct Policy {
  int mode = -1;
  uint64_t first = 0;
  bool operator==(const Policy &) const = default;
};
Policy policy_now() {
  Policy policy;
  uint64_t mask[numa::PreferNode::most_nodes / 64 + 1] = {};
  if (syscall(SYS_get_mempolicy, &policy.mode, mask, uint64_t{numa::PreferNode::most_nodes},
              nullptr, 0UL) != 0)
    return {};
  policy.first = mask[0];
  return policy;
}
/// The node of this thread, where the kernel has nodes and lets this program ask for them.
uint32_t real_node() {
  const numa::Nodes nodes;
  const uint32_t here = numa::current_node();
  if (nodes.has(here) && here < 64 && numa::PreferNode(nodes, here).active()) return here;
  print_message("skipped: %zu NUMA nodes in /sys, and the kernel takes no wishes for them\n",
                nodes.count());
  skip();
  return numa::unknown;  // unless skip() does not come back
}

void a_wish_lasts_as_long_as_its_scope(void **) {
  const uint32_t node = real_node();
  const numa::Nodes nodes;
  const Policy before = policy_now();
  {
    const numa::PreferNode prefer(nodes, node);
    assert_int_equal(policy_now().mode, MPOL_PREFERRED);
    assert_int_equal(policy_now().first, uint64_t{1} << node);
    {
      const numa::PreferNode again(nodes, node);
      assert_true(again.active());
    }
    assert_int_equal(policy_now().mode, MPOL_PREFERRED);
    assert_int_equal(policy_now().first, uint64_t{1} << node);
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    *static_cast<volatile char *>(page) = 1;
    assert_int_equal(numa::node_of(page), node);
    munmap(page, 4096);
  }
  assert_true(policy_now() == before);
}

/// A rehearsed machine's nodes are not this one's: the kernel is not asked, or refuses, and all is as it was.
void a_node_that_is_not_there(void **) {
  (void)real_node();
  const Policy before = policy_now();
  const numa::Nodes nodes;
  assert_false(numa::PreferNode(nodes, 900).active());
  assert_false(numa::PreferNode(nodes, numa::unknown).active());
  const Root root("0,900");
  root.node(900, "0", "10");
  const numa::Nodes said(root.path);
  const numa::PreferNode prefer(said, 900);
  assert_false(prefer.active());
  assert_true(policy_now() == before);
}

// ---- threads ----

std::vector<uint32_t> allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<uint32_t> cpus;
  for (uint32_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  return cpus;
}
void need_two_cpus() {
  if (allowed().size() >= 2) return;
  print_message("skipped: this test may run on one processor only\n");
  skip();
}

void a_thread_stays_within_what_it_was_given(void **) {
  need_two_cpus();
  const std::vector<uint32_t> cpus = allowed();
  const Root root("0-2");
  // A processor that this thread may not use is never added.
  root.node(0, std::to_string(cpus[0]) + ",1000", "10 20 20");
  root.node(1, std::to_string(cpus[1]), "20 10 20");
  root.node(2, "1001", "20 20 10");
  const numa::Nodes nodes(root.path);
  bool stayed = false, moved = true, nowhere = true;
  std::vector<uint32_t> then, after;
  std::thread thread([&] {
    stayed = numa::stay_on(nodes, 0);
    then = allowed();
    moved = numa::stay_on(nodes, 1);  // it was given node 0's only
    nowhere = numa::stay_on(nodes, 2);
    after = allowed();
  });
  thread.join();
  assert_true(stayed && !moved && !nowhere);
  assert_true(then == Numbers({cpus[0]}) && after == then);
  assert_true(allowed() == cpus);
}

/// How many threads of this program run on these processors and no other.
size_t threads_on(const Numbers &cpus) {
  size_t count = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(std::stoi(task.path().filename()), sizeof set, &set) != 0) continue;
    bool same = CPU_COUNT(&set) == static_cast<int>(cpus.size());
    for (const uint32_t cpu : cpus) same = same && CPU_ISSET(cpu, &set);
    count += same ? 1 : 0;
  }
  return count;
}

const Root *root_of_the_pool = nullptr;

constexpr const char *two_devices =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2;host.map_any_thread=0";

World world_at(const char *numa_nodes, uint64_t flags, uint64_t host_pages = 64) {
  Setup setup;
  setup.options = std::string(two_devices) + ";host.numa=" + numa_nodes;
  setup.devices = 2;
  setup.device_pages = 40;
  setup.host_pages = host_pages;
  setup.flags = flags;
  setup.before_pool = [](weir_context context) {
    if (root_of_the_pool != nullptr)
      reinterpret_cast<weir::pool::Context *>(context)->numa_root = root_of_the_pool->path;
  };
  return World(setup);
}

/// Its starting threads have come so far as to be where they stay: each has done some work since.
bool threads_come_to(const Numbers &cpus, size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (threads_on(cpus) != count) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Two mapping threads, the demoter and the prefetcher.
void the_pools_threads_stay_near_its_devices(void **) {
  need_two_cpus();
  const std::vector<uint32_t> cpus = allowed();
  const Root root("0-1");
  root.node(0, std::to_string(cpus[0]), "10 20");
  root.node(1, std::to_string(cpus[1]), "20 10");
  root_of_the_pool = &root;
  {
    World world = world_at("1,1", 0);
    assert_true(threads_come_to({cpus[1]}, 4));
    world.close();
  }
  {
    // Devices at two nodes: mapping threads have a device each, the others serve both and stay free.
    World world = world_at("0,1", 0);
    assert_true(threads_come_to({cpus[0]}, 1));
    assert_true(threads_come_to({cpus[1]}, 1));
    world.close();
  }
  root_of_the_pool = nullptr;
  const Root one("0");
  one.node(0, std::to_string(cpus[0]), "10");
  root_of_the_pool = &one;
  World world = world_at("0,0", 0);
  weir_buffer buffer = world.buffer(two_pages);
  world.fill(buffer, two_pages, 1);  // the mapping thread is at work by now
  assert_int_equal(threads_on({cpus[0]}), 0);
  world.close();
  root_of_the_pool = nullptr;
}

// ---- HOST ----

/// Containers of HOST in which bytes of this buffer lie.
std::set<uint64_t> chunks_of(World &world, weir_buffer buffer) {
  size_t count = 0;
  ok(weir_pool_map(world.pool, nullptr, 0, &count));
  std::vector<weir_piece> pieces(count);
  ok(weir_pool_map(world.pool, pieces.data(), count, &count));
  std::set<uint64_t> chunks;
  for (const weir_piece &piece : pieces)
    if (piece.tier == WEIR_TIER_HOST && piece.buffer == buffer) chunks.insert(piece.container);
  return chunks;
}

void demote(World &world, uint32_t device) {
  ok(weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
}

/// A chunk for each node; a thread that finds its own full, and no budget for more, takes the other's.
void chunks_are_made_for_nodes(void **) {
  const uint64_t chunk = uint64_t{64} << 20U;
  World world =
      world_at("40,41", WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER, 2 * chunk / page_bytes);
  weir_buffer first = world.buffer(two_pages, 0), second = world.buffer(two_pages, 1),
              third = world.buffer(two_pages, 0);
  for (weir_buffer buffer : {first, third}) world.fill(buffer, two_pages, 1, 0);
  world.fill(second, two_pages, 2, 1);
  demote(world, 0);
  demote(world, 1);
  assert_int_equal(chunks_of(world, first).size(), 1);
  assert_true(chunks_of(world, first) == chunks_of(world, third));
  assert_int_equal(chunks_of(world, second).size(), 1);
  assert_true(chunks_of(world, first) != chunks_of(world, second));
  world.check_read(first, two_pages, 1);
  world.check_read(second, two_pages, 2);
  for (weir_buffer buffer : {first, second, third}) ok(weir_buffer_destroy(world.pool, buffer));
  demote(world, 1);
  close_clean(world);
}

void the_budget_is_one(void **) {
  World world = world_at("40,41", WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER, 8);
  weir_buffer first = world.buffer(two_pages, 0), second = world.buffer(two_pages, 1);
  world.fill(first, two_pages, 1, 0);
  world.fill(second, two_pages, 2, 1);
  demote(world, 0);  // a chunk that is all of the budget
  demote(world, 1);
  assert_true(chunks_of(world, first) == chunks_of(world, second));
  assert_int_equal(world.stats().host_bytes, 8 * page_bytes);
  world.check(first, two_pages, 1, 0);
  world.check(second, two_pages, 2, 1);
  for (weir_buffer buffer : {first, second}) ok(weir_buffer_destroy(world.pool, buffer));
  demote(world, 1);
  close_clean(world);
}

/// By the kernel's word: the page that a lease of the CPU shows is the one that was copied down to.
void pages_lie_on_their_devices_node(void **) {
  const std::string node = std::to_string(real_node());
  World world = world_at((node + "," + node).c_str(), WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER);
  weir_buffer buffer = world.buffer(two_pages, 1);
  world.fill(buffer, two_pages, 3, 1);
  demote(world, 1);
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  const auto *bytes = reinterpret_cast<const uint8_t *>(use.address);
  assert_int_equal(wrong_bytes(bytes, two_pages, PatternOf{3}), 0);
  assert_int_equal(std::to_string(numa::node_of(bytes)) == node, 1);
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
  assert_int_equal(policy_now().mode, MPOL_DEFAULT);
  ok(weir_buffer_destroy(world.pool, buffer));
  demote(world, 1);
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read),
      cmocka_unit_test(nodes_are_read),
      cmocka_unit_test(a_system_without_nodes),
      cmocka_unit_test(a_wish_lasts_as_long_as_its_scope),
      cmocka_unit_test(a_node_that_is_not_there),
      cmocka_unit_test(a_thread_stays_within_what_it_was_given),
      cmocka_unit_test(the_pools_threads_stay_near_its_devices),
      cmocka_unit_test(chunks_are_made_for_nodes),
      cmocka_unit_test(the_budget_is_one),
      cmocka_unit_test(pages_lie_on_their_devices_node),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
