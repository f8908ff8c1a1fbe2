// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend's memory against the simulated driver: granules and mappings, export, plain and host memory,
// registration, copies between all of them, and every misuse refused with its values before the driver hears of it.

#include "tests/backends/cuda_fixture.hpp"

#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

using namespace weir::test;

const weir_backend_table &t = cuda_table();
constexpr uint64_t granule_size = uint64_t{2} << 20U;
const uint32_t *const nobody = nullptr;

uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// A stream and two pieces of pinned memory, to bring bytes to a device and back.
struct Bench {
  explicit Bench(Cuda &c, uint32_t device = 0) : cuda(c) {
    must(cuda, t.stream_create, device, uint64_t{0}, &stream);
    must(cuda, t.host_allocate, granule_size, &out);
    must(cuda, t.host_allocate, granule_size, &back);
    std::memset(back, 0, granule_size);
  }
  ~Bench() {
    must(cuda, t.stream_destroy, stream);
    must(cuda, t.host_free, out, granule_size);
    must(cuda, t.host_free, back, granule_size);
  }
  void copy(uint64_t destination, uint64_t source, uint64_t bytes) {
    const weir_be_copy copy{destination, source, bytes};
    must(cuda, t.copy_async, stream, &copy);
  }
  void write(uint64_t address, uint8_t value, uint64_t bytes) {
    std::memset(out, value, bytes);
    copy(address, address_of(out), bytes);
    must(cuda, t.stream_synchronize, stream);
  }
  /// The bytes at `address` are all `value`.
  void expect(uint64_t address, uint8_t value, uint64_t bytes) {
    std::memset(back, ~value, bytes);
    copy(address_of(back), address, bytes);
    must(cuda, t.stream_synchronize, stream);
    const auto *read = static_cast<const uint8_t *>(back);
    for (uint64_t i = 0; i < bytes; ++i) {
      if (read[i] != value)
        fail_msg("byte %llu is %u", static_cast<unsigned long long>(i), read[i]);
    }
  }
  Cuda &cuda;
  weir_be_stream stream = nullptr;
  void *out = nullptr, *back = nullptr;
};

void mapped_memory_keeps_its_bytes_wherever_it_is_mapped(void **) {
  for (const char *mode : {"mode=alias;memory=64M", "mode=strict;memory=64M"}) {
    Cuda cuda(mode);
    Bench bench(cuda);
    weir_be_granule granule = 0;
    uint64_t range = 0;
    must(cuda, t.granule_create, 0U, granule_size, uint64_t{0}, &granule);
    must(cuda, t.range_reserve, 0U, 4 * granule_size, granule_size, &range);
    assert_int_equal(range % granule_size, 0);
    must(cuda, t.map, 0U, range, granule_size, granule, uint64_t{0}, nobody, 0U);
    bench.write(range, 0x5a, granule_size);
    must(cuda, t.map, 0U, range + 2 * granule_size, granule_size, granule, uint64_t{0}, nobody, 0U);
    bench.expect(range + 2 * granule_size, 0x5a, granule_size);
    must(cuda, t.unmap, 0U, range, granule_size);
    must(cuda, t.fill_async, bench.stream, range + 2 * granule_size, uint8_t{7}, granule_size);
    must(cuda, t.stream_synchronize, bench.stream);
    must(cuda, t.unmap, 0U, range + 2 * granule_size, granule_size);
    must(cuda, t.map, 0U, range, granule_size, granule, uint64_t{0}, nobody, 0U);
    bench.expect(range, 7, granule_size);
    must(cuda, t.unmap, 0U, range, granule_size);
    must(cuda, t.range_free, 0U, range, 4 * granule_size);
    must(cuda, t.granule_destroy, 0U, granule);
  }
}

void one_map_sets_the_access_of_all(void **) {
  Cuda cuda("devices=3;links=nvlink;memory=64M");
  Bench bench(cuda, 1);
  weir_be_granule granule = 0;
  uint64_t range = 0;
  const uint32_t peers[] = {1, 2};
  must(cuda, t.granule_create, 0U, granule_size, uint64_t{0}, &granule);
  must(cuda, t.range_reserve, 0U, granule_size, granule_size, &range);
  const uint64_t before = sim().calls("cuMemSetAccess");
  must(cuda, t.map, 0U, range, granule_size, granule, uint64_t{0}, &peers[0], 2U);
  assert_int_equal(sim().calls("cuMemSetAccess") - before, 1);
  bench.write(range, 9, granule_size);
  bench.expect(range, 9, granule_size);
  must(cuda, t.unmap, 0U, range, granule_size);
}

void misuse_of_mapping_is_refused_with_values(void **) {
  Cuda cuda("memory=64M;devices=2;links=nvlink");
  const weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;
  weir_be_granule granule = 0, other = 0;
  uint64_t range = 0, none = 0;
  must(cuda, t.granule_create, 0U, 2 * granule_size, uint64_t{0}, &granule);
  must(cuda, t.granule_create, 1U, granule_size, uint64_t{0}, &other);
  must(cuda, t.range_reserve, 0U, 4 * granule_size, granule_size, &range);
  const uint64_t zero = 0;

  must_refuse(cuda, invalid, "bytes=0x1000 ", t.granule_create, 0U, uint64_t{4096}, zero, &granule);
  must_refuse(cuda, invalid, "bytes=0", t.granule_create, 0U, zero, zero, &granule);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "0x80", t.granule_create, 0U, granule_size,
              uint64_t{0x80}, &granule);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "fabric", t.granule_create, 0U, granule_size,
              WEIR_BE_GRANULE_EXPORT_FABRIC, &granule);
  must_refuse(cuda, invalid, "no device 2", t.granule_create, 2U, granule_size, zero, &granule);
  must_refuse(cuda, invalid, "alignment=0x1000 ", t.range_reserve, 0U, granule_size, uint64_t{4096},
              &none);
  must_refuse(cuda, invalid, "alignment=0x600000 ", t.range_reserve, 0U, granule_size,
              3 * granule_size, &none);

  must_refuse(cuda, invalid, "offset=0x1000", t.map, 0U, range, granule_size, granule,
              uint64_t{4096}, nobody, 0U);
  must_refuse(cuda, invalid, "is beyond", t.map, 0U, range, granule_size, granule, 2 * granule_size,
              nobody, 0U);
  must_refuse(cuda, invalid, "is none of device 0", t.map, 0U, range, granule_size, other, zero,
              nobody, 0U);
  must_refuse(cuda, invalid, "not inside one reservation", t.map, 0U, range + 4 * granule_size,
              granule_size, granule, zero, nobody, 0U);
  const uint32_t self = 0, far = 7;
  must_refuse(cuda, invalid, "peers[0]=0", t.map, 0U, range, granule_size, granule, zero, &self,
              1U);
  must_refuse(cuda, invalid, "peers[0]=7", t.map, 0U, range, granule_size, granule, zero, &far, 1U);
  must_refuse(cuda, invalid, "peer_count=1", t.map, 0U, range, granule_size, granule, zero, nobody,
              1U);
  must_refuse(cuda, invalid, "no one map call", t.unmap, 0U, range, granule_size);

  must(cuda, t.map, 0U, range + granule_size, 2 * granule_size, granule, zero, nobody, 0U);
  must_refuse(cuda, invalid, "mapped", t.map, 0U, range, 2 * granule_size, granule, zero, nobody,
              0U);
  must_refuse(cuda, invalid, "mapped", t.map, 0U, range + 2 * granule_size, granule_size, granule,
              zero, nobody, 0U);
  must_refuse(cuda, invalid, "no one map call", t.unmap, 0U, range + granule_size, granule_size);
  must_refuse(cuda, invalid, "still mapped 1 times", t.granule_destroy, 0U, granule);
  must_refuse(cuda, invalid, "is mapped", t.range_free, 0U, range, 4 * granule_size);
  must_refuse(cuda, invalid, "no reservation", t.range_free, 0U, range, granule_size);
  must(cuda, t.unmap, 0U, range + granule_size, 2 * granule_size);
  must_refuse(cuda, invalid, "no one map call", t.unmap, 0U, range + granule_size,
              2 * granule_size);
  must(cuda, t.granule_destroy, 0U, granule);
  must_refuse(cuda, invalid, "is none of device 0", t.granule_destroy, 0U, granule);
  must(cuda, t.range_free, 0U, range, 4 * granule_size);
  must_refuse(cuda, invalid, "no reservation", t.range_free, 0U, range, 4 * granule_size);
  // None of it came to the driver: the fixture asks it for misuse at the end.
}

void a_granule_is_mapped_whole(void **) {
  Cuda cuda("memory=64M");
  weir_be_granule granule = 0;
  uint64_t range = 0;
  must(cuda, t.granule_create, 0U, 2 * granule_size, uint64_t{0}, &granule);
  must(cuda, t.range_reserve, 0U, 2 * granule_size, granule_size, &range);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "mapped whole", t.map, 0U, range, granule_size,
              granule, granule_size, nobody, 0U);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "mapped whole", t.map, 0U, range, granule_size,
              granule, uint64_t{0}, nobody, 0U);
  must(cuda, t.map, 0U, range, 2 * granule_size, granule, uint64_t{0}, nobody, 0U);
  must(cuda, t.unmap, 0U, range, 2 * granule_size);
}

void without_multi_map_a_granule_is_mapped_once(void **) {
  Cuda cuda("memory=64M", "multi_map=0");
  weir_be_granule granule = 0;
  uint64_t range = 0;
  must(cuda, t.granule_create, 0U, granule_size, uint64_t{0}, &granule);
  must(cuda, t.range_reserve, 0U, 2 * granule_size, granule_size, &range);
  must(cuda, t.map, 0U, range, granule_size, granule, uint64_t{0}, nobody, 0U);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "once at a time", t.map, 0U, range + granule_size,
              granule_size, granule, uint64_t{0}, nobody, 0U);
  must(cuda, t.unmap, 0U, range, granule_size);
  must(cuda, t.map, 0U, range + granule_size, granule_size, granule, uint64_t{0}, nobody, 0U);
}

void groups_that_are_off_answer_not_supported(void **) {
  Cuda cuda("memory=64M;devices=2;links=nvlink",
            "vmm=0;peer=0;batch_copy=0;host_call=0;register=0");
  const weir_result off = WEIR_ERROR_NOT_SUPPORTED;
  weir_be_granule granule = 0;
  uint64_t address = 0;
  int32_t fd = -1;
  weir_be_fabric_handle fabric{};
  must_refuse(cuda, off, "vmm=0", t.granule_create, 0U, granule_size, uint64_t{0}, &granule);
  must_refuse(cuda, off, "vmm=0", t.granule_destroy, 0U, uint64_t{1});
  must_refuse(cuda, off, "vmm=0", t.range_reserve, 0U, granule_size, granule_size, &address);
  must_refuse(cuda, off, "vmm=0", t.range_free, 0U, granule_size, granule_size);
  must_refuse(cuda, off, "vmm=0", t.map, 0U, granule_size, granule_size, uint64_t{1}, uint64_t{0},
              nobody, 0U);
  must_refuse(cuda, off, "vmm=0", t.unmap, 0U, granule_size, granule_size);
  must_refuse(cuda, off, "vmm=0", t.granule_export, 0U, uint64_t{1}, &fd);
  must_refuse(cuda, off, "vmm=0", t.granule_import, 0U, 0, granule_size, &granule);
  must_refuse(cuda, off, "vmm=0", t.granule_export_fabric, 0U, uint64_t{1}, &fabric);
  must_refuse(cuda, off, "vmm=0", t.granule_import_fabric, 0U, &fabric, granule_size, &granule);
  must_refuse(cuda, off, "peer=0", t.peer_enable, 0U, 1U);
  must_refuse(cuda, off, "register=0", t.host_register, &fd, uint64_t{4096});
  must_refuse(cuda, off, "register=0", t.host_unregister, &fd, uint64_t{4096});
  Bench bench(cuda);
  weir_be_copy copy{address_of(bench.back), address_of(bench.out), 64};
  must_refuse(cuda, off, "batch_copy=0", t.copy_batch_async, bench.stream, &copy, 1U);
  must_refuse(cuda, off, "host_call=0", t.stream_host_call, bench.stream, Gate::hold, nullptr);
}

/// Whether memory that the backend makes is for RDMA, as the driver itself tells it.
bool made_for_rdma(const char *machine, const char *options) {
  Cuda cuda(machine, options);
  weir_be_granule granule = 0;
  uint64_t range = 0;
  must(cuda, t.granule_create, 0U, granule_size, uint64_t{0}, &granule);
  must(cuda, t.range_reserve, 0U, granule_size, granule_size, &range);
  must(cuda, t.map, 0U, range, granule_size, granule, uint64_t{0}, nullptr, 0U);
  abi::GranuleHandle handle = 0;
  abi::AllocationProperties properties{};
  void *at = reinterpret_cast<void *>(static_cast<uintptr_t>(range));
  assert_int_equal(app::cuMemRetainAllocationHandle(&handle, at), 0);
  assert_int_equal(app::cuMemGetAllocationPropertiesFromHandle(&properties, handle), 0);
  assert_int_equal(app::cuMemRelease(handle), 0);
  return properties.flags.rdma_capable != 0;
}

void granules_are_for_rdma_where_the_device_has_it(void **) {
  assert_true(made_for_rdma("memory=64M", ""));
  assert_true(made_for_rdma("memory=64M;export_fabric=1", "rdma=1"));
  assert_false(made_for_rdma("memory=64M", "rdma=0"));
  assert_false(made_for_rdma("memory=64M;rdma=0", ""));
  assert_false(made_for_rdma("memory=64M;rdma=0", "rdma=1"));
}

/// A driver that does not keep to an alignment: the range is a part of a longer one, which ends as a whole.
void ranges_are_aligned_whatever_the_driver_does(void **) {
  constexpr uint64_t mib = uint64_t{1} << 20U, alignment = 32 * mib;
  for (const char *machine : {"memory=64M;reserve_alignment=2M", "memory=64M"}) {
    Cuda cuda(machine);
    uint64_t ranges[4] = {};
    for (uint64_t &each : ranges) {
      must(cuda, t.range_reserve, 0U, 64 * mib, alignment, &each);
      assert_int_equal(each % alignment, 0);
    }
    weir_be_granule granule = 0;
    must(cuda, t.granule_create, 0U, granule_size, uint64_t{0}, &granule);
    const uint64_t last = ranges[1] + 64 * mib - granule_size;
    must(cuda, t.map, 0U, last, granule_size, granule, uint64_t{0}, nullptr, 0U);
    must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "", t.range_free, 0U, ranges[1], 64 * mib);
    must(cuda, t.unmap, 0U, last, granule_size);
    // One that the driver refuses to free can be freed the second time.
    sim().fail("cuMemAddressFree", 1, abi::result::operating_system);
    must_refuse(cuda, WEIR_ERROR_BACKEND, "304", t.range_free, 0U, ranges[1], 64 * mib);
    must(cuda, t.range_free, 0U, ranges[1], 64 * mib);
    must(cuda, t.range_free, 0U, ranges[2], 64 * mib);
    // A longer one may not be had.
    sim().fail("cuMemAddressReserve", 2, abi::result::out_of_memory);
    uint64_t none = 0;
    const weir_result got = cuda(t.range_reserve, 0U, 64 * mib, alignment, &none);
    if (std::strstr(machine, "reserve") != nullptr) assert_int_equal(got, WEIR_ERROR_BACKEND);
    sim().fail("cuMemAddressReserve", 0, 0);
    // The others are stop()'s to end: nothing is left alive.
  }
}

void exported_granules_are_the_same_memory(void **) {
  Cuda cuda("memory=64M;export_fabric=1");
  Bench bench(cuda);
  const uint64_t both = WEIR_BE_GRANULE_EXPORT_FD | WEIR_BE_GRANULE_EXPORT_FABRIC;
  weir_be_granule mine = 0, theirs = 0, fabric = 0, closed = 0;
  uint64_t range = 0;
  must(cuda, t.granule_create, 0U, granule_size, both, &mine);
  must(cuda, t.granule_create, 0U, granule_size, uint64_t{0}, &closed);
  must(cuda, t.range_reserve, 0U, 3 * granule_size, granule_size, &range);
  must(cuda, t.map, 0U, range, granule_size, mine, uint64_t{0}, nobody, 0U);
  bench.write(range, 0x77, granule_size);
  int32_t fd = -1;
  must(cuda, t.granule_export, 0U, mine, &fd);
  assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  must(cuda, t.granule_import, 0U, fd, granule_size, &theirs);
  assert_int_equal(close(fd), 0);  // still ours
  must(cuda, t.map, 0U, range + granule_size, granule_size, theirs, uint64_t{0}, nobody, 0U);
  bench.expect(range + granule_size, 0x77, granule_size);
  weir_be_fabric_handle handle{};
  must(cuda, t.granule_export_fabric, 0U, mine, &handle);
  must(cuda, t.granule_import_fabric, 0U, &handle, granule_size, &fabric);
  must(cuda, t.map, 0U, range + 2 * granule_size, granule_size, fabric, uint64_t{0}, nobody, 0U);
  bench.expect(range + 2 * granule_size, 0x77, granule_size);
  fd = -7;
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "not for export", t.granule_export, 0U, closed,
              &fd);
  assert_int_equal(fd, -7);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "fd=-1", t.granule_import, 0U, -1, granule_size,
              &closed);
  for (uint64_t i = 0; i < 3; ++i) must(cuda, t.unmap, 0U, range + i * granule_size, granule_size);
}

void a_full_device_says_so(void **) {
  Cuda cuda("memory=8M");
  weir_be_granule granule = 0;
  uint64_t address = 0;
  must_refuse(cuda, WEIR_ERROR_DEVICE_OOM, "CUDA_ERROR_OUT_OF_MEMORY (2)", t.granule_create, 0U,
              8 * granule_size, uint64_t{0}, &granule);
  must_refuse(cuda, WEIR_ERROR_DEVICE_OOM, "(2)", t.plain_allocate, 0U, 8 * granule_size,
              uint64_t{256}, &address);
  assert_int_equal(t.last_error_code(cuda.state), 2);
  void *memory = nullptr;
  sim().fail("cuMemHostAlloc", 1, abi::result::out_of_memory);
  must_refuse(cuda, WEIR_ERROR_OUT_OF_HOST_MEMORY, "(2)", t.host_allocate, granule_size, &memory);
}

void plain_memory_is_as_aligned_as_asked(void **) {
  Cuda cuda("memory=64M");
  uint64_t kept[3] = {};
  const uint64_t alignments[3] = {256, 65536, granule_size};
  for (int i = 0; i < 3; ++i) {
    must(cuda, t.plain_allocate, 0U, uint64_t{1000}, alignments[i], &kept[i]);
    assert_int_equal(kept[i] % alignments[i], 0);
  }
  Bench bench(cuda);
  bench.write(kept[2], 3, 1000);
  bench.expect(kept[2], 3, 1000);
  uint64_t none = 0;
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "alignment 0x400000", t.plain_allocate, 0U,
              uint64_t{64}, 2 * granule_size, &none);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "alignment 0x3", t.plain_allocate, 0U,
              uint64_t{64}, uint64_t{3}, &none);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "0 bytes", t.plain_allocate, 0U, uint64_t{0},
              uint64_t{64}, &none);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "plain memory", t.plain_free, 0U, kept[0],
              uint64_t{999});
  for (const uint64_t address : kept) must(cuda, t.plain_free, 0U, address, uint64_t{1000});
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "plain memory", t.plain_free, 0U, kept[0],
              uint64_t{1000});
}

void host_memory_is_page_aligned(void **) {
  Cuda cuda("");
  std::vector<void *> all(9);
  for (void *&memory : all) {
    must(cuda, t.host_allocate, uint64_t{100}, &memory);
    assert_int_equal(address_of(memory) % 4096, 0);
  }
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "host memory", t.host_free, all[0], uint64_t{101});
  for (void *memory : all) must(cuda, t.host_free, memory, uint64_t{100});
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "host memory", t.host_free, all[0], uint64_t{100});
}

/// What was made while one device was in use is ended after another is.
void host_memory_belongs_to_no_device(void **) {
  Cuda cuda("devices=2;memory=64M");
  uint64_t address = 0;
  must(cuda, t.plain_allocate, 1U, granule_size, uint64_t{256}, &address);
  void *memory = nullptr;
  must(cuda, t.host_allocate, granule_size, &memory);
  assert_int_equal(sim().calls("cuDevicePrimaryCtxRetain"), 1);
  Bench bench(cuda, 0);
  std::memset(memory, 0x66, granule_size);
  for (const uint32_t device : {0U, 1U}) {
    uint64_t there = 0;
    must(cuda, t.plain_allocate, device, granule_size, uint64_t{256}, &there);
    bench.copy(there, address_of(memory), granule_size);
    bench.expect(there, 0x66, granule_size);
    must(cuda, t.plain_free, device, there, granule_size);
  }
  must(cuda, t.host_free, memory, granule_size);
  must(cuda, t.plain_free, 1U, address, granule_size);
}

/// Addresses without memory behind them until they are touched.
struct Lazy {
  explicit Lazy(uint64_t size) : bytes(size) {
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
  }
  ~Lazy() {
    if (memory != nullptr) munmap(memory, bytes);
  }
  void *memory = nullptr;
  uint64_t bytes;
};

constexpr uint64_t part = uint64_t{64} << 30U;

void registered_memory_is_copied_from_and_to(void **) {
  Cuda cuda("memory=64M");
  Bench bench(cuda);
  Lazy own(granule_size);
  assert_non_null(own.memory);
  must(cuda, t.host_register, own.memory, own.bytes);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "registered", t.host_register, own.memory,
              uint64_t{4096});
  uint64_t address = 0;
  must(cuda, t.plain_allocate, 0U, granule_size, uint64_t{256}, &address);
  std::memset(own.memory, 0x42, own.bytes);
  bench.copy(address, address_of(own.memory), own.bytes);
  bench.expect(address, 0x42, granule_size);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "not registered", t.host_unregister, own.memory,
              uint64_t{4096});
  must(cuda, t.host_unregister, own.memory, own.bytes);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "not registered", t.host_unregister, own.memory,
              own.bytes);
  void *odd = static_cast<char *>(own.memory) + 1;
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "page-aligned", t.host_register, odd,
              uint64_t{4096});
  must(cuda, t.plain_free, 0U, address, granule_size);
}

void what_others_registered_is_told(void **) {
  Cuda cuda("memory=64M");
  Bench bench(cuda);
  Lazy own(4 * 4096);
  abi::Context context = nullptr;
  assert_int_equal(app::cuDevicePrimaryCtxRetain(&context, 0), 0);
  assert_int_equal(app::cuCtxPushCurrent(context), 0);
  assert_int_equal(app::cuMemHostRegister(own.memory, size_t{4096}, 0U), 0);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "outside Weir", t.host_register, own.memory,
              own.bytes);
  assert_int_equal(app::cuMemHostUnregister(own.memory), 0);
  must(cuda, t.host_register, own.memory, own.bytes);
  must(cuda, t.host_unregister, own.memory, own.bytes);
  assert_int_equal(app::cuCtxPopCurrent(&context), 0);
  assert_int_equal(app::cuDevicePrimaryCtxRelease(0), 0);
}

void large_registrations_come_in_parts(void **) {
  Cuda cuda("memory=64M", "batch_copy=1");
  Lazy own(2 * part + granule_size);
  if (own.memory == nullptr) skip();  // no room for addresses
  uint64_t address = 0;
  {
    Bench bench(cuda);
    must(cuda, t.plain_allocate, 0U, 4 * granule_size, uint64_t{256}, &address);
    const uint64_t before = sim().calls("cuMemHostRegister");
    must(cuda, t.host_register, own.memory, own.bytes);
    assert_int_equal(sim().calls("cuMemHostRegister") - before, 3);
    // A copy over a seam is two for the driver, one way and the other, alone and in a batch.
    const uint64_t over = address_of(own.memory) + part - 4096;
    std::memset(reinterpret_cast<void *>(over), 0x31, 8192);
    uint64_t copies = sim().calls("cuMemcpyAsync");
    bench.copy(address, over, 8192);
    assert_int_equal(sim().calls("cuMemcpyAsync") - copies, 2);
    bench.expect(address, 0x31, 8192);
    bench.write(address, 0x32, 8192);
    copies = sim().calls("cuMemcpyAsync");
    const weir_be_copy batch[2] = {{over, address, 8192}, {over + part, address, 8192}};
    must(cuda, t.copy_batch_async, bench.stream, &batch[0], 2U);
    must(cuda, t.stream_synchronize, bench.stream);
    assert_int_equal(sim().calls("cuMemcpyAsync") - copies, 4);
    for (uint64_t i = 0; i < 8192; ++i) {
      assert_int_equal(reinterpret_cast<const uint8_t *>(over)[i], 0x32);
      assert_int_equal(reinterpret_cast<const uint8_t *>(over + part)[i], 0x32);
    }
    // Away from the seam it is one.
    copies = sim().calls("cuMemcpyAsync");
    bench.copy(address, over - 8192, 8192);
    assert_int_equal(sim().calls("cuMemcpyAsync") - copies, 1);
    must(cuda, t.stream_synchronize, bench.stream);
    must(cuda, t.host_unregister, own.memory, own.bytes);
    assert_int_equal(sim().calls("cuMemHostUnregister"), 3);
    must(cuda, t.plain_free, 0U, address, 4 * granule_size);
  }
  // A part that fails takes the others with it.
  const uint64_t gone = sim().calls("cuMemHostUnregister");
  sim().fail("cuMemHostRegister", 3, abi::result::out_of_memory);
  must_refuse(cuda, WEIR_ERROR_OUT_OF_HOST_MEMORY, "cuMemHostRegister", t.host_register, own.memory,
              own.bytes);
  assert_int_equal(sim().calls("cuMemHostUnregister") - gone, 2);
  must(cuda, t.host_register, own.memory, own.bytes);
  // Left to stop().
}

void peers_copy_without_staging(void **) {
  Cuda cuda("devices=2;links=nvlink;memory=64M");
  Bench bench(cuda);
  must(cuda, t.peer_enable, 0U, 1U);
  must(cuda, t.peer_enable, 0U, 1U);
  must(cuda, t.peer_enable, 1U, 0U);
  must(cuda, t.peer_enable, 0U, 0U);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no device 2", t.peer_enable, 0U, 2U);
  uint64_t here = 0, there = 0;
  must(cuda, t.plain_allocate, 0U, granule_size, uint64_t{256}, &here);
  must(cuda, t.plain_allocate, 1U, granule_size, uint64_t{256}, &there);
  bench.write(here, 0x21, granule_size);
  bench.copy(there, here, granule_size);
  bench.expect(there, 0x21, granule_size);
}

void empty_copies_are_refused(void **) {
  Cuda cuda("memory=64M", "batch_copy=1");
  Bench bench(cuda);
  const uint64_t host = address_of(bench.out);
  weir_be_copy copy{host, 0, 16};
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "[0, +16)", t.copy_async, bench.stream, &copy);
  copy = {host, host + 4096, 0};
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "+0)", t.copy_async, bench.stream, &copy);
  copy = {host, host + 4096, UINT64_MAX};
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no range", t.copy_batch_async, bench.stream,
              &copy, 1U);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no range", t.fill_async, bench.stream, host,
              uint8_t{0}, uint64_t{0});
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(mapped_memory_keeps_its_bytes_wherever_it_is_mapped),
      cmocka_unit_test(one_map_sets_the_access_of_all),
      cmocka_unit_test(misuse_of_mapping_is_refused_with_values),
      cmocka_unit_test(a_granule_is_mapped_whole),
      cmocka_unit_test(without_multi_map_a_granule_is_mapped_once),
      cmocka_unit_test(groups_that_are_off_answer_not_supported),
      cmocka_unit_test(granules_are_for_rdma_where_the_device_has_it),
      cmocka_unit_test(ranges_are_aligned_whatever_the_driver_does),
      cmocka_unit_test(exported_granules_are_the_same_memory),
      cmocka_unit_test(a_full_device_says_so),
      cmocka_unit_test(plain_memory_is_as_aligned_as_asked),
      cmocka_unit_test(host_memory_is_page_aligned),
      cmocka_unit_test(host_memory_belongs_to_no_device),
      cmocka_unit_test(registered_memory_is_copied_from_and_to),
      cmocka_unit_test(what_others_registered_is_told),
      cmocka_unit_test(large_registrations_come_in_parts),
      cmocka_unit_test(peers_copy_without_staging),
      cmocka_unit_test(empty_copies_are_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
