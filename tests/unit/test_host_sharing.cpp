// SPDX-License-Identifier: Apache-2.0
//
// Plain memory, exported and imported granules, host memory and the capability switches of the host
// backend.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

// Last: CMocka defines a macro named fail.
#include "tests/unit/host_backend.hpp"

namespace {

using weir::test::Backend;
using weir::test::bytes_at;
using weir::test::invalid;
using weir::test::kib64;

void plain_memory_has_an_address_at_once(void **) {
  const Backend b;
  const uint64_t before = b.available();
  uint64_t a = 0;
  uint64_t c = 0;
  assert_int_equal(b.t.plain_allocate(b.s, 0, 10000, 256, &a), WEIR_SUCCESS);
  assert_int_equal(b.t.plain_allocate(b.s, 0, 4096, uint64_t{2} << 20U, &c), WEIR_SUCCESS);
  assert_int_equal(c % (uint64_t{2} << 20U), 0);
  assert_int_equal(b.available(), before - 4 * 4096);
  std::memset(bytes_at(a), 7, 10000);
  std::memset(bytes_at(c), 9, 4096);
  assert_int_equal(bytes_at(a)[9999], 7);
  assert_int_equal(b.t.plain_free(b.s, 0, a, 10000 - 4096), invalid);
  assert_int_equal(b.t.plain_free(b.s, 0, a + 4096, 10000), invalid);
  assert_int_equal(b.t.range_free(b.s, 0, c, 4096), invalid);
  assert_int_equal(b.t.unmap(b.s, 0, c, 4096), invalid);
  assert_int_equal(b.t.plain_free(b.s, 0, a, 10000), WEIR_SUCCESS);
  assert_int_equal(b.t.plain_free(b.s, 0, a, 10000), invalid);
  assert_int_equal(b.t.plain_free(b.s, 0, c, 4096), WEIR_SUCCESS);
  assert_int_equal(b.available(), before);
  assert_int_equal(b.t.plain_allocate(b.s, 0, 0, 256, &a), invalid);
  assert_int_equal(b.t.plain_allocate(b.s, 0, 4096, 3, &a), invalid);
  assert_int_equal(b.t.plain_allocate(b.s, 0, 4096, 0, &a), invalid);
  assert_int_equal(b.t.plain_allocate(b.s, 0, 4096, uint64_t{4} << 20U, &a), invalid);
  assert_int_equal(b.t.plain_allocate(b.s, 0, uint64_t{5} << 20U, 256, &a), WEIR_ERROR_DEVICE_OOM);
}

void export_and_import_share_memory(void **) {
  const Backend b("devices=2");
  const weir_be_granule first = b.granule();  // so that the exported one does not lie at offset 0
  const weir_be_granule granule = b.granule(kib64, 0, WEIR_BE_GRANULE_EXPORT_FD);
  int32_t fd = -1;
  assert_int_equal(b.t.granule_export(b.s, 0, first, &fd), invalid);  // not made for it
  assert_int_equal(b.t.granule_export(b.s, 0, granule, &fd), WEIR_SUCCESS);
  assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  weir_be_granule imported = 0;
  assert_int_equal(b.t.granule_import(b.s, 1, fd, kib64, &imported), invalid);
  assert_int_equal(b.t.granule_import(b.s, 0, fd, 2 * kib64, &imported), invalid);
  assert_int_equal(b.t.granule_import(b.s, 0, fd, kib64, &imported), WEIR_SUCCESS);
  const uint64_t before = b.available();
  const uint64_t range = b.range(3 * kib64);
  assert_int_equal(b.map(range, granule), WEIR_SUCCESS);
  assert_int_equal(b.map(range + kib64, imported), WEIR_SUCCESS);
  assert_int_equal(b.map(range + 2 * kib64, first), WEIR_SUCCESS);
  bytes_at(range)[1] = 11;
  assert_int_equal(bytes_at(range + kib64)[1], 11);
  assert_int_equal(bytes_at(range + 2 * kib64)[1], 0);
  // The exporter's handle goes; the import keeps the memory.
  assert_int_equal(b.unmap(range), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 0, granule), WEIR_SUCCESS);
  assert_int_equal(b.available(), before);
  assert_int_equal(bytes_at(range + kib64)[1], 11);
  assert_int_equal(b.unmap(range + kib64), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 0, imported), WEIR_SUCCESS);
  assert_int_equal(b.available(), before + kib64);
  close(fd);
}

void import_takes_another_backends_memory(void **) {
  const Backend b;
  const Backend c;
  const weir_be_granule granule = b.granule(kib64, 0, WEIR_BE_GRANULE_EXPORT_FD);
  const uint64_t at_b = b.range(kib64);
  const uint64_t at_c = c.range(kib64);
  assert_int_equal(b.map(at_b, granule), WEIR_SUCCESS);
  int32_t fd = -1;
  assert_int_equal(b.t.granule_export(b.s, 0, granule, &fd), WEIR_SUCCESS);
  weir_be_granule imported = 0;
  assert_int_equal(c.t.granule_import(c.s, 0, fd, kib64, &imported), WEIR_SUCCESS);
  close(fd);
  assert_int_equal(c.available(), uint64_t{4} << 20U);
  assert_int_equal(c.map(at_c, imported), WEIR_SUCCESS);
  bytes_at(at_b)[100] = 21;
  assert_int_equal(bytes_at(at_c)[100], 21);
}

void import_refuses_other_files(void **) {
  const Backend b;
  weir_be_granule imported = 0;
  assert_int_equal(b.t.granule_import(b.s, 0, -1, kib64, &imported), invalid);
  const int memory = memfd_create("unsealed", MFD_CLOEXEC);
  assert_int_equal(ftruncate(memory, static_cast<off_t>(kib64)), 0);
  assert_int_equal(b.t.granule_import(b.s, 0, memory, kib64, &imported), invalid);
  close(memory);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(b.t.granule_import(b.s, 0, ends[0], kib64, &imported), invalid);
  close(ends[0]);
  close(ends[1]);
  assert_int_equal(imported, 0);
}

void host_memory_is_kept_track_of(void **) {
  const Backend b;
  void *memory = nullptr;
  assert_int_equal(b.t.host_allocate(b.s, 8192, &memory), WEIR_SUCCESS);
  assert_int_equal(reinterpret_cast<uintptr_t>(memory) % 4096, 0);
  std::memset(memory, 1, 8192);
  assert_int_equal(b.t.host_free(b.s, memory, 4096), invalid);
  assert_int_equal(b.t.host_unregister(b.s, memory, 8192), invalid);
  assert_int_equal(b.t.host_free(b.s, memory, 8192), WEIR_SUCCESS);
  assert_int_equal(b.t.host_free(b.s, memory, 8192), invalid);
  assert_int_equal(b.t.host_allocate(b.s, 0, &memory), invalid);

  alignas(4096) static unsigned char own[3 * 4096];
  assert_int_equal(b.t.host_register(b.s, own + 1, 4096), invalid);
  assert_int_equal(b.t.host_register(b.s, own, 0), invalid);
  assert_int_equal(b.t.host_register(b.s, own, 2 * 4096), WEIR_SUCCESS);
  assert_int_equal(b.t.host_register(b.s, own, 2 * 4096), invalid);
  assert_int_equal(b.t.host_register(b.s, own + 4096, 2 * 4096), invalid);
  assert_int_equal(b.t.host_register(b.s, own + 2 * 4096, 4096), WEIR_SUCCESS);
  assert_int_equal(b.t.host_unregister(b.s, own, 4096), invalid);
  assert_int_equal(b.t.host_free(b.s, own, 2 * 4096), invalid);
  assert_int_equal(b.t.host_unregister(b.s, own, 2 * 4096), WEIR_SUCCESS);
  assert_int_equal(b.t.host_unregister(b.s, own, 2 * 4096), invalid);
}

void switches_turn_their_calls_off(void **) {
  constexpr weir_result off = WEIR_ERROR_NOT_SUPPORTED;
  {
    const Backend b("vmm=0");
    assert_int_equal(b.describe().granule, 0);
    assert_int_equal(b.describe().granule_large, 0);
    assert_int_equal(
        b.describe().capabilities & (WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_EXPORT_FD), 0);
    weir_be_granule granule = 0;
    uint64_t address = 0;
    assert_int_equal(b.t.granule_create(b.s, 0, kib64, 0, &granule), off);
    assert_true(b.why().find("vmm") != std::string::npos);
    assert_int_equal(b.t.granule_destroy(b.s, 0, 1), off);
    assert_int_equal(b.t.range_reserve(b.s, 0, kib64, kib64, &address), off);
    assert_int_equal(b.t.range_free(b.s, 0, kib64, kib64), off);
    assert_int_equal(b.map(kib64, 1), off);
    assert_int_equal(b.unmap(kib64), off);
    assert_int_equal(b.t.plain_allocate(b.s, 0, kib64, 4096, &address), WEIR_SUCCESS);
  }
  {
    const Backend b("export_fd=0;register=0;multi_map=0;peer=0;devices=2");
    const weir_be_granule granule = b.granule();
    weir_be_granule imported = 0;
    int32_t fd = -1;
    assert_int_equal(b.t.granule_export(b.s, 0, granule, &fd), off);
    assert_int_equal(b.t.granule_create(b.s, 0, kib64, WEIR_BE_GRANULE_EXPORT_FD, &imported), off);
    assert_int_equal(b.t.granule_import(b.s, 0, 0, kib64, &imported), off);
    alignas(4096) static unsigned char own[4096];
    assert_int_equal(b.t.host_register(b.s, own, 4096), off);
    assert_int_equal(b.t.host_unregister(b.s, own, 4096), off);
    assert_int_equal(b.t.peer_enable(b.s, 0, 1), off);
    const uint64_t range = b.range(2 * kib64);
    const uint32_t peer = 1;
    assert_int_equal(b.t.map(b.s, 0, range, kib64, granule, 0, &peer, 1), off);
    assert_int_equal(b.map(range, granule), WEIR_SUCCESS);
    assert_int_equal(b.map(range + kib64, granule), invalid);  // one mapping at a time
    assert_int_equal(b.unmap(range), WEIR_SUCCESS);
    assert_int_equal(b.map(range + kib64, granule), WEIR_SUCCESS);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(plain_memory_has_an_address_at_once),
      cmocka_unit_test(export_and_import_share_memory),
      cmocka_unit_test(import_takes_another_backends_memory),
      cmocka_unit_test(import_refuses_other_files),
      cmocka_unit_test(host_memory_is_kept_track_of),
      cmocka_unit_test(switches_turn_their_calls_off),
  };
  return cmocka_run_group_tests_name("host sharing", tests, nullptr, nullptr);
}
