// SPDX-License-Identifier: Apache-2.0
//
// Measuring links through the C ABI. Where a figure must be right, links of the host backend are so slow that copying takes
// no time beside them: a measured bandwidth can then never be above the link's, and on a busy machine be below it for a
// while, so that is tried again. What needs no such links runs on every backend.

#include <cmath>
#include <cstring>

#include "tests/abi/pool_fixture.hpp"
#include "tests/support/cache_folder.hpp"

namespace {

using namespace weir::test;

constexpr const char *one_device = "host.memory=16M;host.granule=16K;host.granule_large=0";
constexpr const char *three_links =
    "host.devices=2;host.memory=16M;host.link_slowdown=1;"
    "host.links=h-0:pcie:20M:1:1000K,h-1:pcie:40M,0-1:nvlink:160M";

weir_link_info link_of(weir_context context, weir_device from, weir_device to) {
  weir_link_info link = WEIR_LINK_INFO_INIT;
  ok(weir_link_info_get(context, from, to, &link));
  return link;
}

weir_calibrate_report calibrate(weir_context context, uint64_t flags = 0) {
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.flags = flags;
  desc.max_bytes = 8U << 20U;
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  ok(weir_topology_calibrate(context, &desc, &report));
  assert_non_null(report.folder);
  return report;
}

void every_link_is_measured(void **) {
  const CacheFolder folder;
  weir_context context = make_context(one_device);
  uint32_t count = 0;
  ok(weir_device_count(context, &count));
  weir_link_info before = link_of(context, 0, WEIR_DEVICE_HOST);
  assert_int_not_equal(before.source, WEIR_LINK_FIGURE_MEASURED);
  assert_int_equal(before.bandwidth, before.reported_bandwidth);
  const weir_calibrate_report report = calibrate(context);
  assert_true(report.measured >= 2 * count);
  assert_int_equal(report.failed, 0);
  assert_int_equal(report.skipped, 0);
  assert_int_equal(report.saved, 1);
  assert_string_equal(report.folder, folder.path().c_str());
  assert_true(report.elapsed_ns > 0);
  for (const auto &[from, to] :
       {std::pair{0U, WEIR_DEVICE_HOST}, std::pair{WEIR_DEVICE_HOST, 0U}}) {
    const weir_link_info link = link_of(context, from, to);
    assert_int_equal(link.source, WEIR_LINK_FIGURE_MEASURED);
    assert_true(link.bandwidth > 0 && link.latency_ns > 0);
    assert_int_equal(link.kind, before.kind);
    assert_int_equal(link.direct, 1);
    assert_int_equal(link.reported_bandwidth, before.reported_bandwidth);
    assert_int_equal(link.reported_source, before.reported_source);
  }
  ok(weir_context_destroy(context));
}

/// How far the measured is from the modelled; never above, so between 0 and 1.
double share(weir_context context, weir_device from, weir_device to, double modelled) {
  const weir_link_info link = link_of(context, from, to);
  assert_int_equal(link.source, WEIR_LINK_FIGURE_MEASURED);
  assert_int_equal(link.reported_source, WEIR_LINK_FIGURE_BACKEND);
  assert_true(std::fabs(static_cast<double>(link.reported_bandwidth) - modelled) < 1);
  const double result = static_cast<double>(link.bandwidth) / modelled;
  assert_true(result <= 1.0001);
  return result;
}

void figures_are_those_of_the_links(void **) {
  const CacheFolder folder;
  weir_context context = make_context(three_links);
  constexpr weir_device host = WEIR_DEVICE_HOST;
  double worst = 0;
  for (int attempt = 0; attempt < 20 && worst < 0.75; ++attempt) {
    const weir_calibrate_report report = calibrate(context, WEIR_CALIBRATE_NO_CACHE);
    assert_int_equal(report.measured, 6);
    assert_int_equal(report.failed + report.skipped + report.saved, 0);
    worst = 1;
    for (const auto &[a, b, modelled] :
         {std::tuple{0U, host, 20e6}, std::tuple{1U, host, 40e6}, std::tuple{0U, 1U, 160e6}})
      worst = std::min({worst, share(context, a, b, modelled), share(context, b, a, modelled)});
    // A latency can only be too long.
    assert_true(link_of(context, 0, host).latency_ns >= 1'000'000);
    assert_true(link_of(context, host, 0).latency_ns >= 1'000'000);
  }
  if (worst < 0.75) fail_msg("the worst link has %.2f of its bandwidth", worst);
  assert_int_equal(folder.files().size(), 0);
  ok(weir_context_destroy(context));
}

std::string exported(weir_context context) {
  size_t needed = 0;
  ok(weir_topology_export(context, WEIR_TOPOLOGY_JSON, nullptr, 0, &needed));
  std::string text(needed, '\0');
  ok(weir_topology_export(context, WEIR_TOPOLOGY_JSON, text.data(), text.size(), nullptr));
  return text;
}

bool measured_in(const std::string &text) {
  return text.find("\"source\": \"measured\"") != std::string::npos;
}

/// Before the machine was looked at, and after.
void exports_have_the_figures(void **) {
  const CacheFolder folder;
  for (const bool early : {false, true}) {
    weir_context context = make_context(one_device);
    if (early) assert_false(measured_in(exported(context)));
    (void)calibrate(context, WEIR_CALIBRATE_NO_CACHE);
    assert_true(measured_in(exported(context)));
    ok(weir_context_destroy(context));
  }
}

uint32_t source_with(const std::string &options) {
  weir_context context = make_context(options.c_str());
  const weir_link_info link = link_of(context, 0, WEIR_DEVICE_HOST);
  ok(weir_context_destroy(context));
  return link.source;
}

void later_contexts_have_the_figures(void **) {
  const CacheFolder folder;
  weir_context context = make_context(three_links);
  assert_int_equal(calibrate(context).saved, 1);
  const weir_link_info link = link_of(context, 1, 0);
  ok(weir_context_destroy(context));
  assert_int_equal(folder.files().size(), 1);
  context = make_context(three_links);
  const weir_link_info later = link_of(context, 1, 0);
  assert_int_equal(later.source, WEIR_LINK_FIGURE_MEASURED);
  assert_int_equal(later.bandwidth, link.bandwidth);
  assert_int_equal(later.latency_ns, link.latency_ns);
  assert_int_equal(later.reported_bandwidth, 160'000'000);
  assert_true(measured_in(exported(context)));
  ok(weir_context_destroy(context));
  // Devices that may be others, and contexts that want none of it.
  const std::string options = three_links;
  assert_int_equal(source_with(options + ";host.memory=32M"), WEIR_LINK_FIGURE_BACKEND);
  assert_int_equal(source_with(options + ";topology.cache=0"), WEIR_LINK_FIGURE_BACKEND);
  assert_int_equal(source_with(options + ";topology.cache=1"), WEIR_LINK_FIGURE_MEASURED);
  const CacheFolder another;
  assert_int_equal(source_with(options), WEIR_LINK_FIGURE_BACKEND);
}

void without_a_cache_nothing_is_saved(void **) {
  const CacheFolder folder;
  for (const char *more : {";topology.cache=0", ";topology.rehearse=1"}) {
    std::string options = "host.memory=16M" + std::string(more);
    const std::string path = folder.path() + "-machine.xml";
    if (std::strstr(more, "rehearse") != nullptr) {
      put(path, R"(<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
<object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1073741824"/>
<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
<object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0000:[17-17]"><object type="PCIDev" gp_index="9" pci_busid="0000:17:00.0" pci_type="0302 [10de:2330] [10de:16c0] a1" pci_link_speed="63.0"><object type="OSDev" gp_index="10" name="cuda0" osdev_type="5"><info name="GPUModel" value="One"/></object></object></object>
</object></topology>
)");
      options += ";topology.xml=" + path;
    }
    weir_context context = make_context(options.c_str());
    const weir_calibrate_report report = calibrate(context);
    assert_int_equal(report.measured, 2);
    assert_int_equal(report.saved, 0);
    assert_string_equal(report.folder, "");
    assert_int_equal(link_of(context, 0, WEIR_DEVICE_HOST).source, WEIR_LINK_FIGURE_MEASURED);
    ok(weir_context_destroy(context));
    unlink(path.c_str());
  }
  assert_int_equal(folder.files().size(), 0);
}

/// Where it cannot be saved the figures count all the same, and the report is there.
void an_unwritable_folder_is_told(void **) {
  const CacheFolder folder;
  const std::string file = folder.path() + "/file";
  put(file, "");
  CacheFolder::use(file + "/below");
  weir_context context = make_context(one_device);
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  expect_result(WEIR_ERROR_IO, weir_topology_calibrate(context, nullptr, &report));
  assert_non_null(std::strstr(weir_last_error(), file.c_str()));
  assert_true(last_error().native_code != 0);
  assert_true(report.measured >= 2);
  assert_int_equal(report.saved, 0);
  assert_string_equal(report.folder, (file + "/below").c_str());
  assert_int_equal(link_of(context, 0, WEIR_DEVICE_HOST).source, WEIR_LINK_FIGURE_MEASURED);
  ok(weir_context_destroy(context));
}

struct Lines {
  std::vector<std::string> warnings;
  static void take(void *user, int32_t level, const char *text) {
    if (level <= WEIR_LOG_WARNING) static_cast<Lines *>(user)->warnings.emplace_back(text);
  }
};

void a_broken_file_is_one_warning(void **) {
  const CacheFolder folder;
  weir_context context = make_context(three_links);
  (void)calibrate(context);
  ok(weir_context_destroy(context));
  const std::string path = folder.files().at(0);
  put(path, contents_of(path).substr(0, 40));
  Lines lines;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = three_links;
  desc.log = Lines::take;
  desc.log_user = &lines;
  ok(weir_context_create(&desc, &context));
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(link_of(context, 0, 1).source, WEIR_LINK_FIGURE_BACKEND);
    assert_false(measured_in(exported(context)));
  }
  assert_int_equal(lines.warnings.size(), 1);
  assert_non_null(std::strstr(lines.warnings[0].c_str(), path.c_str()));
  // Measuring makes it whole.
  assert_int_equal(calibrate(context).saved, 1);
  ok(weir_context_destroy(context));
  assert_int_equal(source_with(three_links), WEIR_LINK_FIGURE_MEASURED);
}

void devices_without_a_way_are_left_out(void **) {
  const CacheFolder folder;
  weir_context context = make_context("host.devices=2;host.memory=16M;host.peer=0");
  assert_int_equal(calibrate(context).measured, 4);
  assert_int_not_equal(link_of(context, 0, 1).source, WEIR_LINK_FIGURE_MEASURED);
  ok(weir_context_destroy(context));
  context = make_context("host.devices=2;host.memory=16M;host.links=0-1:pcie:5G:3:0:staged");
  assert_int_equal(calibrate(context).measured, 4);
  ok(weir_context_destroy(context));
}

void time_that_is_up_leaves_links_as_they_are(void **) {
  const CacheFolder folder;
  weir_context context = make_context(three_links);
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.max_ns = 1;
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  ok(weir_topology_calibrate(context, &desc, &report));
  assert_int_equal(report.measured + report.skipped, 6);
  assert_true(report.skipped >= 4);
  assert_int_equal(link_of(context, 1, 0).source, WEIR_LINK_FIGURE_BACKEND);
  ok(weir_context_destroy(context));
}

/// A device with little left: smaller copies do.
void a_full_device_is_measured_with_what_is_left(void **) {
  const CacheFolder folder;
  weir_context context = make_context("host.memory=256K;host.granule=16K;host.granule_large=0");
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  ok(weir_topology_calibrate(context, nullptr, &report));
  assert_int_equal(report.measured, 2);
  assert_int_equal(report.failed, 0);
  ok(weir_context_destroy(context));
}

void wrong_descriptors_are_refused(void **) {
  const CacheFolder folder;
  weir_context context = make_context(one_device);
  const auto refused = [&](const weir_calibrate_desc &desc, const char *word) {
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_topology_calibrate(context, &desc, nullptr));
    if (std::strstr(weir_last_error(), word) == nullptr)
      fail_msg("\"%s\" does not say %s", weir_last_error(), word);
  };
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.flags = 2;
  refused(desc, "0x2");
  desc = WEIR_CALIBRATE_DESC_INIT;
  desc.reserved = 7;
  refused(desc, "7");
  desc = WEIR_CALIBRATE_DESC_INIT;
  desc.max_bytes = 131071;
  refused(desc, "131071");
  desc = WEIR_CALIBRATE_DESC_INIT;
  desc.struct_size = 0;
  refused(desc, "struct_size");
  weir_calibrate_report report{};
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_topology_calibrate(context, nullptr, &report));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_topology_calibrate(nullptr, nullptr, nullptr));
  assert_int_not_equal(link_of(context, 0, WEIR_DEVICE_HOST).source, WEIR_LINK_FIGURE_MEASURED);
  assert_int_equal(folder.files().size(), 0);
  ok(weir_context_destroy(context));
}

}  // namespace

int main() {
  const CMUnitTest everywhere[] = {
      cmocka_unit_test(every_link_is_measured),
      cmocka_unit_test(exports_have_the_figures),
      cmocka_unit_test(an_unwritable_folder_is_told),
      cmocka_unit_test(wrong_descriptors_are_refused),
  };
  const CMUnitTest modelled[] = {
      cmocka_unit_test(figures_are_those_of_the_links),
      cmocka_unit_test(later_contexts_have_the_figures),
      cmocka_unit_test(without_a_cache_nothing_is_saved),
      cmocka_unit_test(a_broken_file_is_one_warning),
      cmocka_unit_test(devices_without_a_way_are_left_out),
      cmocka_unit_test(time_that_is_up_leaves_links_as_they_are),
      cmocka_unit_test(a_full_device_is_measured_with_what_is_left),
  };
  int failed = cmocka_run_group_tests_name("measuring links", everywhere, nullptr, nullptr);
  if (Target::get().host())
    failed += cmocka_run_group_tests_name("measuring modelled links", modelled, nullptr, nullptr);
  return failed;
}
