// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUDA driver: its functions by version, contexts, devices, physical memory, mapping and access, what the
// CPU may touch, and memory that goes to another process (this program again, as `import`).

#include "tests/backends/sim_cuda.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

using namespace weir::test;

namespace {

void *look_up(Sim &sim, const char *name, int version, int *found) {
  void *function = &sim;
  OK(sim.cu.get_proc(name, &function, version, abi::proc_default, found));
  return function;
}

void test_symbols(void **) {
  Sim sim;
  int found = -1;
  // One name, two signatures.
  assert_ptr_equal(look_up(sim, "cuMemcpyBatchAsync", 12080, &found),
                   sim.cu.symbol("cuMemcpyBatchAsync"));
  assert_ptr_equal(look_up(sim, "cuMemcpyBatchAsync", 13000, &found),
                   sim.cu.symbol("cuMemcpyBatchAsync_v2"));
  assert_int_equal(found, abi::proc_found);
  assert_ptr_equal(look_up(sim, "cuMemAlloc", 3020, &found), sim.cu.symbol("cuMemAlloc_v2"));
  assert_null(look_up(sim, "cuMemcpyBatchAsync", 12070, &found));
  assert_int_equal(found, abi::proc_version_not_sufficient);
  // The form of 13.0 takes a context and is not simulated: nobody may get the older one in its place.
  assert_null(look_up(sim, "cuCtxSynchronize", 13000, &found));
  assert_int_equal(found, abi::proc_version_not_sufficient);
  assert_null(look_up(sim, "cuNoSuchThing", 12000, &found));
  assert_int_equal(found, abi::proc_not_found);
  void *function = nullptr;
  IS(sim.cu.get_proc("cuInit", &function, 13010, 0, &found), invalid_value);
  IS(sim.cu.cuGetProcAddress("cuNoSuchThing", &function, 12000, 0), not_found);
  OK(sim.cu.cuGetProcAddress("cuInit", &function, 2000, 0));
  assert_ptr_equal(function, sim.cu.symbol("cuInit"));
}

void test_symbols_of_an_old_driver(void **) {
  Sim sim("version=12040;batch_copy=0;host_call=0");
  int version = 0;
  OK(sim.cu.cuDriverGetVersion(&version));
  assert_int_equal(version, 12040);
  int found = -1;
  assert_null(look_up(sim, "cuMemcpyBatchAsync", 12040, &found));
  assert_int_equal(found, abi::proc_not_found);
  assert_null(look_up(sim, "cuStreamGetDevice", 12040, &found));
  assert_null(look_up(sim, "cuLaunchHostFunc", 12040, &found));
  void *function = nullptr;
  IS(sim.cu.get_proc("cuStreamGetDevice", &function, 12080, 0, &found), invalid_value);
  int value = 0;
  OK(sim.cu.cuDeviceGetAttribute(&value, abi::attribute::handle_type_fabric_supported, 0));
}

void test_before_init(void **) {
  Library &cu = library();
  assert_int_equal(cu.configure("devices=2"), 0);
  int value = 0;
  OK(cu.cuDriverGetVersion(&value));
  const char *text = nullptr;
  OK(cu.cuGetErrorName(700, &text));
  assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  IS(cu.cuGetErrorString(12345, &text), invalid_value);
  assert_null(text);
  assert_int_equal(cu.misuse(nullptr), 0);
  IS(cu.cuDeviceGetCount(&value), not_initialized);
  assert_int_equal(cu.misuse(&text), 1);
  assert_non_null(std::strstr(text, "cuDeviceGetCount"));
  IS(cu.cuInit(1), invalid_value);
  OK(cu.cuInit(0));
  OK(cu.cuDeviceGetCount(&value));
  assert_int_equal(value, 2);
  assert_int_equal(cu.configure("devices=0"), 0);
  IS(cu.cuInit(0), no_device);
}

void test_options(void **) {
  Library &cu = library();
  assert_int_equal(cu.configure("devices=3"), 0);
  for (const char *bad : {"devices=65", "granule=3K", "granule=1K", "mode=loose", "links=rope",
                          "vmm=2", "colour=red", "memory=4X", "memory=1K", "devices"}) {
    assert_int_equal(cu.configure(bad), -1);
    assert_true(cu.complaint()[0] != '\0');
  }
  OK(cu.cuInit(0));
  int count = 0;
  OK(cu.cuDeviceGetCount(&count));  // the machine before is still there
  assert_int_equal(count, 3);
}

void test_contexts(void **) {
  Library &cu = library();
  assert_int_equal(cu.configure("devices=2;memory=4M;granule=64K"), 0);
  OK(cu.cuInit(0));
  size_t bytes = 0;
  IS(cu.cuMemGetInfo_v2(&bytes, &bytes), invalid_context);
  abi::Context first = nullptr;
  abi::Context again = nullptr;
  abi::Context second = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
  OK(cu.cuDevicePrimaryCtxRetain(&again, 0));
  OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
  assert_ptr_equal(first, again);
  assert_int_equal(cu.alive(nullptr), 3);
  abi::Context current = first;
  OK(cu.cuCtxGetCurrent(&current));
  assert_null(current);  // retaining makes nothing current
  OK(cu.cuCtxPushCurrent_v2(first));
  OK(cu.cuCtxPushCurrent_v2(second));
  abi::Device device = -1;
  OK(cu.cuCtxGetDevice(&device));
  assert_int_equal(device, 1);
  OK(cu.cuCtxPopCurrent_v2(&current));
  assert_ptr_equal(current, second);
  OK(cu.cuMemGetInfo_v2(&bytes, &bytes));
  OK(cu.cuDevicePrimaryCtxRelease_v2(0));
  OK(cu.cuMemGetInfo_v2(&bytes, &bytes));  // one hold is left
  abi::DevicePointer memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 100));
  assert_int_equal(cu.misuse(nullptr), 1);  // the call without a context
  OK(cu.cuDevicePrimaryCtxRelease_v2(0));
  assert_int_equal(cu.misuse(nullptr), 2);  // the allocation ended with its context
  IS(cu.cuMemGetInfo_v2(&bytes, &bytes), context_is_destroyed);
  IS(cu.cuCtxSetCurrent(first), invalid_context);
  IS(cu.cuDevicePrimaryCtxRelease_v2(0), invalid_context);
  OK(cu.cuCtxSetCurrent(nullptr));
  IS(cu.cuCtxPopCurrent_v2(&current), invalid_context);
  IS(cu.cuDevicePrimaryCtxRetain(&first, 2), invalid_device);
  OK(cu.cuDevicePrimaryCtxRelease_v2(1));
  assert_int_equal(cu.alive(nullptr), 0);

  abi::Context made = nullptr;
  OK(cu.cuCtxCreate_v2(&made, 0, 1));
  OK(cu.cuCtxGetCurrent(&current));
  assert_ptr_equal(current, made);  // unlike a retained one
  OK(cu.cuCtxDestroy_v2(made));
  OK(cu.cuCtxGetCurrent(&current));
  assert_null(current);
  assert_int_equal(cu.alive(nullptr), 0);
}

int attribute(Sim &sim, int which, int device = 0) {
  int value = -1;
  OK(sim.cu.cuDeviceGetAttribute(&value, which, device));
  return value;
}

void test_devices(void **) {
  Sim sim("devices=4;links=ring;export_fd=0");
  namespace peer = abi::peer_attribute;
  assert_int_equal(attribute(sim, abi::attribute::virtual_memory_management_supported), 1);
  assert_int_equal(attribute(sim, abi::attribute::handle_type_file_descriptor_supported), 0);
  assert_int_equal(attribute(sim, abi::attribute::handle_type_fabric_supported), 0);
  assert_int_equal(attribute(sim, abi::attribute::pci_bus_id, 2), 0x12);
  char text[32];
  OK(sim.cu.cuDeviceGetPCIBusId(text, sizeof text, 3));
  assert_string_equal(text, "0000:13:00.0");
  abi::Device device = -1;
  OK(sim.cu.cuDeviceGetByPCIBusId(&device, "0000:13:00.0"));
  assert_int_equal(device, 3);
  IS(sim.cu.cuDeviceGetByPCIBusId(&device, "0000:55:00.0"), invalid_device);
  int value = -1;
  OK(sim.cu.cuDeviceGetP2PAttribute(&value, peer::performance_rank, 0, 3));
  assert_int_equal(value, 0);  // neighbours
  OK(sim.cu.cuDeviceGetP2PAttribute(&value, peer::performance_rank, 0, 2));
  assert_int_equal(value, 1);
  IS(sim.cu.cuDeviceGetP2PAttribute(&value, peer::performance_rank, 1, 1), invalid_device);
  OK(sim.cu.cuDeviceCanAccessPeer(&value, 0, 2));
  assert_int_equal(value, 1);
  OK(sim.cu.cuDeviceCanAccessPeer(&value, 2, 2));
  assert_int_equal(value, 0);
  IS(sim.cu.cuDeviceGetName(text, sizeof text, 4), invalid_device);
  IS(sim.cu.cuDeviceGetAttribute(&value, 100000, 0), invalid_value);
}

void test_peers(void **) {
  Sim sim("devices=2");
  const abi::Context second = sim.use(1);
  const abi::Context first = sim.use(0);
  IS(sim.cu.cuCtxEnablePeerAccess(first, 0), invalid_context);
  IS(sim.cu.cuCtxEnablePeerAccess(second, 1), invalid_value);
  OK(sim.cu.cuCtxEnablePeerAccess(second, 0));
  IS(sim.cu.cuCtxEnablePeerAccess(second, 0), peer_access_already_enabled);
  OK(sim.cu.cuCtxDisablePeerAccess(second));
  IS(sim.cu.cuCtxDisablePeerAccess(second), peer_access_not_enabled);
  OK(sim.cu.cuCtxEnablePeerAccess(second, 0));
}

void test_no_peers(void **) {
  Sim sim("devices=2;peer=0");
  const abi::Context second = sim.use(1);
  sim.use(0);
  IS(sim.cu.cuCtxEnablePeerAccess(second, 0), peer_access_unsupported);
  const abi::DevicePointer address = sim.mapped();
  IS(sim.access(address, kib64, 1), invalid_device);
  sim.unmapped(address);
}

void test_granules(void **) {
  Sim sim;
  size_t granularity = 0;
  auto p = Sim::properties();
  OK(sim.cu.cuMemGetAllocationGranularity(&granularity, &p, abi::granularity_minimum));
  assert_int_equal(granularity, kib64);
  abi::GranuleHandle handle = 0;
  IS(sim.cu.cuMemCreate(&handle, kib64 + 4096, &p, 0), invalid_value);
  IS(sim.cu.cuMemCreate(&handle, 0, &p, 0), invalid_value);
  IS(sim.cu.cuMemCreate(&handle, kib64, &p, 1), invalid_value);
  p.location.id = 1;
  IS(sim.cu.cuMemCreate(&handle, kib64, &p, 0), invalid_device);
  p.location = {abi::location_host, 0};
  IS(sim.cu.cuMemCreate(&handle, kib64, &p, 0), invalid_value);
  p = Sim::properties(0, abi::handle_fabric);
  IS(sim.cu.cuMemCreate(&handle, kib64, &p, 0), not_supported);
  assert_int_equal(handle, 0);

  std::vector<abi::GranuleHandle> all;
  for (int i = 0; i < 64; ++i) all.push_back(sim.granule());
  assert_int_equal(sim.available(), 0);
  p = Sim::properties();
  IS(sim.cu.cuMemCreate(&handle, kib64, &p, 0), out_of_memory);
  abi::DevicePointer address = 0;
  IS(sim.cu.cuMemAlloc_v2(&address, 1), out_of_memory);
  for (const auto each : all) OK(sim.cu.cuMemRelease(each));
  assert_int_equal(sim.available(), 64 * kib64);
  IS(sim.cu.cuMemRelease(all[0]), invalid_value);
}

void test_no_vmm(void **) {
  Sim sim("vmm=0");
  assert_int_equal(attribute(sim, abi::attribute::virtual_memory_management_supported), 0);
  abi::DevicePointer address = 0;
  IS(sim.cu.cuMemAddressReserve(&address, kib64, 0, 0, 0), not_supported);
}

void test_mapping(void **) {
  Sim sim;
  const abi::GranuleHandle memory = sim.granule(2 * kib64);
  const abi::DevicePointer range = sim.range(8 * kib64);
  abi::DevicePointer aligned = 0;
  OK(sim.cu.cuMemAddressReserve(&aligned, kib64, 1 << 21, 0, 0));
  assert_int_equal(aligned % (1 << 21), 0);
  IS(sim.cu.cuMemAddressReserve(&aligned, kib64, 3, 0, 0), invalid_value);
  IS(sim.cu.cuMemAddressReserve(&aligned, kib64 + 1, 0, 0, 0), invalid_value);
  IS(sim.cu.cuMemAddressReserve(&aligned, kib64, 0, 0, 1), invalid_value);

  IS(sim.cu.cuMemMap(range, 2 * kib64, 0, memory, 1), invalid_value);
  IS(sim.cu.cuMemMap(range, 3 * kib64, 0, memory, 0), invalid_value);
  IS(sim.cu.cuMemMap(range + 4096, kib64, 0, memory, 0), invalid_value);
  IS(sim.cu.cuMemMap(range + 7 * kib64, 2 * kib64, 0, memory, 0), invalid_value);
  IS(sim.cu.cuMemMap(range, kib64, 0, memory + 8, 0), invalid_value);
  OK(sim.cu.cuMemMap(range + kib64, 2 * kib64, 0, memory, 0));
  IS(sim.cu.cuMemMap(range + 2 * kib64, kib64, 0, memory, 0), invalid_value);
  IS(sim.cu.cuMemMap(range, 2 * kib64, 0, memory, 0), invalid_value);

  IS(sim.cu.cuMemUnmap(range + kib64, kib64), invalid_value);
  IS(sim.cu.cuMemUnmap(range, 3 * kib64), invalid_value);
  IS(sim.cu.cuMemAddressFree(range, 8 * kib64), invalid_value);
  IS(sim.access(range, 3 * kib64), invalid_value);
  IS(sim.access(range + kib64, kib64), invalid_value);
  OK(sim.cu.cuMemMap(range + 3 * kib64, 2 * kib64, 0, memory, 0));  // the same memory twice
  OK(sim.access(range + kib64, 4 * kib64));                         // over two mappings
  assert_int_equal(sim.misuses(), 15);

  OK(sim.cu.cuMemsetD8_v2(range + kib64, 7, 2 * kib64));
  assert_true(sim.all(range + 3 * kib64, 7, 2 * kib64));
  OK(sim.cu.cuMemRelease(memory));  // the mappings keep it
  assert_int_equal(sim.available(), 62 * kib64);
  OK(sim.cu.cuMemUnmap(range + kib64, 4 * kib64));  // both at once, without gaps
  assert_int_equal(sim.available(), 64 * kib64);
  IS(sim.cu.cuMemUnmap(range + kib64, 2 * kib64), invalid_value);
  IS(sim.cu.cuMemAddressFree(range, 4 * kib64), invalid_value);
  IS(sim.cu.cuMemAddressFree(range + kib64, 7 * kib64), invalid_value);
  OK(sim.cu.cuMemAddressFree(range, 8 * kib64));
  IS(sim.cu.cuMemAddressFree(range, 8 * kib64), invalid_value);
  OK(sim.cu.cuMemAddressFree(aligned, kib64));
}

void test_contents_survive_remapping(void **) {
  Sim sim;
  const abi::GranuleHandle a = sim.granule();
  const abi::GranuleHandle b = sim.granule();
  const abi::DevicePointer range = sim.range();
  int value = 1;
  for (const abi::GranuleHandle each : {a, b}) {
    OK(sim.cu.cuMemMap(range, kib64, 0, each, 0));
    OK(sim.access(range));
    OK(sim.cu.cuMemsetD8_v2(range, static_cast<unsigned char>(value++), kib64));
    OK(sim.cu
           .cuCtxSynchronize());  // a fill does not hold up the host, and unmapping waits for nothing
    OK(sim.cu.cuMemUnmap(range, kib64));
  }
  value = 1;
  for (const abi::GranuleHandle each : {a, b}) {
    OK(sim.cu.cuMemMap(range, kib64, 0, each, 0));
    unsigned long long flags = 99;
    const abi::Location here{abi::location_device, 0};
    OK(sim.cu.cuMemGetAccess(&flags, &here, range));
    assert_int_equal(flags, abi::access_none);  // every mapping starts without
    OK(sim.access(range));
    OK(sim.cu.cuMemGetAccess(&flags, &here, range));
    assert_int_equal(flags, abi::access_read_write);
    assert_true(sim.all(range, static_cast<unsigned char>(value++)));
    OK(sim.cu.cuMemUnmap(range, kib64));
    OK(sim.cu.cuMemRelease(each));
  }
  OK(sim.cu.cuMemAddressFree(range, kib64));
}

void test_handles(void **) {
  Sim sim;
  const abi::DevicePointer address = sim.mapped();
  abi::GranuleHandle handle = 0;
  abi::GranuleHandle same = 0;
  OK(sim.cu.cuMemRetainAllocationHandle(&handle, bytes_at(address)));
  OK(sim.cu.cuMemRetainAllocationHandle(&same, bytes_at(address + 100)));
  assert_int_equal(handle, same);
  abi::AllocationProperties p{};
  OK(sim.cu.cuMemGetAllocationPropertiesFromHandle(&p, handle));
  assert_int_equal(p.location.type, abi::location_device);
  OK(sim.cu.cuMemRelease(handle));
  OK(sim.cu.cuMemRelease(handle));
  IS(sim.cu.cuMemRelease(handle), invalid_value);
  int mapped = 0;
  int *const which = &mapped;
  unsigned char is_mapped = 0;
  OK(sim.cu.cuPointerGetAttribute(&is_mapped, abi::pointer_attribute::mapped, address));
  assert_int_equal(is_mapped, 1);
  *which = abi::pointer_attribute::memory_type;
  unsigned type = 9;
  void *values[] = {&type};
  OK(sim.cu.cuPointerGetAttributes(1, which, values, address_of(&type)));
  assert_int_equal(type, 0);  // nothing that the driver knows
  OK(sim.cu.cuPointerGetAttributes(1, which, values, address));
  assert_int_equal(type, abi::memory_device);
  sim.unmapped(address);
}

/// Whether a child that reads the address dies of it.
bool faults(uint64_t address) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    (void)*static_cast<volatile unsigned char *>(bytes_at(address));
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

void test_strict_memory_is_not_the_cpus(void **) {
  Sim sim("mode=strict");
  const abi::DevicePointer mapped = sim.mapped();
  const abi::DevicePointer plain = sim.plain();
  assert_true(faults(mapped));
  assert_true(faults(plain));
  sim.unmapped(mapped);
  assert_true(faults(mapped));
  OK(sim.cu.cuMemFree_v2(plain));
}

void test_alias_memory_is_the_cpus_too(void **) {
  Sim sim("mode=alias");
  const abi::DevicePointer mapped = sim.mapped();
  const abi::DevicePointer plain = sim.plain(1000);
  std::memset(bytes_at(mapped), 3, kib64);
  assert_true(sim.all(mapped, 3));
  OK(sim.cu.cuMemsetD8_v2(plain, 4, 1000));
  assert_int_equal(sim.cu.cuCtxSynchronize(), 0);
  assert_int_equal(bytes_at(plain)[999], 4);
  OK(sim.access(mapped, kib64, 0, abi::access_none));
  assert_true(faults(mapped));
  OK(sim.access(mapped));
  assert_false(faults(mapped));
  sim.unmapped(mapped);
  assert_true(faults(mapped));
  OK(sim.cu.cuMemFree_v2(plain));
}

void test_child_has_no_driver(void **) {
  Sim sim;
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(sim.cu.cuDeviceGetCount(&count) == result::not_initialized ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/// This program again, as `import KIND HANDLE`. Its exit status.
int run_importer(const std::string &kind, const std::string &handle) {
  char path[] = "/proc/self/exe";
  std::string arguments[] = {"import", kind, handle};
  char *argv[] = {path, arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t child = -1;
  assert_int_equal(posix_spawn(&child, path, nullptr, nullptr, argv, environ), 0);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

/// The other side: finds ones in the memory and leaves twos. 0 if all went well.
int import_memory(const std::string &kind, const std::string &text) {
  Sim sim("export_fabric=1");
  abi::GranuleHandle memory = 0;
  if (kind == "fd") {
    void *fd = reinterpret_cast<void *>(static_cast<intptr_t>(std::atoi(text.c_str())));
    OK(sim.cu.cuMemImportFromShareableHandle(&memory, fd, abi::handle_file_descriptor));
  } else {
    abi::FabricHandle fabric{};
    for (size_t i = 0; i < sizeof fabric.data; ++i) {
      fabric.data[i] = static_cast<unsigned char>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
    }
    OK(sim.cu.cuMemImportFromShareableHandle(&memory, &fabric, abi::handle_fabric));
  }
  const abi::DevicePointer range = sim.range();
  OK(sim.cu.cuMemMap(range, kib64, 0, memory, 0));
  OK(sim.access(range));
  const bool right = sim.all(range, 1);
  OK(sim.cu.cuMemsetD8_v2(range, 2, kib64));
  OK(sim.cu.cuCtxSynchronize());
  sim.unmapped(range);
  OK(sim.cu.cuMemRelease(memory));
  return right ? 0 : 1;
}

void test_export_fd(void **) {
  Sim sim;
  const abi::GranuleHandle secret = sim.granule();
  int fd = -1;
  IS(sim.cu.cuMemExportToShareableHandle(&fd, secret, abi::handle_file_descriptor, 0),
     invalid_value);
  OK(sim.cu.cuMemRelease(secret));
  const abi::GranuleHandle memory = sim.granule(kib64, 0, abi::handle_file_descriptor);
  const abi::DevicePointer range = sim.range();
  OK(sim.cu.cuMemMap(range, kib64, 0, memory, 0));
  OK(sim.access(range));
  OK(sim.cu.cuMemsetD8_v2(range, 1, kib64));
  OK(sim.cu.cuCtxSynchronize());
  OK(sim.cu.cuMemExportToShareableHandle(&fd, memory, abi::handle_file_descriptor, 0));
  assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  // The descriptor keeps the memory when nobody here does any more.
  OK(sim.cu.cuMemUnmap(range, kib64));
  OK(sim.cu.cuMemRelease(memory));
  assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
  assert_int_equal(run_importer("fd", std::to_string(fd)), 0);
  abi::GranuleHandle back = 0;
  void *handle = reinterpret_cast<void *>(static_cast<intptr_t>(fd));
  OK(sim.cu.cuMemImportFromShareableHandle(&back, handle, abi::handle_file_descriptor));
  close(fd);
  OK(sim.cu.cuMemMap(range, kib64, 0, back, 0));
  OK(sim.access(range));
  assert_true(sim.all(range, 2));
  sim.unmapped(range);
  OK(sim.cu.cuMemRelease(back));
  handle = reinterpret_cast<void *>(static_cast<intptr_t>(STDIN_FILENO));
  IS(sim.cu.cuMemImportFromShareableHandle(&back, handle, abi::handle_file_descriptor),
     invalid_value);
}

void test_export_fabric(void **) {
  Sim sim("export_fabric=1");
  const abi::GranuleHandle memory = sim.granule(kib64, 0, abi::handle_fabric);
  const abi::DevicePointer range = sim.range();
  OK(sim.cu.cuMemMap(range, kib64, 0, memory, 0));
  OK(sim.access(range));
  OK(sim.cu.cuMemsetD8_v2(range, 1, kib64));
  OK(sim.cu.cuCtxSynchronize());
  abi::FabricHandle fabric{};
  OK(sim.cu.cuMemExportToShareableHandle(&fabric, memory, abi::handle_fabric, 0));
  int fd = -1;
  IS(sim.cu.cuMemExportToShareableHandle(&fd, memory, abi::handle_file_descriptor, 0),
     invalid_value);
  std::string text;
  for (const unsigned char each : fabric.data) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", each);
    text += hex;
  }
  assert_int_equal(run_importer("fabric", text), 0);
  assert_true(sim.all(range, 2));
  sim.unmapped(range);
  OK(sim.cu.cuMemRelease(memory));
  abi::GranuleHandle gone = 0;
  IS(sim.cu.cuMemImportFromShareableHandle(&gone, &fabric, abi::handle_fabric), invalid_value);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 4 && std::strcmp(argv[1], "import") == 0) return import_memory(argv[2], argv[3]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_symbols),
      cmocka_unit_test(test_symbols_of_an_old_driver),
      cmocka_unit_test(test_before_init),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_contexts),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_peers),
      cmocka_unit_test(test_no_peers),
      cmocka_unit_test(test_granules),
      cmocka_unit_test(test_no_vmm),
      cmocka_unit_test(test_mapping),
      cmocka_unit_test(test_contents_survive_remapping),
      cmocka_unit_test(test_handles),
      cmocka_unit_test(test_strict_memory_is_not_the_cpus),
      cmocka_unit_test(test_alias_memory_is_the_cpus_too),
      cmocka_unit_test(test_child_has_no_driver),
      cmocka_unit_test(test_export_fd),
      cmocka_unit_test(test_export_fabric),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
