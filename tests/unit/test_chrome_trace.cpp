// SPDX-License-Identifier: Apache-2.0
//
// Timelines through the C ABI: that the file keeps the format's rules, that what it says is what the pool counted, and what becomes of
// it when the process is killed, the file full, the disk full, or the program faster than the writer.

#include "tests/unit/neighbours.hpp"
#include "tests/unit/timeline_file.hpp"

#include <weir/observe.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

namespace {

using namespace weir;
using namespace weir::test;

const uint64_t size = 2 * page_bytes;

/// A name in a folder of the test's own, where nothing is.
std::string fresh_path(const char *name) {
  static const std::string folder = [] {
    std::string text = std::string(spill_folder()) + "/weir-timeline-XXXXXX";
    assert_non_null(mkdtemp(text.data()));
    return text;
  }();
  const std::string path = folder + "/" + name;
  (void)unlink(path.c_str());
  return path;
}

weir_result start(World &world, const std::string &path, uint64_t max_bytes = 0) {
  weir_trace_desc desc = WEIR_TRACE_DESC_INIT;
  desc.path = path.c_str();
  desc.max_bytes = max_bytes;
  return weir_trace_start(world.context, &desc);
}

weir_buffer named(World &world, const char *name, uint64_t bytes = size) {
  const weir_buffer made = world.buffer(bytes);
  ok(weir_buffer_set_name(world.pool, made, name));
  return made;
}

/// Six buffers for the memory of four, in turns.
void use_up(World &world, const std::vector<weir_buffer> &buffers) {
  for (uint32_t i = 0; i < buffers.size(); ++i) world.fill(buffers[i], size, 1 + i);
  for (uint32_t round = 0; round < 2; ++round)
    for (uint32_t i = 0; i < buffers.size(); ++i) world.check(buffers[i], size, 1 + i);
}

void a_timeline_keeps_the_rules_and_tells_what_was_counted(void **) {
  const std::string path = fresh_path("rules.json");
  World world({.device_pages = 8, .host_pages = 64});
  std::vector<weir_buffer> buffers{named(world, "weights \"0\"\\\x01")};
  ok(start(world, path));
  for (int i = 1; i < 6; ++i)
    buffers.push_back(named(world, ("buffer " + std::to_string(i)).c_str()));
  use_up(world, buffers);
  const weir_pool_stats stats = world.stats();
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  assert_int_equal(file.moved("device 0 \u2192 host"), stats.demoted_bytes);
  assert_int_equal(file.moved("host \u2192 device 0"), stats.promoted_bytes);
  assert_true(stats.promoted_bytes > 0 && stats.demoted_bytes > 0);
  assert_int_equal(file.all("B", "lease").size(), 18);
  assert_int_equal(file.all("E").size(), 18);
  assert_int_equal(file.all("X", "work").size(), 18);
  // Of those that were there before, too; what could break the file is shown as everywhere.
  assert_true(file.has("B", "weights \"0\"\\\\x01"));
  assert_true(file.has("B", "buffer 5"));
  assert_true(file.has("X", "evict from device 0"));
  assert_true(file.has("X", "mapping") && file.has("X", "eviction"));
  assert_true(file.has("C", "device 0 of pool") && file.has("C", "host of pool"));
  assert_true(!file.all("f").empty());
  uint64_t freed = 0;
  for (const Json &event : file.all("X", "evict"))
    freed += event["args"]["freed_bytes"].get<uint64_t>();
  assert_int_equal(freed, stats.evictions * page_bytes);
  world.close();
}

void tiers_and_neighbours_have_rows(void **) {
  const std::string path = fresh_path("tiers.json");
  World world({.device_pages = 8, .host_pages = 4, .compressed_pages = 6, .storage_pages = 64});
  ok(start(world, path));
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 8; ++i) buffers.push_back(world.buffer(size));
  use_up(world, buffers);
  for (uint32_t i = 0; i < 8; ++i) world.check_read(buffers[i], size, 1 + i);
  // What is cold goes past HOST.
  world.fill(buffers[0], size, 1);
  ok(weir_advise(world.pool, buffers[0], 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  for (uint32_t i = 1; i < 8; ++i) world.fill(buffers[i], size, 1 + i);
  const weir_pool_stats stats = world.stats();
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  uint64_t up = 0, sunk = 0;
  for (const char *from : {"compressed", "storage"})
    for (const char *to : {"device 0", "host"})
      up += file.moved(std::string(from) + " \u2192 " + to);
  for (const char *from : {"device 0", "host", "compressed"})
    for (const char *to : {"compressed", "storage"})
      sunk += file.moved(std::string(from) + " \u2192 " + to);
  assert_true(stats.lifted_bytes > 0 && stats.sunk_bytes > 0);
  assert_true(file.moved("device 0 \u2192 compressed") + file.moved("device 0 \u2192 storage") >=
              size);
  assert_int_equal(up, stats.lifted_bytes);
  assert_int_equal(sunk, stats.sunk_bytes);
  world.close();
}

void two_devices_exchange_pages(void **) {
  const std::string path = fresh_path("peers.json");
  World world(neighbours(8));
  ok(start(world, path));
  const weir_buffer buffer = world.buffer(size, 0);
  world.fill(buffer, size, 1, 0);
  world.check(buffer, size, 1, 1);
  const weir_pool_stats stats = world.stats();
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  assert_int_equal(stats.peer_bytes, size);
  assert_int_equal(file.moved("device 0 \u2192 device 1"), size);
  world.close();
}

void leases_that_overlap_have_tracks_of_their_own(void **) {
  const std::string path = fresh_path("lanes.json");
  World world({.device_pages = 16, .host_pages = 64});
  ok(start(world, path));
  std::vector<weir_lease> leases(5);
  std::vector<weir_buffer> buffers;
  for (weir_lease &lease : leases) {
    buffers.push_back(world.buffer(size));
    ok(world.acquire(buffers.back(), WEIR_READ_WRITE, &lease));
  }
  // In no stack's order.
  for (const size_t i : {2U, 0U, 4U, 1U, 3U}) ok(weir_release(leases[i], world.streams[0]));
  weir_lease one = nullptr;
  ok(world.acquire(buffers[0], WEIR_READ, &one));  // as a hit
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  ok(weir_release(one, world.streams[0]));
  const TimelineFile file(path);
  assert_int_equal(file.all("B", "lease").size(), 6);
  assert_int_equal(file.all("E").size(), 6);  // one at the trace's end
  world.close();
}

/// It began while another had the stream's first track, and was granted when that was free.
void one_that_waited_crosses_nothing(void **) {
  const std::string path = fresh_path("waited.json");
  World world({.device_pages = 4, .host_pages = 64});
  ok(start(world, path));
  const weir_buffer all = world.buffer(4 * page_bytes), other = world.buffer(size);
  weir_lease lease = nullptr;
  ok(world.acquire(all, WEIR_READ_WRITE, &lease));
  std::atomic<weir_result> result{WEIR_NOT_READY};
  std::thread waits([&] {
    weir_use use = WEIR_USE(other, WEIR_READ_WRITE);
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.timeout_ns = 60'000'000'000;
    weir_lease mine = nullptr;
    result = weir_acquire(world.pool, world.streams[0], &use, 1, &options, &mine);
    if (result == WEIR_SUCCESS) result = weir_release(mine, world.streams[0]);
  });
  while (engine_of(world).tap.waits().now(Wait::room) == 0) std::this_thread::yield();
  ok(weir_release(lease, world.streams[0]));
  waits.join();
  ok(result);
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  assert_int_equal(file.all("B", "lease").size(), 2);
  assert_true(file.has("X", "room"));
  world.close();
}

/// Whatever bytes they have, and however long they are.
void names_never_break_a_line(void **) {
  const std::string path = fresh_path("names.json");
  World world({.device_pages = 8, .host_pages = 64});
  ok(start(world, path));
  const weir_buffer buffer = named(world, std::string(255, '"').c_str());
  world.fill(buffer, size, 1);
  for (const char byte : {'\\', '\x01', '\xff'}) {
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    const std::string operation(1023, byte);
    options.operation = operation.c_str();
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, &options, &lease));
    ok(weir_release(lease, world.streams[0]));
  }
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  assert_int_equal(file.all("B", "lease").size(), 4);
  assert_int_equal(file.all("E").size(), 4);
  world.close();
}

[[gnu::noinline]] weir_buffer made_here(World &world) {
  const weir_buffer made = world.buffer(size);
  asm volatile("" : : : "memory");  // no tail call
  return made;
}

[[gnu::noinline]] uint64_t malloc_here(World &world) {
  uint64_t address = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], 1000, &address));
  asm volatile("" : : : "memory");
  return address;
}

bool has_frame_of(const Json &event, const char *file) {
  const Json &frames = event["args"]["frames"];
  return frames.is_array() && std::any_of(frames.begin(), frames.end(), [file](const Json &frame) {
           return frame.get<std::string>().starts_with(file);
         });
}

/// By which calls buffers were made, where the context keeps that: with the buffer, and by number with what moves.
void stacks_are_in_it(void **) {
  const std::string path = fresh_path("stacks.json"), second = fresh_path("stacks-again.json");
  assert_int_equal(setenv("WEIR_STACKS", "1", 1), 0);
  World world({.device_pages = 4, .host_pages = 64});
  assert_int_equal(unsetenv("WEIR_STACKS"), 0);
  ok(start(world, path));
  std::vector<weir_buffer> buffers;
  volatile size_t times = 4;  // from one place: not unrolled
  for (size_t i = 0; i < times; ++i) buffers.push_back(made_here(world));
  ok(weir_buffer_set_name(world.pool, buffers[0], "renamed"));
  const uint64_t scratch = malloc_here(world);
  use_up(world, buffers);
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  ok(weir_free(world.pool, world.streams[0], scratch));
  // The next trace is told again.
  ok(start(world, second));
  buffers.push_back(made_here(world));
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path), again(second);
  const std::vector<Json> made = file.all("i", "buffer");
  assert_int_equal(made.size(), 4);
  for (const Json &event : made) {
    assert_true(event["name"] == "create a buffer");
    assert_int_equal(event["args"]["bytes"].get<uint64_t>(), size);
    assert_true(event["args"]["stack"] == made[0]["args"]["stack"]);
    assert_true(event["args"]["frames"].size() >= 2);
    assert_true(has_frame_of(event, "test_chrome_trace"));
  }
  const std::vector<Json> allocated = file.all("i", "malloc");
  assert_int_equal(allocated.size(), 1);
  assert_true(allocated[0]["name"] == "weir_malloc");
  assert_int_equal(allocated[0]["args"]["bytes"].get<uint64_t>(), 1000);
  assert_true(allocated[0]["args"]["stack"] != made[0]["args"]["stack"]);
  assert_true(has_frame_of(allocated[0], "test_chrome_trace"));
  size_t moves = 0;
  for (const Json &event : file.all("b", "move")) {
    if (event["args"]["buffer"] == "(several)") continue;  // where weir_malloc takes from is zeroed
    assert_true(event["args"]["stack"] == made[0]["args"]["stack"]);  // the renamed one's, too
    ++moves;
  }
  assert_true(moves > 0);
  const std::vector<Json> later = again.all("i", "buffer");
  assert_int_equal(later.size(), 1);
  assert_true(later[0]["args"]["frames"].is_array());
  world.close();
  // Without stacks there is nothing of it.
  const std::string plain = fresh_path("no-stacks.json");
  World other({.device_pages = 4, .host_pages = 64});
  ok(start(other, plain));
  (void)made_here(other);
  ok(weir_free(other.pool, other.streams[0], malloc_here(other)));
  ok(weir_trace_stop(other.context, WEIR_TRACE_TIMELINE));
  assert_true(TimelineFile(plain).all("i", "buffer").empty());
  assert_true(TimelineFile(plain).all("i", "malloc").empty());
  other.close();
}

void refusals_and_operations_are_named(void **) {
  const std::string path = fresh_path("refusals.json");
  World world({.device_pages = 4, .host_pages = 64});
  ok(start(world, path));
  const weir_buffer large = world.buffer(6 * page_bytes), small = world.buffer(size);
  weir_lease lease = nullptr;
  assert_int_equal(world.acquire(large, WEIR_READ_WRITE, &lease), WEIR_ERROR_OVER_BUDGET);
  weir_use use = WEIR_USE(small, WEIR_READ_WRITE);
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  options.operation = "attention";
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, &options, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  assert_true(file.has("i", weir_result_string(WEIR_ERROR_OVER_BUDGET)));
  assert_true(file.has("X", "acquire (refused)"));
  assert_true(file.has("B", "attention"));
  assert_true(file.has("X", "attention"));  // what the device did
  world.close();
}

void pools_that_come_and_go_are_in_it(void **) {
  const std::string path = fresh_path("pools.json");
  World world({.device_pages = 4, .host_pages = 16});
  ok(start(world, path));
  weir_pool_device device{};
  device.budget = 4 * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.name = "second";
  desc.devices = &device;
  desc.device_count = 1;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.host_budget = 16 * page_bytes;
  weir_pool second = nullptr;
  ok(weir_pool_create(world.context, &desc, &second));
  World other(world.context, second);
  other.streams[0] = world.streams[0];
  const weir_buffer buffer = other.buffer(size);
  other.fill(buffer, size, 3);
  ok(weir_pool_destroy(second));
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const TimelineFile file(path);
  const std::vector<Json> leases = file.all("B", "lease");
  assert_int_equal(leases.size(), 1);
  assert_true(leases[0]["args"]["pool"] == "second");
  world.close();
}

void bad_wishes_are_refused(void **) {
  const std::string path = fresh_path("refused.json");
  World world;
  weir_trace_desc desc = WEIR_TRACE_DESC_INIT;
  assert_int_equal(weir_trace_start(world.context, &desc), WEIR_ERROR_INVALID_ARGUMENT);
  desc.path = "";
  assert_int_equal(weir_trace_start(world.context, &desc), WEIR_ERROR_INVALID_ARGUMENT);
  desc.path = path.c_str();
  desc.kind = WEIR_TRACE_RECORDING;
  assert_int_equal(weir_trace_start(world.context, &desc), WEIR_ERROR_BUSY);  // it has a pool
  assert_int_equal(access(path.c_str(), F_OK), -1);
  desc.kind = 77;
  assert_int_equal(weir_trace_start(world.context, &desc), WEIR_ERROR_INVALID_ARGUMENT);
  assert_non_null(std::strstr(weir_last_error(), "77"));
  assert_int_equal(start(world, path, 1000), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_trace_stop(world.context, 77), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(start(world, path + "/no/such/folder"), WEIR_ERROR_IO);
  assert_non_null(std::strstr(weir_last_error(), "no/such/folder"));
  // No other file is written over, and no link followed.
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL, 0644);
  assert_true(file >= 0);
  assert_int_equal(close(file), 0);
  assert_int_equal(start(world, path), WEIR_ERROR_IO);
  const std::string link = fresh_path("link.json"), goal = fresh_path("goal.json");
  assert_int_equal(symlink(goal.c_str(), link.c_str()), 0);
  assert_int_equal(start(world, link), WEIR_ERROR_IO);
  assert_int_equal(access(goal.c_str(), F_OK), -1);
  const std::string good = fresh_path("good-%p.json");
  ok(start(world, good));
  assert_int_equal(start(world, fresh_path("second.json")), WEIR_ERROR_BUSY);
  assert_int_equal(access(fresh_path("second.json").c_str(), F_OK), -1);
  ok(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE));
  const std::string name = good.substr(0, good.find("%p")) + std::to_string(getpid()) + ".json";
  struct stat found {};
  assert_int_equal(stat(name.c_str(), &found), 0);
  assert_int_equal(found.st_mode & 0777U, 0600);
  world.close();
}

/// Acquires until the trace has ended; the pool goes on as before.
void use_until_it_ends(World &world, const std::string &path, const char *why) {
  const weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  // Each of these is told; the writer ends by itself, whenever it comes to it.
  struct stat found {};
  for (uint64_t last = 0, same = 0; same < 2000;) {
    world.check(buffer, size, 1);
    assert_int_equal(stat(path.c_str(), &found), 0);
    same = static_cast<uint64_t>(found.st_size) == last && last > 8192 ? same + 1 : 0;
    last = static_cast<uint64_t>(found.st_size);
  }
  assert_int_equal(weir_trace_stop(world.context, WEIR_TRACE_TIMELINE), WEIR_ERROR_IO);
  if (std::strstr(weir_last_error(), why) == nullptr) fail_msg("%s", weir_last_error());
  world.check(buffer, size, 1);
}

void it_ends_at_its_size(void **) {
  const std::string path = fresh_path("size.json");
  World world;
  ok(start(world, path, 64U << 10U));
  use_until_it_ends(world, path, "come to its size");
  struct stat found {};
  assert_int_equal(stat(path.c_str(), &found), 0);
  assert_true(found.st_size <= 64 << 10);
  const TimelineFile file(path);
  assert_true(file.has("i", "the trace ended early"));
  ok(start(world, fresh_path("size.json")));  // another may begin
  world.close();
}

void a_full_disk_ends_it_and_nothing_else(void **) {
  const std::string path = fresh_path("full.json");
  World world;
  rlimit before{};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{16U << 10U, before.rlim_max};
  (void)signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
  ok(start(world, path));
  use_until_it_ends(world, path, "large");  // EFBIG
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, SIG_DFL);
  const TimelineFile file(path, true);
  assert_true(file.all("B", "lease").size() > 1);
  world.close();
}

void many_threads_while_traces_come_and_go(void **) {
  World world({.device_pages = 8, .host_pages = 64});
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> granted{0};
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      weir_stream stream = nullptr;
      if (weir_stream_create(world.context, 0, 0, &stream) != WEIR_SUCCESS) return;
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = size;
      weir_buffer buffer = nullptr;
      if (weir_buffer_create(world.pool, &desc, &buffer) == WEIR_SUCCESS) {
        while (!done.load()) {
          weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
          weir_lease lease = nullptr;
          if (weir_acquire(world.pool, stream, &use, 1, nullptr, &lease) != WEIR_SUCCESS) continue;
          granted.fetch_add(1);
          (void)weir_release(lease, stream);
        }
        (void)weir_buffer_destroy(world.pool, buffer);
      }
      (void)weir_stream_close(stream);
    });
  for (int i = 0; i < 6; ++i) {
    const std::string path = fresh_path("many.json");
    ok(start(world, path, 256U << 10U));
    for (const uint64_t before = granted.load(); granted.load() < before + 20;)
      std::this_thread::yield();
    const weir_result ended = weir_trace_stop(world.context, WEIR_TRACE_TIMELINE);
    assert_true(ended == WEIR_SUCCESS || ended == WEIR_ERROR_IO);  // at its size
    const TimelineFile file(path, false);
    assert_true(file.events.size() > 3);
  }
  done.store(true);
  for (std::thread &thread : threads) thread.join();
  world.close();
}

/// A child runs `work` and is killed when the file has so many bytes.
template <class Work>
void kill_when_written(const std::string &path, uint64_t bytes, Work work) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    work();
    _exit(3);
  }
  struct stat found {};
  while (stat(path.c_str(), &found) != 0 || static_cast<uint64_t>(found.st_size) < bytes) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != 0) fail_msg("the child ended: %d", status);
    std::this_thread::yield();
  }
  assert_int_equal(kill(child, SIGKILL), 0);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
}

// The first: the process has no context yet, which a child could not use.
void a_killed_programs_file_can_be_read(void **) {
  for (const uint64_t bytes : {5000U, 100'000U}) {
    const std::string path = fresh_path("killed.json");
    kill_when_written(path, bytes, [&] {
      World world({.device_pages = 8, .host_pages = 64});
      if (start(world, path) != WEIR_SUCCESS) _exit(2);
      std::vector<weir_buffer> buffers;
      for (int i = 0; i < 6; ++i) buffers.push_back(world.buffer(size));
      for (;;) use_up(world, buffers);
    });
    const TimelineFile file(path, true);
    assert_true(!file.all("B", "lease").empty());
  }
}

void the_environment_starts_one_that_the_process_s_end_stops(void **) {
  const std::string path = fresh_path("env.json");
  const int taken = open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL, 0644);
  assert_int_equal(close(taken), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)setenv("WEIR_TRACE", path.c_str(), 1);
    World world({.device_pages = 8, .host_pages = 64});
    const weir_buffer buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    std::exit(0);  // with all of it alive
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(read_text(path).size(), 0);  // another's
  const TimelineFile file(path.substr(0, path.size() - 5) + "-1.json");
  assert_int_equal(file.all("B", "lease").size(), 1);
  assert_true(file.has("i", "the trace ended"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_programs_file_can_be_read),
      cmocka_unit_test(the_environment_starts_one_that_the_process_s_end_stops),
      cmocka_unit_test(a_timeline_keeps_the_rules_and_tells_what_was_counted),
      cmocka_unit_test(tiers_and_neighbours_have_rows),
      cmocka_unit_test(two_devices_exchange_pages),
      cmocka_unit_test(leases_that_overlap_have_tracks_of_their_own),
      cmocka_unit_test(one_that_waited_crosses_nothing),
      cmocka_unit_test(names_never_break_a_line),
      cmocka_unit_test(stacks_are_in_it),
      cmocka_unit_test(refusals_and_operations_are_named),
      cmocka_unit_test(pools_that_come_and_go_are_in_it),
      cmocka_unit_test(bad_wishes_are_refused),
      cmocka_unit_test(it_ends_at_its_size),
      cmocka_unit_test(a_full_disk_ends_it_and_nothing_else),
      cmocka_unit_test(many_threads_while_traces_come_and_go),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
