// SPDX-License-Identifier: Apache-2.0
//
// Texts that name a device: which of them are one, and what they fit. Which of several is taken is tests/abi/test_find_device.cpp.

#include "core/topology/wish.hpp"

#include <cstring>
#include <string>

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::topology::Offer;
using weir::topology::parse_pci;
using weir::topology::parse_wish;
using weir::topology::Wish;

bool fits(const char *text, const Offer &offer) {
  Wish wish;
  assert_true(parse_wish(text, &wish).ok());
  return wish.fits(offer);
}

Offer card(const char *backend, const char *pci, const char *uuid) {
  return Offer{backend, pci, reinterpret_cast<const uint8_t *>(uuid)};
}

constexpr char no_uuid[17] = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

void an_address_is_what_it_is_however_it_is_written(void **) {
  const Offer at = card("cuda", "000A:17:1f.1", no_uuid);
  for (const char *text : {"000a:17:1f.1", "0000000A:17:1F.1", "a:17:1f.1"})
    assert_true(fits(text, at));
  for (const char *text : {"000a:17:1f", "17:1f.1", "000a:17:1f.0", "000a:18:1f.1", "000b:17:1f.1"})
    assert_false(fits(text, at));
  assert_true(fits("17:00.0", card("cuda", "0000:17:00.0", no_uuid)));
  assert_true(fits("0000:17:00", card("cuda", "0000:17:00.0", no_uuid)));
  assert_false(fits("0000:00:00.0", card("cuda", "", no_uuid)));
  for (const char *text : {"", ":", ".", "::", "17:00", "0:17:00.", ":17:00.0", "0:0:0:0.0",
                           "17:00.g", "100000000:17:00.0", "-1:17:00.0"})
    assert_false(parse_pci(text).has_value());
}

void a_uuid_is_bytes_or_rocms_text(void **) {
  const char bytes[17] = "\x5a\x1c\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd";
  const Offer nvidia = card("cuda", "", bytes);
  for (const char *text :
       {"GPU-5a1c0011-2233-4455-6677-8899aabbccdd", "5A1C00112233445566778899AABBCCDD",
        "mig-5a1c0011-2233-4455-6677-8899aabbccdd"})
    assert_true(fits(text, nvidia));
  assert_false(fits("GPU-5a1c0011-2233-4455-6677-8899aabbccde", nvidia));
  const Offer amd = card("hip", "", "18b3b1fd2C9a7a5b");
  assert_true(fits("GPU-18B3b1fd2c9a7a5b", amd));
  assert_false(fits("GPU-18b3b1fd2c9a7a5c", amd));
  assert_false(fits("00000000000000000000000000000000", card("cuda", "", no_uuid)));
}

void a_driver_on_the_cpu_is_no_gpu(void **) {
  Offer offer = card("vulkan", "", no_uuid);
  assert_true(fits("gpu", offer));
  offer.integrated = true;
  assert_false(fits("gpu", offer));
  assert_false(fits("gpu:0", offer));
  assert_true(fits("vulkan", offer));
  offer.pci_address = "0000:00:02.0";
  assert_true(fits("gpu", offer));
}

void a_kind_is_open_and_a_number_is_not(void **) {
  Wish wish;
  assert_true(parse_wish("gpu", &wish).ok() && wish.open());
  assert_true(parse_wish("level_zero", &wish).ok() && wish.open());
  assert_true(parse_wish("gpu:0", &wish).ok() && !wish.open());
  assert_true(parse_wish("0000:17:00.0", &wish).ok() && !wish.open());
  assert_false(fits("gpu", card("host", "0000:17:00.0", no_uuid)));
  assert_true(fits("gpu", card("somebodys", "", no_uuid)));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_address_is_what_it_is_however_it_is_written),
      cmocka_unit_test(a_uuid_is_bytes_or_rocms_text),
      cmocka_unit_test(a_driver_on_the_cpu_is_no_gpu),
      cmocka_unit_test(a_kind_is_open_and_a_number_is_not),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
