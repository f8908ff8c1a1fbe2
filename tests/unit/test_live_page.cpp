// SPDX-License-Identifier: Apache-2.0
//
// What a program shows of itself: the memory file and its seals, the file in the user's folder, when there is neither, and that the
// figures of a pool are those of its calls. The page is looked at as another process would see it, by /proc and pread.

#include "core/live/page.hpp"
#include "tests/unit/interleaving.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace {

using namespace weir::test;
namespace live = weir::live;
namespace fs = std::filesystem;

/// A runtime folder of the test's own, and nothing in it in the end.
class Home {
 public:
  Home() {
    std::string name = (fs::temp_directory_path() / "weir-live-XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    root_ = name;
    assert_int_equal(mkdir((root_ / "run").c_str(), 0700), 0);
    assert_int_equal(mkdir((root_ / "tmp").c_str(), 0700), 0);
    (void)setenv("XDG_RUNTIME_DIR", (root_ / "run").c_str(), 1);
    (void)unsetenv("WEIR_LIVE");
  }
  ~Home() { fs::remove_all(root_); }
  fs::path run() const { return root_ / "run"; }
  fs::path folder() const { return root_ / "run/weir"; }
  fs::path temporary() const { return root_ / "tmp"; }
  live::Folder::Surroundings where() const { return {run().string(), temporary().string(), ""}; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (fs::exists(folder()))
      for (const auto &each : fs::directory_iterator(folder())) found.push_back(each.path());
    return found;
  }

 private:
  fs::path root_;
};

std::string text_of(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

live::Entry entry_of(const Home &home, const std::string &name = std::to_string(getpid())) {
  live::Entry entry;
  const std::string text = text_of(home.folder() / name);
  if (!live::Entry::parse(text, &entry)) fail_msg("no line: %s", text.c_str());
  return entry;
}

/// The page of this process's first context.
class Look {
 public:
  explicit Look(const Home &home)
      : file_(open(("/proc/self/fd/" + std::to_string(entry_of(home).file)).c_str(),
                   O_RDONLY | O_CLOEXEC)) {
    assert_true(static_cast<bool>(file_));
  }
  int file() const { return file_.get(); }
  live::Header header() const {
    live::Header header{};
    assert_int_equal(pread(file(), &header, sizeof header, 0), sizeof header);
    return header;
  }
  /// As it lies there: the program does not write at this moment, or the caller can tell.
  live::Slot slot(uint32_t number = 0) const {
    live::Slot slot{};
    assert_int_equal(
        pread(file(), &slot, sizeof slot, static_cast<off_t>(live::slot_offset(number))),
        sizeof slot);
    return slot;
  }
  /// A whole one.
  live::Pool pool(uint32_t number = 0) const {
    for (;;) {
      const live::Slot first = slot(number);
      if (first.sequence % 2 == 0 && slot(number).sequence == first.sequence) return first.pool;
    }
  }

 private:
  live::Descriptor file_;
};

uint64_t counter(const live::Pool &pool, weir::Counter which) {
  return pool.counters[static_cast<size_t>(which)];
}

weir::pool::Publisher &publisher_of(World &world) { return engine_of(world).upkeep().publisher(); }

void the_page_is_sealed_and_found(void **) {
  const Home home;
  weir_context context = nullptr;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  ok(weir_context_create(&desc, &context));
  struct stat about {};
  assert_int_equal(stat(home.folder().c_str(), &about), 0);
  assert_int_equal(about.st_mode & 07777, 0700);
  const fs::path name = home.folder() / std::to_string(getpid());
  assert_int_equal(stat(name.c_str(), &about), 0);
  assert_int_equal(about.st_mode & 07777, 0600);
  const live::Entry entry = entry_of(home);
  assert_int_equal(entry.process, getpid());
  assert_true(entry.start_time != 0 && entry.start_time == live::start_time_of(getpid()));
  assert_true(entry.pid_namespace != 0 && entry.pid_namespace == live::own_pid_namespace());
  assert_true((fcntl(entry.file, F_GETFD) & FD_CLOEXEC) != 0);
  const Look look(home);
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
  assert_int_equal(fcntl(look.file(), F_GET_SEALS) & seals, seals);
  // Not even a process that opens it for writing, as root can, writes.
  const live::Descriptor writer(
      open(("/proc/self/fd/" + std::to_string(entry.file)).c_str(), O_RDWR | O_CLOEXEC));
  if (writer) {
    assert_int_equal(pwrite(writer.get(), "x", 1, 0), -1);
    assert_int_equal(ftruncate(writer.get(), 0), -1);
  }
  const live::Header header = look.header();
  assert_true(header.magic == live::page_magic && header.version == live::layout_version);
  assert_int_equal(header.process, getpid());
  assert_true(header.start_time == entry.start_time);
  assert_true(header.place_count == 1 && header.places == 1);
  assert_string_equal(header.place[0].backend.data(), "host");
  assert_string_equal(header.library.data(), weir_version_string());
  assert_string_equal(header.program.data(), program_invocation_short_name);
  // A second context has a line of its own; each goes with its context.
  weir_context second = nullptr;
  ok(weir_context_create(&desc, &second));
  assert_int_equal(home.files().size(), 2);
  assert_true(entry_of(home, std::to_string(getpid()) + ".2").file != entry.file);
  ok(weir_context_destroy(context));
  assert_int_equal(home.files().size(), 1);
  assert_int_equal(fcntl(entry.file, F_GETFD), -1);
  ok(weir_context_destroy(second));
  assert_int_equal(home.files().size(), 0);
}

struct Lines {
  std::vector<std::string> all;
  static void add(void *user, int32_t level, const char *text) {
    if (level == WEIR_LOG_INFO) static_cast<Lines *>(user)->all.emplace_back(text);
  }
  weir::Log log() { return {&Lines::add, this}; }
};

/// Whether the page is on, and what was said if not.
std::string opened(const live::Folder::Surroundings &where) {
  Lines lines;
  live::Page page;
  page.open(lines.log(), {}, where);
  if (page.on()) {
    assert_true(lines.all.empty());
    return "on";
  }
  assert_true(lines.all.size() <= 1);
  return lines.all.empty() ? "off" : lines.all[0];
}

void where_it_is_off(void **) {
  const Home home;
  const fs::path other = home.temporary() / ("weir-" + std::to_string(geteuid()));
  assert_string_equal(opened(home.where()).c_str(), "on");
  (void)setenv("WEIR_LIVE", "0", 1);
  assert_string_equal(opened(home.where()).c_str(), "off");
  (void)setenv("WEIR_LIVE", "1", 1);
  assert_string_equal(opened(home.where()).c_str(), "on");
  // Without a runtime folder, or with a bad one, the other one.
  assert_false(fs::exists(other));
  assert_string_equal(opened({"", home.temporary().string(), ""}).c_str(), "on");
  assert_string_equal(opened({"/nowhere", home.temporary().string(), ""}).c_str(), "on");
  fs::permissions(home.folder(), fs::perms(0750));
  assert_string_equal(opened(home.where()).c_str(), "on");
  assert_true(fs::exists(other) && home.files().empty());
  // That one is bad, too: open to others, a link, a file, not to be made.
  const auto refused = [&](const char *why) {
    const std::string said = opened(home.where());
    if (said.find(why) == said.npos || said.find(other.string()) == said.npos)
      fail_msg("no \"%s\" in %s", why, said.c_str());
  };
  fs::permissions(other, fs::perms(0701));
  refused("is open to others");
  fs::remove(other);
  fs::create_directory_symlink(home.run(), other);
  refused("is a link or no folder");
  fs::remove(other);
  std::ofstream(other) << "x";
  refused("is a link or no folder");
  fs::remove(other);
  // A folder above that others may write to is none; /tmp is, for what is in it is its owner's.
  fs::permissions(home.folder(), fs::perms(0700));
  fs::permissions(home.run(), fs::perms(0777));
  assert_string_equal(opened(home.where()).c_str(), "on");
  assert_true(home.files().empty() && fs::exists(other));
  fs::remove_all(other);
  const std::string said = opened({home.run().string(), "/nowhere", ""});
  assert_true(said.find("others may write to it") != said.npos &&
              said.find("/nowhere") != said.npos);
}

/// The line of a process that had the number before goes; that of one in another PID namespace stays.
void lines_of_others(void **) {
  const Home home;
  fs::create_directory(home.folder());
  fs::permissions(home.folder(), fs::perms(0700));
  const std::string name = std::to_string(getpid());
  const uint64_t own = live::own_pid_namespace();
  std::ofstream(home.folder() / name) << live::Entry{getpid(), 1, own + 1, 5}.line();
  std::ofstream(home.folder() / (name + ".2")) << live::Entry{getpid(), 1, own, 5}.line();
  {
    Lines lines;
    live::Page page;
    page.open(lines.log(), {}, home.where());
    assert_true(page.on());
    assert_int_equal(entry_of(home, name).start_time, 1);
    assert_true(entry_of(home, name + ".2").start_time == live::start_time_of(getpid()));
  }
  assert_int_equal(home.files().size(), 1);
}

void lines_are_read_strictly(void **) {
  live::Entry entry;
  const std::string good = live::Entry{12, 345, 678, 9}.line();
  assert_true(live::Entry::parse(good, &entry));
  assert_true(entry.process == 12 && entry.start_time == 345 && entry.pid_namespace == 678 &&
              entry.file == 9);
  for (const std::string &bad :
       {std::string(), std::string("weir-live 1 12 345 678 9"), good + good, " " + good,
        std::string("weir-live 2 12 345 678 9\n"), std::string("weir-live 1 12 345 678 -1\n"),
        std::string("weir-live 1 0 345 678 9\n"), std::string("weir-live 1 -3 345 678 9\n"),
        std::string("weir-live 1 12 0 678 9\n"), std::string("weir-live 1 12 345 678 9x\n"),
        std::string("weir-live 1 12  345 678 9\n"), std::string("weir-live 1 99999999999 3 6 9\n"),
        std::string(300, '1')})
    if (live::Entry::parse(bad, &entry)) fail_msg("taken for a line: %s", bad.c_str());
}

void a_dead_process_has_no_start(void **) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t ended{};
  assert_int_equal(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  assert_true(live::start_time_of(child) == 0);  // it is not reaped yet
  assert_int_equal(waitpid(child, nullptr, 0), child);
  assert_true(live::start_time_of(child) == 0);
}

/// What a pool did shows, by tier, device and client; of a pool without threads, as of its last slow call.
void figures_are_the_pools(void **) {
  const Home home;
  World world({.device_pages = 8, .host_pages = 16});
  const Look look(home);
  live::Pool pool = look.pool();
  assert_true(pool.serial != 0 && pool.background == 0);
  assert_int_equal(pool.counter_count, live::counter_count);
  assert_true(pool.tiers[live::device_tier].budget == 8 * page_bytes);
  assert_int_equal(pool.device_count, 1);
  assert_true(pool.client_count == 1 && pool.clients == 1 && pool.client[0].id == 0);
  weir_client client = nullptr;
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "tenant\x1b[2J";
  desc.device_quota = 4 * page_bytes;
  desc.host_quota = WEIR_NONE;
  desc.priority = 2;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer_desc of_client = WEIR_BUFFER_DESC_INIT;
  of_client.size = two_pages;
  of_client.client = client;
  weir_buffer leased = nullptr;
  ok(weir_buffer_create(world.pool, &of_client, &leased));
  const weir_buffer cold = world.buffer(two_pages);
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(cold, WEIR_DISCARD_WRITE, &lease, &address));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_advise(world.pool, cold, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  ok(world.acquire(leased, WEIR_READ_WRITE, &lease, &address));
  publisher_of(world).write_now();
  pool = look.pool();
  const live::Amounts &device = pool.tiers[live::device_tier];
  assert_true(device.used == 2 * two_pages && device.leased == two_pages &&
              device.cold == two_pages);
  assert_true(pool.devices[0].amounts.used == 2 * two_pages &&
              pool.devices[0].amounts.leased == two_pages);
  assert_true(pool.tiers[live::host_tier].leased == 0 && pool.walked_ns != 0);
  assert_true(pool.client_count == 2 && pool.clients == 2);
  const live::Client &tenant = pool.client[1];
  assert_string_equal(tenant.name.data(), desc.name);
  assert_true(tenant.buffers == 1 && tenant.priority == 2);
  assert_true(tenant.tiers[live::device_tier].budget == 4 * page_bytes &&
              tenant.tiers[live::device_tier].used == two_pages &&
              tenant.tiers[live::device_tier].leased == two_pages &&
              tenant.tiers[live::device_tier].cold == 0);
  assert_true(tenant.tiers[live::host_tier].budget == 0);
  assert_true(pool.client[0].tiers[live::host_tier].budget == live::no_limit);
  assert_true(counter(pool, weir::Counter::misses) == 2);
  // A hit shows with the next slow call only.
  ok(weir_release(lease, world.streams[0]));
  ok(world.acquire(leased, WEIR_READ_WRITE, &lease, &address));
  ok(weir_release(lease, world.streams[0]));
  assert_true(counter(look.pool(), weir::Counter::hits) == 0);
  const weir_buffer third = world.buffer(page_bytes);
  while (counter(look.pool(), weir::Counter::hits) == 0) {
    ok(world.acquire(third, WEIR_READ_WRITE, &lease, &address));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  }
  ok(weir_buffer_destroy(world.pool, leased));
  ok(weir_client_destroy(client));
  publisher_of(world).write_now();
  assert_int_equal(look.pool().clients, 1);
  world.close();
  assert_true(home.files().empty());
}

/// A walk in steps of one page finds the same as one in one step.
void walks_go_on_where_they_were(void **) {
  const Home home;
  World world({.device_pages = 16, .host_pages = 16});
  const Look look(home);
  std::vector<weir_lease> leases(3);
  for (weir_lease &lease : leases) {
    uint64_t address = 0;
    ok(world.acquire(world.buffer(3 * page_bytes), WEIR_READ_WRITE, &lease, &address));
  }
  publisher_of(world).write_now();  // ends the walk under way
  publisher_of(world).write_now();
  const uint64_t before = look.pool().walked_ns;
  int steps = 0;
  while (look.pool().walked_ns == before) {
    assert_true(look.pool().tiers[live::device_tier].leased == 9 * page_bytes);
    publisher_of(world).write_now(1);
    ++steps;
  }
  assert_true(look.pool().tiers[live::device_tier].leased == 9 * page_bytes);
  assert_in_range(steps, 9, 4096);
  for (const weir_lease lease : leases) ok(weir_release(lease, world.streams[0]));
  world.close();
}

/// The pool's thread writes though no call is slow any more.
void hits_alone_show(void **) {
  const Home home;
  World world({.device_pages = 8, .host_pages = 16, .flags = 0});
  const Look look(home);
  const weir_buffer buffer = world.buffer(page_bytes);
  for (uint64_t i = 0; counter(look.pool(), weir::Counter::hits) < 3; ++i) {
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(world.acquire(buffer, WEIR_READ_WRITE, &lease, &address));
    ok(weir_release(lease, world.streams[0]));
  }
  assert_int_equal(look.pool().background, 1);
  world.close();
}

/// 32 pools are shown, further ones counted; one that has waited takes the place of one that ends.
void more_pools_than_slots(void **) {
  const Home home;
  World world({.device_pages = 2});
  const Look look(home);
  std::vector<weir_pool> pools;
  const weir_pool_device device{0, 0, page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.host_budget = WEIR_NONE;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.name = "many";
  for (uint32_t i = 0; i < live::most_pools + 1; ++i) {
    pools.emplace_back();
    ok(weir_pool_create(world.context, &desc, &pools.back()));
  }
  assert_int_equal(look.header().pools_without_slot, 2);
  ok(weir_pool_destroy(pools[0]));
  assert_true(look.pool(1).serial == 0);
  auto &last = *reinterpret_cast<weir::pool::Pool *>(pools.back());
  last.engine().upkeep().publisher().write_now();
  assert_true(look.pool(1).serial == last.serial());
  assert_int_equal(look.header().pools_without_slot, 1);
  for (size_t i = 1; i < pools.size(); ++i) ok(weir_pool_destroy(pools[i]));
  assert_int_equal(look.header().pools_without_slot, 0);
  world.close();
}

void more_clients_than_places(void **) {
  const Home home;
  World world({.device_pages = 2});
  const Look look(home);
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  std::vector<weir_client> clients(live::most_clients + 10);
  for (weir_client &client : clients) ok(weir_client_create(world.pool, &desc, &client));
  publisher_of(world).write_now(1);
  publisher_of(world).write_now(1);
  live::Pool pool = look.pool();
  assert_int_equal(pool.client_count, live::most_clients);
  assert_int_equal(pool.clients, clients.size() + 1);
  // Places of those that go are others', though they were made before.
  for (size_t i = 0; i < 20; ++i) ok(weir_client_destroy(clients[i]));
  for (int i = 0; i < 3; ++i) publisher_of(world).write_now(1);
  pool = look.pool();
  assert_int_equal(pool.clients, clients.size() + 1 - 20);
  assert_int_equal(pool.client_count, pool.clients);
  std::set<uint32_t> ids;
  for (uint32_t i = 0; i < pool.client_count; ++i) ids.insert(pool.client[i].id);
  assert_int_equal(ids.size(), pool.client_count);
  assert_int_equal(*ids.rbegin(), clients.size());
  world.close();
}

/// The child has the mapping, and writes nothing.
void a_forked_child_writes_nothing(void **) {
  const Home home;
  World world({.device_pages = 2});
  const Look look(home);
  publisher_of(world).write_now();
  const uint64_t before = look.slot().sequence;
  const pid_t child = fork();
  if (child == 0) {
    publisher_of(world).write_now();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && look.slot().sequence == before);
  publisher_of(world).write_now();
  assert_true(look.slot().sequence == before + 2);
  assert_int_equal(home.files().size(), 1);
  world.close();
}

/// A program that closes what it did not open, as daemons do: its own file with that number stays open.
void a_program_that_closes_the_file(void **) {
  const Home home;
  weir_context context = nullptr;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  ok(weir_context_create(&desc, &context));
  const int number = entry_of(home).file;
  assert_int_equal(dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), number), number);
  ok(weir_context_destroy(context));
  assert_true(fcntl(number, F_GETFD) >= 0 && home.files().empty());
  (void)close(number);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_page_is_sealed_and_found),
      cmocka_unit_test(where_it_is_off),
      cmocka_unit_test(lines_of_others),
      cmocka_unit_test(lines_are_read_strictly),
      cmocka_unit_test(a_dead_process_has_no_start),
      cmocka_unit_test(figures_are_the_pools),
      cmocka_unit_test(walks_go_on_where_they_were),
      cmocka_unit_test(hits_alone_show),
      cmocka_unit_test(more_pools_than_slots),
      cmocka_unit_test(more_clients_than_places),
      cmocka_unit_test(a_forked_child_writes_nothing),
      cmocka_unit_test(a_program_that_closes_the_file),
  };
  return cmocka_run_group_tests_name("live page", tests, nullptr, nullptr);
}
