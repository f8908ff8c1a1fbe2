// SPDX-License-Identifier: Apache-2.0
//
// Memory of the HIP backend: granules, reservations and mappings through their lives, refusals with their values, and
// what the look-alike refuses because AMD's runtime does: parts of granules, access in another order, other ranges.

#include "tests/backends/hip_fixture.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace weir::test;

/// Pinned memory and a stream of a device, to look at device memory with.
class Mover {
 public:
  Mover(const Backend &backend, uint32_t device, uint64_t bytes) : b_(backend), bytes_(bytes) {
    ASSERT_OK(b_.t->host_allocate(b_.state, bytes, &memory_));
    ASSERT_OK(b_.t->stream_create(b_.state, device, 0, &stream_));
  }
  ~Mover() {
    (void)b_.t->stream_destroy(b_.state, stream_);
    (void)b_.t->host_free(b_.state, memory_, bytes_);
  }
  Mover(const Mover &) = delete;
  Mover &operator=(const Mover &) = delete;

  void write(uint64_t address, int value) {
    std::memset(memory_, value, bytes_);
    copy(address, reinterpret_cast<uintptr_t>(memory_));
  }
  void expect(uint64_t address, int value) {
    std::memset(memory_, ~value, bytes_);
    copy(reinterpret_cast<uintptr_t>(memory_), address);
    const auto *bytes = static_cast<const unsigned char *>(memory_);
    for (uint64_t i = 0; i < bytes_; ++i) {
      if (bytes[i] != value)
        fail_msg("byte %llu is %d", static_cast<unsigned long long>(i), bytes[i]);
    }
  }
  weir_be_stream stream() const { return stream_; }

 private:
  void copy(uint64_t to, uint64_t from) {
    const weir_be_copy copy{to, from, bytes_};
    ASSERT_OK(b_.t->copy_async(b_.state, stream_, &copy));
    ASSERT_OK(b_.t->stream_synchronize(b_.state, stream_));
  }

  const Backend &b_;
  uint64_t bytes_;
  void *memory_ = nullptr;
  weir_be_stream stream_ = nullptr;
};

void test_life(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule first = 0, second = 0;
    uint64_t range = 0;
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &first));
    ASSERT_OK(t.granule_create(s, 0, 2 * unit, 0, &second));
    ASSERT_OK(t.range_reserve(s, 0, 16 * unit, 4 * unit, &range));
    assert_int_equal(range % (4 * unit), 0);
    ASSERT_OK(t.map(s, 0, range, unit, first, 0, nullptr, 0));
    ASSERT_OK(t.map(s, 0, range + 4 * unit, 2 * unit, second, 0, nullptr, 0));
    Mover mover(backend, 0, unit);
    mover.write(range, 0x11);
    mover.write(range + 5 * unit, 0x22);
    mover.expect(range, 0x11);
    ASSERT_OK(t.unmap(s, 0, range, unit));
    ASSERT_OK(t.map(s, 0, range + 9 * unit, unit, first, 0, nullptr, 0));
    mover.expect(range + 9 * unit, 0x11);
    mover.expect(range + 5 * unit, 0x22);
    ASSERT_OK(t.unmap(s, 0, range + 9 * unit, unit));
    ASSERT_OK(t.unmap(s, 0, range + 4 * unit, 2 * unit));
    ASSERT_OK(t.range_free(s, 0, range, 16 * unit));
    ASSERT_OK(t.granule_destroy(s, 0, first));
    ASSERT_OK(t.granule_destroy(s, 0, second));
  }
  machine.census();
}

void test_stop_ends_all(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    for (uint32_t device = 0; device < 2; ++device) {
      weir_be_granule granule = 0, spare = 0;
      uint64_t range = 0, plain = 0;
      void *memory = nullptr;
      weir_be_stream stream = nullptr;
      weir_be_fence fence = 0;
      ASSERT_OK(t.granule_create(backend.state, device, unit, 0, &granule));
      ASSERT_OK(t.granule_create(backend.state, device, unit, 0, &spare));
      ASSERT_OK(t.range_reserve(backend.state, device, 4 * unit, unit, &range));
      ASSERT_OK(t.map(backend.state, device, range, unit, granule, 0, nullptr, 0));
      ASSERT_OK(t.plain_allocate(backend.state, device, mib, 256, &plain));
      ASSERT_OK(t.host_allocate(backend.state, mib, &memory));
      ASSERT_OK(t.stream_create(backend.state, device, 0, &stream));
      ASSERT_OK(t.fill_async(backend.state, stream, range, 7, unit));
      ASSERT_OK(t.fence_record(backend.state, stream, &fence));
    }
  }
  machine.census();
}

void test_granule_refusals(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule granule = 77;
    assert_int_equal(t.granule_create(s, 0, unit + 4096, 0, &granule), WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "0x201000");
    assert_int_equal(t.granule_create(s, 0, 0, 0, &granule), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.granule_create(s, 3, unit, 0, &granule), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.granule_create(s, 0, unit, WEIR_BE_GRANULE_EXPORT_FABRIC, &granule),
                     WEIR_ERROR_NOT_SUPPORTED);
    assert_int_equal(t.granule_create(s, 0, uint64_t{1} << 40U, 0, &granule),
                     WEIR_ERROR_DEVICE_OOM);
    assert_contains(backend.sentence(), "hipMemCreate: out of memory (2)");
    assert_int_equal(t.last_error_code(s), 2);
    assert_int_equal(granule, 77);
    assert_int_equal(t.granule_destroy(s, 0, 0), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &granule));
    ASSERT_OK(t.granule_destroy(s, 0, granule));
    assert_int_equal(t.granule_destroy(s, 0, granule), WEIR_ERROR_INVALID_ARGUMENT);
  }
  machine.census();
}

void test_map_refusals(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule granule = 0, large = 0;
    uint64_t range = 0, other = 99;
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &granule));
    ASSERT_OK(t.granule_create(s, 0, 4 * unit, 0, &large));
    assert_int_equal(t.range_reserve(s, 0, unit, unit / 2, &other), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.range_reserve(s, 0, unit, 3 * unit, &other), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.range_reserve(s, 0, unit + 1, unit, &other), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(other, 99);
    ASSERT_OK(t.range_reserve(s, 0, 8 * unit, unit, &range));
    // A part of a granule: the contract's words allow it, HIP does not.
    assert_int_equal(t.map(s, 0, range, unit, large, unit, nullptr, 0), WEIR_ERROR_NOT_SUPPORTED);
    assert_contains(backend.sentence(), "mapped whole, not [2097152, +2097152)");
    assert_int_equal(t.map(s, 0, range, unit, large, 0, nullptr, 0), WEIR_ERROR_NOT_SUPPORTED);
    assert_int_equal(t.map(s, 0, range, unit, granule, unit, nullptr, 0),
                     WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.map(s, 0, range + 4096, unit, granule, 0, nullptr, 0),
                     WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.map(s, 0, range + 8 * unit, unit, granule, 0, nullptr, 0),
                     WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.map(s, 0, range, unit, 12345, 0, nullptr, 0), WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "granule 0x3039 is none of device 0");
    const uint32_t nobody = 5;
    assert_int_equal(t.map(s, 0, range, unit, granule, 0, &nobody, 1), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.map(s, 0, range, unit, granule, 0, nullptr, 1), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
    assert_int_equal(t.map(s, 0, range + unit, unit, granule, 0, nullptr, 0),
                     WEIR_ERROR_NOT_SUPPORTED);
    assert_int_equal(t.map(s, 0, range, 4 * unit, large, 0, nullptr, 0),
                     WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.granule_destroy(s, 0, granule), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.range_free(s, 0, range, 8 * unit), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.unmap(s, 0, range, 2 * unit), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.unmap(s, 0, range, unit));
    assert_int_equal(t.unmap(s, 0, range, unit), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.range_free(s, 0, range, unit), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.range_free(s, 0, range, 8 * unit));
    ASSERT_OK(t.granule_destroy(s, 0, granule));
    ASSERT_OK(t.granule_destroy(s, 0, large));
  }
  machine.census();
}

void test_multi_map(void **) {
  const Machine machine;
  {
    const Backend backend("multi_map=1");
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule granule = 0;
    uint64_t range = 0;
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &granule));
    ASSERT_OK(t.range_reserve(s, 0, 2 * unit, unit, &range));
    ASSERT_OK(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
    ASSERT_OK(t.map(s, 0, range + unit, unit, granule, 0, nullptr, 0));
    Mover mover(backend, 0, unit);
    mover.write(range, 0x42);
    mover.expect(range + unit, 0x42);
    ASSERT_OK(t.unmap(s, 0, range, unit));
    mover.expect(range + unit, 0x42);
  }
  machine.census();
}

/// A runtime that does not align reservations: the backend does.
void test_alignment(void **) {
  const Machine machine;
  const Setting aligns("WEIR_HIP_LOOKALIKE_ALIGNS", "0");
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    assert_true(backend.can(WEIR_CAP_VMM));
    weir_be_granule granule = 0;
    uint64_t range = 0, left = 0;
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &granule));
    ASSERT_OK(t.range_reserve(s, 0, 4 * unit, 16 * unit, &range));
    ASSERT_OK(t.range_reserve(s, 0, unit, unit, &left));
    assert_int_equal(range % (16 * unit), 0);
    assert_int_equal(left % unit, 0);
    ASSERT_OK(t.map(s, 0, range + 3 * unit, unit, granule, 0, nullptr, 0));
    Mover mover(backend, 0, unit);
    mover.write(range + 3 * unit, 0x71);
    mover.expect(range + 3 * unit, 0x71);
    ASSERT_OK(t.unmap(s, 0, range + 3 * unit, unit));
    ASSERT_OK(t.range_free(s, 0, range, 4 * unit));
  }
  machine.census();
}

/// A mapping that the runtime knows a little late is asked for again; one that it never knows is taken back.
void test_late_mapping(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule granule = 0;
    uint64_t range = 0;
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &granule));
    ASSERT_OK(t.range_reserve(s, 0, 2 * unit, unit, &range));
    libraries().fail_call("cuMemSetAccess", 1, 1);
    ASSERT_OK(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
    ASSERT_OK(t.unmap(s, 0, range, unit));
    const Setting first_only("WEIR_HIP_LOOKALIKE_FIRST_ONLY", "1");
    assert_int_equal(t.map(s, 0, range + unit, unit, granule, 0, nullptr, 0), WEIR_ERROR_BACKEND);
    assert_contains(backend.sentence(), "hipMemSetAccess");
    ASSERT_OK(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
    Mover mover(backend, 0, unit);
    mover.write(range, 0x10);
    mover.expect(range, 0x10);
  }
  machine.census();
}

/// The look-alike takes the owning device last and nothing else.
void test_peers(void **) {
  const Machine machine(3);
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule granule = 0;
    uint64_t range = 0;
    ASSERT_OK(t.granule_create(s, 1, unit, 0, &granule));
    ASSERT_OK(t.range_reserve(s, 1, unit, unit, &range));
    const uint32_t peers[] = {2, 0, 1, 2};
    ASSERT_OK(t.map(s, 1, range, unit, granule, 0, peers, 4));
    Mover mover(backend, 2, unit);
    mover.write(range, 0x37);
    Mover owner(backend, 1, unit);
    owner.expect(range, 0x37);
  }
  machine.census();
  const Machine apart(2, "peer=0");
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_granule granule = 0;
    uint64_t range = 0;
    ASSERT_OK(t.granule_create(backend.state, 0, unit, 0, &granule));
    ASSERT_OK(t.range_reserve(backend.state, 0, unit, unit, &range));
    const uint32_t peer = 1;
    assert_int_equal(t.map(backend.state, 0, range, unit, granule, 0, &peer, 1),
                     WEIR_ERROR_NOT_SUPPORTED);
    assert_contains(backend.sentence(), "device 1 can't reach the memory of device 0");
  }
  apart.census();
}

void export_and_import(const char *release) {
  const Machine machine;
  const Setting version("WEIR_HIP_LOOKALIKE_VERSION", release);
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_granule granule = 0, again = 0, closed = 0;
    uint64_t range = 0;
    int32_t fd = -1;
    ASSERT_OK(t.granule_create(s, 0, unit, WEIR_BE_GRANULE_EXPORT_FD, &granule));
    ASSERT_OK(t.granule_create(s, 0, unit, 0, &closed));
    assert_int_equal(t.granule_export(s, 0, closed, &fd), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.granule_export(s, 0, granule, &fd));
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(t.granule_import(s, 0, -1, unit, &again), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.granule_import(s, 0, fd, unit + 1, &again), WEIR_ERROR_INVALID_ARGUMENT);
    // As descriptor 0, which the runtime would take for none; and while 0 is the next that the system gives.
    const int saved = dup(0);
    assert_int_equal(dup2(fd, 0), 0);
    const weir_result as_none = t.granule_import(s, 0, 0, unit, &again);
    close(0);
    weir_be_granule third = 0;
    const weir_result beside_none = t.granule_import(s, 0, fd, unit, &third);
    dup2(saved, 0);
    close(saved);
    ASSERT_OK(as_none);
    ASSERT_OK(beside_none);
    close(fd);
    ASSERT_OK(t.range_reserve(s, 0, 2 * unit, unit, &range));
    ASSERT_OK(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
    ASSERT_OK(t.map(s, 0, range + unit, unit, again, 0, nullptr, 0));
    Mover mover(backend, 0, unit);
    mover.write(range, 0x5a);
    mover.expect(range + unit, 0x5a);
  }
  machine.census();
}

/// How the runtime wants a descriptor changed with ROCm 7.1.
void test_export(void **) {
  for (const char *release : {"60300000", "70053211", "70100000", "70253211"}) {
    // The simulated machine closes descriptor 0 with what it imported as that, and must not get it for its memory.
    const int standing_in = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (standing_in != 0) close(standing_in);
    export_and_import(release);
  }
}

void test_plain(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    uint64_t small = 0, aligned = 0;
    ASSERT_OK(t.plain_allocate(s, 0, 1000, 1, &small));
    ASSERT_OK(t.plain_allocate(s, 0, 5 * mib, unit, &aligned));
    assert_int_equal(aligned % unit, 0);
    Mover mover(backend, 0, mib);
    mover.write(aligned + 4 * mib, 0x66);
    mover.expect(aligned + 4 * mib, 0x66);
    assert_int_equal(t.plain_allocate(s, 0, 0, 1, &small), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.plain_allocate(s, 0, mib, 3, &small), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.plain_allocate(s, 0, mib, 2 * unit, &small), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.plain_free(s, 0, aligned + 4096, 5 * mib), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.plain_free(s, 0, aligned, mib), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.plain_free(s, 0, aligned, 5 * mib));
    assert_int_equal(t.plain_free(s, 0, aligned, 5 * mib), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.plain_free(s, 0, small, 1000));
  }
  machine.census();
}

void test_host_memory(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    void *memory = nullptr;
    ASSERT_OK(t.host_allocate(s, 12345, &memory));
    assert_int_equal(reinterpret_cast<uintptr_t>(memory) % 4096, 0);
    assert_int_equal(t.host_free(s, memory, 12344), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.host_free(s, memory, 12345));
    assert_int_equal(t.host_free(s, memory, 12345), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.host_allocate(s, 0, &memory), WEIR_ERROR_INVALID_ARGUMENT);

    void *own = mmap(nullptr, mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(own != MAP_FAILED);
    assert_int_equal(t.host_register(s, static_cast<char *>(own) + 8, 4096),
                     WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.host_register(s, own, mib));
    assert_int_equal(t.host_register(s, own, mib), WEIR_ERROR_INVALID_ARGUMENT);
    uint64_t plain = 0;
    ASSERT_OK(t.plain_allocate(s, 0, mib, 256, &plain));
    std::memset(own, 0x3c, mib);
    const weir_be_copy copy{plain, reinterpret_cast<uintptr_t>(own), mib};
    weir_be_stream stream = nullptr;
    ASSERT_OK(t.stream_create(s, 0, 0, &stream));
    ASSERT_OK(t.copy_async(s, stream, &copy));
    ASSERT_OK(t.stream_synchronize(s, stream));
    assert_int_equal(t.host_unregister(s, own, 4096), WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.host_unregister(s, own, mib));
    Mover mover(backend, 0, mib);
    mover.expect(plain, 0x3c);
    munmap(own, mib);
  }
  machine.census();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_life),
      cmocka_unit_test(test_stop_ends_all),
      cmocka_unit_test(test_granule_refusals),
      cmocka_unit_test(test_map_refusals),
      cmocka_unit_test(test_multi_map),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_late_mapping),
      cmocka_unit_test(test_peers),
      cmocka_unit_test(test_export),
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_host_memory),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
