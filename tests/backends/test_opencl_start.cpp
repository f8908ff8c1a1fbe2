// SPDX-License-Identifier: Apache-2.0
//
// Starting the OpenCL backend: which devices it takes, and every way in which it can't start, each with a sentence that
// names what is missing.

#include "tests/backends/opencl_fixture.hpp"

namespace {

using namespace opencl_test;

/// The sentence has all of `words`.
void refused(const char *options, weir_result wanted, std::initializer_list<const char *> words) {
  const Backend backend(options);
  WANT(wanted, backend.result);
  for (const char *word : words) {
    if (backend.reason.find(word) == std::string::npos)
      fail_msg("\"%s\" is not in: %s", word, backend.reason.c_str());
  }
  nothing_is_left();
}

void no_loader(void **) {
  setenv("WEIR_OPENCL_LIBRARY", "/nowhere/libOpenCL.so.1", 1);
  refused("", WEIR_ERROR_NOT_SUPPORTED,
          {"loader is not here", "WEIR_OPENCL_LIBRARY", "/nowhere/libOpenCL.so.1"});
  setenv("WEIR_OPENCL_LIBRARY", "libm.so.6", 1);
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"libm.so.6 has no clGetPlatformIDs", "no OpenCL loader"});
  unsetenv("WEIR_OPENCL_LIBRARY");
  refused("library=/elsewhere/libOpenCL.so.1", WEIR_ERROR_NOT_SUPPORTED,
          {"loader is not here", "/elsewhere/libOpenCL.so.1"});
  {
    const Backend backend(("memory=64M;library=" + shim_path()).c_str());
    OK(backend.result);
  }
  setenv("WEIR_OPENCL_LIBRARY", shim_path().c_str(), 1);
}

void no_platform(void **) {
  assert_int_equal(shim().weir_shim_pretend("platforms=0"), 0);
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"no platform", "/etc/OpenCL/vendors"});
}

void no_device_that_suffices(void **) {
  assert_int_equal(shim().weir_shim_pretend("usm=0;svm=0"), 0);
  refused("", WEIR_ERROR_NOT_SUPPORTED,
          {"no device that suffices", "cl_intel_unified_shared_memory", "SVM"});
  refused("cpu=1", WEIR_ERROR_NOT_SUPPORTED, {"no device that suffices"});
  assert_int_equal(shim().weir_shim_pretend("usm=1;version=1.2"), 0);
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"no OpenCL 2.0"});
  assert_int_equal(shim().weir_shim_pretend("usm=1;functions=0"), 0);
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"cl_intel_unified_shared_memory", "lacks functions"});
}

void bad_options(void **) {
  refused("colour=red", WEIR_ERROR_INVALID_ARGUMENT, {"colour", "known:", "platform"});
  refused("cpu", WEIR_ERROR_INVALID_ARGUMENT, {"cpu", "'='"});
  refused("cpu=2", WEIR_ERROR_INVALID_ARGUMENT, {"cpu=\"2\"", "0 or 1"});
  refused("memory=much", WEIR_ERROR_INVALID_ARGUMENT, {"memory=\"much\""});
  refused("library=", WEIR_ERROR_INVALID_ARGUMENT, {"library=\"\""});
  refused("context=here", WEIR_ERROR_INVALID_ARGUMENT, {"context=\"here\"", "cl_context"});
  refused("platform=-1", WEIR_ERROR_INVALID_ARGUMENT, {"platform=\"-1\""});
  refused("platform=99", WEIR_ERROR_INVALID_ARGUMENT, {"platform=99", "platform"});
}

/// A CPU stands behind a GPU, and is taken where it is asked for or where there is nothing else.
void cpus(void **) {
  uint32_t count = 0;
  {
    const Backend backend;
    OK(backend.result);
    OK(table().device_count(backend.state, &count));
  }
  if (count < 2) {
    print_message("one device only: a CPU beside a GPU is not seen\n");
    return;
  }
  assert_int_equal(shim().weir_shim_pretend("gpu=1"), 0);
  {
    const Backend backend;
    OK(backend.result);
    OK(table().device_count(backend.state, &count));
    assert_int_equal(count, 1);
    assert_true(backend.log.has("it is a CPU (option cpu)"));
  }
  {
    const Backend backend("cpu=1;memory=64M");
    OK(backend.result);
    OK(table().device_count(backend.state, &count));
    assert_int_equal(count, 2);
  }
  // The GPU has nothing that suffices here, nor has the CPU: OpenCL 1.2 is said of both.
  assert_int_equal(shim().weir_shim_pretend("gpu=0;svm=0;usm=0"), 0);
  refused("", WEIR_ERROR_NOT_SUPPORTED, {"no device that suffices"});
}

void what_a_device_says(void **) {
  assert_int_equal(shim().weir_shim_pretend("identity=1;unified=0"), 0);
  Backend backend("memory=48M");
  OK(backend.result);
  weir_be_device device{};
  device.struct_size = sizeof device;
  OK(table().device_describe(backend.state, 0, &device));
  assert_true(device.name[0] != '\0');
  assert_string_equal(device.pci_address, "00ab:10:02.3");
  for (const uint8_t byte : device.uuid) assert_int_equal(byte, 1);
  assert_int_equal(device.memory_total, 48 * MiB);
  assert_int_equal(device.granule, 0);
  assert_int_equal(device.capabilities & WEIR_CAP_INTEGRATED, 0);
  assert_true(table().runtime_version(backend.state)[0] != '\0');
  backend.stop();
  assert_int_equal(shim().weir_shim_pretend(""), 0);
  Backend own;
  own.stop();
  nothing_is_left();
}

/// Whichever call of a start fails, it starts all the same or says why, and leaves nothing.
void any_call_of_a_start_fails(void **) {
  for (const char *kind : {"usm=1", "usm=0"}) {
    for (uint64_t nth = 1;; ++nth) {
      shim().weir_shim_reset();
      assert_int_equal(shim().weir_shim_pretend(kind), 0);
      shim().weir_shim_fail(nullptr, nth, CL_OUT_OF_HOST_MEMORY);
      Backend backend;
      const std::string failed = shim().weir_shim_failed();
      if (backend.result != WEIR_SUCCESS && backend.reason.empty())
        fail_msg("%s failed, and no reason is told", failed.c_str());
      shim().weir_shim_fail(nullptr, 0, 0);
      backend.stop();
      nothing_is_left();
      if (failed.empty()) break;
      assert_true(nth < 1000);
    }
  }
}

}  // namespace

int main(int argc, char **) {
  const int cannot = prepare(argc);
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(no_loader, fresh),
      cmocka_unit_test_setup(no_platform, fresh),
      cmocka_unit_test_setup(no_device_that_suffices, fresh),
      cmocka_unit_test_setup(bad_options, fresh),
      cmocka_unit_test_setup(cpus, fresh),
      cmocka_unit_test_setup(what_a_device_says, fresh),
      cmocka_unit_test_setup(any_call_of_a_start_fails, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
