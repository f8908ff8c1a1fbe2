// SPDX-License-Identifier: Apache-2.0
//
// The topology through the C ABI: a file named by option or environment, a machine rehearsed on the host backend, merged
// links and NUMA nodes, exports. Recorded machines where they are; a small one written here for the rest.

#include "tests/abi/topology_fixture.hpp"

#include <cstddef>

namespace {

using namespace weir::test;

void words_for_links(void **) {
  assert_string_equal(weir_link_kind_string(WEIR_LINK_NVLINK), "nvlink");
  assert_string_equal(weir_link_kind_string(WEIR_LINK_NETWORK), "network");
  assert_string_equal(weir_link_kind_string(99), "unknown");
  assert_string_equal(weir_link_figure_string(WEIR_LINK_FIGURE_MEASURED), "measured");
  assert_string_equal(weir_link_figure_string(99), "unknown");
}

void a_rehearsed_machine_looks_like_it(void **) {
  const File file(small_machine);
  weir_context context = rehearse(file.path);
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 2);
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(context, 0, &info));
  assert_string_equal(info.name, "Little  <One>  A");
  assert_string_equal(info.pci_address, "0000:17:00.0");
  assert_int_equal(info.numa_node, 0);
  assert_int_equal(info.memory_total, 4U << 20U);
  ok(weir_device_info_get(context, 1, &info));
  assert_string_equal(info.name, "Little Two");
  assert_int_equal(info.numa_node, 1);
  const weir_link_info link = link_of(context, 0, 1);
  assert_int_equal(link.kind, WEIR_LINK_NVLINK);
  assert_int_equal(link.bandwidth, UINT64_C(150000000000));
  assert_int_equal(link.hops, 1);
  assert_int_equal(link.direct, 1);
  const weir_link_info host = link_of(context, WEIR_DEVICE_HOST, 1);
  assert_int_equal(host.kind, WEIR_LINK_PCIE);
  assert_int_equal(host.bandwidth, UINT64_C(63000000000));
  assert_int_equal(host.direct, 1);
  assert_int_equal(link_of(context, 1, 1).kind, WEIR_LINK_SAME);
  ok(weir_context_destroy(context));
}

/// Bytes go through a pool over both devices, links held up or not.
void a_rehearsed_machine_works(void **) {
  const File file(small_machine);
  for (const char *more : {"", ";topology.throttle=2"}) {
    weir_context context = rehearse(file.path, more);
    const weir_pool_device devices[2] = {{0, 0, 1U << 20U, {0, 0}}, {1, 0, 1U << 20U, {0, 0}}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.devices = devices;
    desc.device_count = 2;
    desc.host_budget = 1U << 20U;
    weir_pool pool = nullptr;
    ok(weir_pool_create(context, &desc, &pool));
    weir_buffer_desc about = WEIR_BUFFER_DESC_INIT;
    about.size = 100000;
    weir_buffer buffer = nullptr;
    ok(weir_buffer_create(pool, &about, &buffer));
    std::string bytes(100000, 'w'), back(100000, '\0');
    ok(weir_buffer_write(pool, buffer, 0, bytes.size(), bytes.data()));
    for (const weir_device device : {0U, 1U, 0U}) {
      weir_stream stream = nullptr;
      ok(weir_stream_create(context, device, 0, &stream));
      weir_use use = WEIR_USE_INIT;
      use.buffer = buffer;
      use.mode = WEIR_READ_WRITE;
      weir_lease lease = nullptr;
      ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
      ok(weir_stream_synchronize(stream));
      assert_memory_equal(reinterpret_cast<const void *>(use.address), bytes.data(), bytes.size());
      ok(weir_release(lease, stream));
      ok(weir_stream_close(stream));
    }
    ok(weir_buffer_read(pool, buffer, 0, back.size(), back.data()));
    assert_true(bytes == back);
    ok(weir_buffer_destroy(pool, buffer));
    ok(weir_pool_destroy(pool));
    ok(weir_context_destroy(context));
  }
}

void the_file_fills_what_a_backend_leaves_open(void **) {
  const File file(small_machine);
  // A backend that knows its devices' addresses and nothing of their links.
  weir_context context =
      make_context(("topology.xml=" + file.path + small_devices +
                    ";host.devices=3;host.peer=0;host.pci=00000000:17:00.0,0000:27:00.0,"
                    ";host.links=0-1:nvlink:0:1:0:staged,h-0:pcie:5G")
                       .c_str());
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(context, 1, &info));
  assert_int_equal(info.numa_node, 1);
  ok(weir_device_info_get(context, 2, &info));
  assert_int_equal(info.numa_node, UINT32_MAX);
  weir_link_info link = link_of(context, 0, 1);
  assert_int_equal(link.kind, WEIR_LINK_NVLINK);
  assert_int_equal(link.bandwidth, UINT64_C(150000000000));
  assert_int_equal(link.source, WEIR_LINK_FIGURE_TOPOLOGY);
  assert_int_equal(link.direct, 0);  // whether copies work is the backend's to say
  link = link_of(context, 0, WEIR_DEVICE_HOST);
  assert_int_equal(link.bandwidth, UINT64_C(5000000000));
  assert_int_equal(link.source, WEIR_LINK_FIGURE_BACKEND);
  assert_int_equal(link_of(context, 0, 2).kind, WEIR_LINK_NONE);
  expect_in(exported(context, WEIR_TOPOLOGY_TEXT), "D2, host memory 2");
  ok(weir_context_destroy(context));
}

void the_environment_names_a_file(void **) {
  const File file(small_machine);
  setenv("WEIR_TOPOLOGY_XML", file.path.c_str(), 1);
  weir_context context =
      make_context("topology.rehearse=1;host.memory=4M;host.granule=16K;host.granule_large=0");
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 2);
  ok(weir_context_destroy(context));
  setenv("WEIR_TOPOLOGY_XML", "/nowhere/machine.xml", 1);
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  expect_in(weir_last_error(), "/nowhere/machine.xml");
  unsetenv("WEIR_TOPOLOGY_XML");
}

void refused(const std::string &options, const char *named, uint64_t flags = 0) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH | flags;
  desc.options = options.c_str();
  weir_context context = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_context_create(&desc, &context));
  expect_in(weir_last_error(), named);
}

void wrong_options_are_named(void **) {
  const File file(small_machine), text("nothing of a machine");
  refused("topology.xml", "topology.xml");
  refused("topology.xml=", "topology.xml=");
  refused("topology.xml=/nowhere/x.xml", "/nowhere/x.xml");
  refused("topology.xml=/tmp", "directory");
  refused("topology.xml=" + text.path, text.path.c_str());
  refused("topology.rehearse=2", "topology.rehearse=2");
  refused("topology.throttle=1", "topology.rehearse=1");
  refused("topology.rehearse=1;topology.throttle=fast;topology.xml=" + file.path, "throttle=fast");
  refused("topology.speed=1", "topology.speed=1");
  refused("topology.rehearse=1;topology.xml=" + file.path, "host", WEIR_CONTEXT_NO_HOST_BACKEND);
  refused("topology.rehearse=1;host.devices=3;topology.xml=" + file.path,
          "2 entries for 3 devices");
}

void exports_are_whole_or_refused(void **) {
  const File file(small_machine);
  weir_context context = rehearse(file.path);
  const std::string json = exported(context, WEIR_TOPOLOGY_JSON),
                    text = exported(context, WEIR_TOPOLOGY_TEXT),
                    svg = exported(context, WEIR_TOPOLOGY_SVG);
  for (const char *word : {"\"places\"", "\"links\"", "\"nvlink\"",
                           "\"pci_address\": \"0000:17:00.0\"", "150000000000"})
    expect_in(json, word);
  for (const char *word :
       {"package 1", "NUMA node 0, 1 GiB", "D0, Little  <One>  A, at 0000:17:00.0, 1 GiB", "NV 150",
        "PCIE 63", "nvlink"})
    expect_in(text, word);
  for (const char *word : {"<svg xmlns=", "&lt;One&gt;", "NUMA node 1", "nvlink", "</svg>"})
    expect_in(svg, word);
  assert_null(std::strstr(svg.c_str(), "script"));
  char small[8];
  size_t needed = 0;
  expect_result(WEIR_INCOMPLETE,
                weir_topology_export(context, WEIR_TOPOLOGY_TEXT, small, sizeof small, &needed));
  assert_int_equal(needed, text.size() + 1);
  assert_memory_equal(small, text.data(), 7);
  assert_int_equal(small[7], '\0');
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_topology_export(context, 3, nullptr, 0, &needed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_topology_export(context, 0, nullptr, 5, &needed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_topology_export(context, 0, nullptr, 0, nullptr));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_topology_export(nullptr, 0, nullptr, 0, &needed));
  ok(weir_context_destroy(context));
}

/// An allocator whose n-th allocation fails.
struct Failing {
  uint64_t until = 0, count = 0, out = 0;
  static void *allocate(void *user, size_t size, size_t alignment) {
    auto *self = static_cast<Failing *>(user);
    if (++self->count == self->until) return nullptr;
    ++self->out;
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  }
  static void deallocate(void *user, void *memory, size_t, size_t) {
    --static_cast<Failing *>(user)->out;
    std::free(memory);
  }
};

void every_allocation_may_fail(void **) {
  const File file(small_machine);
  const std::string options = "topology.xml=" + file.path + ";topology.rehearse=1" + small_devices;
  bool done = false;
  uint64_t failures = 0;
  for (uint64_t n = 1; !done; ++n) {
    Failing memory;
    memory.until = n;
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH;
    desc.options = options.c_str();
    desc.allocator = {Failing::allocate, Failing::deallocate, &memory, {}};
    weir_context context = nullptr;
    const weir_result made = weir_context_create(&desc, &context);
    if (made == WEIR_SUCCESS) {
      size_t needed = 0;
      ok(weir_topology_export(context, WEIR_TOPOLOGY_JSON, nullptr, 0, &needed));
      done = memory.count < n;
      ok(weir_context_destroy(context));
    } else {
      assert_int_equal(made, WEIR_ERROR_OUT_OF_HOST_MEMORY);
      ++failures;
    }
    assert_int_equal(memory.out, 0);
  }
  assert_true(failures > 20);
}

void the_dgx2_is_rehearsed(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::string path =
      std::string(shared != nullptr ? shared : "") + "/topologies/hwloc-2.14.0-nvidiaDGX2.xml";
  if (shared == nullptr || access(path.c_str(), R_OK) != 0) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded topologies\n");
    skip();
  }
  weir_context context = rehearse(path);
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  assert_int_equal(count, 16);
  for (weir_device i = 0; i < 16; ++i) {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(context, i, &info));
    assert_non_null(std::strstr(info.name, "V100"));
    assert_int_equal(info.numa_node, i / 8);
    assert_int_equal(link_of(context, i, WEIR_DEVICE_HOST).kind, WEIR_LINK_PCIE);
    for (weir_device k = 0; k < 16; ++k) {
      const weir_link_info link = link_of(context, i, k);
      assert_int_equal(link.kind, i == k ? WEIR_LINK_SAME : WEIR_LINK_NVLINK);
      assert_int_equal(link.bandwidth, i == k ? 0 : UINT64_C(150000000000));
      assert_int_equal(link.direct, 1);
    }
  }
  ok(weir_context_destroy(context));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(words_for_links),
      cmocka_unit_test(a_rehearsed_machine_looks_like_it),
      cmocka_unit_test(a_rehearsed_machine_works),
      cmocka_unit_test(the_file_fills_what_a_backend_leaves_open),
      cmocka_unit_test(the_environment_names_a_file),
      cmocka_unit_test(wrong_options_are_named),
      cmocka_unit_test(exports_are_whole_or_refused),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(the_dgx2_is_rehearsed),
  };
  return cmocka_run_group_tests_name("topology of a context", tests, nullptr, nullptr);
}
