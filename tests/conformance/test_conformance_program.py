#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the program weir-conformance tells what it found: on the host backend, and on tests/conformance/faulty_backend.cpp, of
which WEIR_FAULTY chooses the faults. Every run is of a few requirements. Which faults the suite finds is the mutants' matter.
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = pathlib.Path(os.environ["WEIR_BIN_DIR"]) / "weir-conformance"
FAULTY = pathlib.Path(os.environ["WEIR_LIB_DIR"]) / "conformance/libweir_backend_faulty.so"
OPTIONS = "memory=64M;granule=64K;granule_large=0;devices=2"
LARGE = "memory=2G;granule=64K;granule_large=0;devices=2"  # more than is filled without --allow-oom
LINE = re.compile(r"^(ok|not ok) (\d+) - ([A-Z]{2}-\d{3})( \[\d+\])? [^#]*(?:# (.*))?$")


class Done:
    """What a run said and how it ended."""

    def __init__(self, command, faults, folder, **how):
        environment = dict(os.environ, WEIR_FAULTY=faults)
        done = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", check=False, **how)
        self.status, self.said, self.complained = done.returncode, done.stdout, done.stderr
        self.lines = self.said.splitlines()
        self.results = [LINE.match(line).groups() for line in self.lines if LINE.match(line)]

    def comments(self, key):
        """The values of "# key: value"."""
        return [line[len(key) + 4:] for line in self.lines if line.startswith(f"# {key}: ")]

    def line_of(self, requirement):
        return next(line for line in self.lines if f" - {requirement} " in line)


class Program(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="weir-conformance-")
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def run_suite(self, *arguments, faults="", options=OPTIONS):
        return Done([PROGRAM, FAULTY, "--options", options, "--jobs", "2", *arguments], faults, self.folder)

    def bundle(self, name="bundle"):
        folder = self.folder / name
        results = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
        return json.loads((folder / "submission.json").read_text(encoding="utf-8")), {each["id"]: each for each in results}

    # ---- verdicts

    def test_empty(self):
        """What applied and found nothing to look at is no pass, and no failure either."""
        done = self.run_suite("--filter", "RT-001,RT-017,ST-017", "--bundle", "bundle", "--junit", "junit.xml")
        self.assertEqual(done.status, 0)
        self.assertEqual([(kind, name) for kind, _, name, _, _ in done.results],
                         [("ok", "RT-001"), ("ok", "RT-017"), ("ok", "ST-017")])
        self.assertTrue(done.line_of("RT-017").endswith(" # SKIP empty: no runtime that has such a state"))
        self.assertIn("# 1 pass, 2 empty", done.lines)
        self.assertEqual(done.comments("empty"), ["RT-017, ST-017"])
        submission, results = self.bundle()
        self.assertEqual((submission["count_pass"], submission["count_empty"], submission["count_advised"]), (1, 2, 0))
        self.assertEqual(results["ST-017"]["verdict"], "empty")
        self.assertEqual(results["ST-017"]["message"], "streams cannot record graphs here")
        suite = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()
        self.assertEqual((suite.get("tests"), suite.get("skipped"), suite.get("failures")), ("3", "2", "0"))
        self.assertEqual(suite.findall("testcase")[1].find("skipped").get("message"), "empty: no runtime that has such a state")

    def test_devices_too_large_to_fill_are_empty(self):
        done = self.run_suite("--filter", "FA-001,FA-002,FA-005,FA-006,FA-009", options=LARGE)
        self.assertEqual(done.status, 0)
        self.assertEqual(done.comments("empty"), ["FA-005, FA-006, FA-009"])
        self.assertIn("--allow-oom would", done.line_of("FA-006"))
        done = self.run_suite("--filter", "FA-005,FA-006,FA-009")
        self.assertIn("# 3 pass", done.lines)

    def test_walks_that_find_nothing_are_empty(self):
        """Over shapes, devices, and pairs of devices."""
        done = self.run_suite("--filter", "ST-024,VM-045", options="memory=4M;granule=64K;granule_large=0;devices=2")
        self.assertEqual(done.comments("empty"), ["VM-045, ST-024"])
        self.assertTrue(done.line_of("VM-045").endswith(" # SKIP empty: device 0: it is too small; device 1: it is too small"))
        self.assertTrue(done.line_of("ST-024").endswith(" # SKIP empty: there was nothing of the kind to look at"))
        pairs = "PE-011,PE-012,PE-013,PE-014,PE-021,PE-022,PE-023,PE-024,PE-026,PE-027,PE-028"
        done = self.run_suite("--filter", pairs, faults="direct")
        self.assertEqual((done.status, done.comments("empty")), (0, [pairs.replace(",", ", ")]))
        done = self.run_suite("--filter", pairs)
        self.assertIn("# 11 pass", done.lines)

    def test_advised(self):
        """What is advised and not kept is told and counted, and fails no run."""
        for faults, requirement in (("hops", "DV-024"), ("kinds", "DV-024"), ("direct", "DV-024"), ("uuid_of_process", "DV-026"),
                                    ("signals", "RT-028")):
            with self.subTest(faults):
                done = self.run_suite("--filter", f"RT-001,{requirement}", "--bundle", faults, "--junit", "junit.xml", faults=faults)
                self.assertEqual(done.status, 0)
                self.assertRegex(done.line_of(requirement), r"^not ok 2 - .* # TODO advised: group_.*\.cpp:\d+: ")
                self.assertIn("# 1 pass, 1 advised but not kept", done.lines)
                self.assertEqual(done.comments("advised, not kept"), [requirement])
                self.assertEqual(done.comments("failed"), [])
                self.assertEqual(len(done.comments("again")), 1)
                submission, results = self.bundle(faults)
                self.assertEqual((submission["count_advised"], submission["count_fail"]), (1, 0))
                self.assertEqual((results[requirement]["verdict"], results[requirement]["level"]), ("advised", "advised"))
                suite = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()
                self.assertEqual((suite.get("skipped"), suite.get("failures")), ("1", "0"))

    def test_advised_is_kept(self):
        done = self.run_suite("--filter", "RT-028,DV-024,DV-025,DV-026")
        self.assertEqual(done.status, 0)
        self.assertIn("# 4 pass", done.lines)

    def test_advised_that_crashes_or_hangs(self):
        """A crash and a timeout fail the run, whatever the level."""
        done = self.run_suite("--filter", "RT-028", faults="dies")
        self.assertEqual((done.status, done.comments("crashed")), (1, ["RT-028"]))
        done = self.run_suite("--filter", "RT-028", "--timeout", "5", faults="hangs")
        self.assertEqual((done.status, done.comments("timed out")), (1, ["RT-028"]))

    def test_uuid_of_a_state(self):
        done = self.run_suite("--filter", "DV-025", faults="uuid_of_state")
        self.assertEqual((done.status, done.comments("failed")), (1, ["DV-025"]))
        done = self.run_suite("--filter", "DV-005,DV-025,DV-026", faults="no_uuid")
        self.assertEqual((done.status, done.comments("empty")), (0, ["DV-005, DV-025, DV-026"]))

    # ---- what is said of a failure

    def test_notes_and_complaints_of_a_failure(self):
        done = self.run_suite("--filter", "FA-002", faults="oom,free", options=LARGE)
        self.assertEqual(done.status, 1)
        told = done.said[done.said.index("# fail: "):]
        self.assertRegex(told, r"^# fail: group_faults\.cpp:\d+: plain_allocate\(.*\) = BACKEND \(native .*\), wanted DEVICE_OOM\n")
        self.assertRegex(told, r"\n# and when taken down: .*plain_free\(.*\) = BACKEND")
        self.assertIn("\n# note: the device is not filled; --allow-oom would\n", told)
        self.assertIn('\n# faulty: frees <"nothing">\n', told)

    def test_the_list_at_the_end(self):
        """All that did not pass, by verdict, behind the counts, and what took longest."""
        done = self.run_suite("--filter", "RT-001,RT-002,RT-017,PL-009,ST-00[12]", faults="dies,oom")
        self.assertEqual(done.status, 1)
        self.assertEqual(done.comments("crashed"), ["ST-001, ST-002"])
        self.assertEqual(done.comments("failed"), ["PL-009"])
        self.assertEqual(done.comments("empty"), ["RT-017"])
        counts = next(i for i, line in enumerate(done.lines) if re.match(r"# \d+ pass, ", line))
        self.assertGreater(done.lines.index("# crashed: ST-001, ST-002"), counts)
        slowest = done.comments("slowest")[0]
        self.assertEqual(len(re.findall(r"[A-Z]{2}-\d{3} \d+\.\d{3} s", slowest)), 5)
        self.assertEqual(done.lines[-1], f"# slowest: {slowest}")

    def test_timeouts_are_listed(self):
        done = self.run_suite("--filter", "FE-001", "--timeout", "5", faults="hangs")
        self.assertEqual((done.status, done.comments("timed out")), (1, ["FE-001"]))

    def test_again(self):
        """The line says how to have the same once more, from the same folder and in any shell."""
        self.folder.joinpath("a b.so").symlink_to(FAULTY)
        done = Done([PROGRAM, "a b.so", "--options", OPTIONS, "--device", "1", "--seed", "7", "--allow-oom", "--filter", "PL-001"],
                    "free", self.folder)
        self.assertEqual(done.status, 1)
        self.assertEqual(done.comments("again"), [f'{PROGRAM} "./a b.so" --device 1 --options "{OPTIONS}" --seed 7 --allow-oom --run-one PL-001'])
        pasted = Done(done.comments("again")[0], "free", self.folder, shell=True)
        self.assertEqual(pasted.status, 1)
        self.assertRegex(pasted.said, r"^PL-001 .*\nfail: when taken down: ")
        mended = Done(done.comments("again")[0], "", self.folder, shell=True)
        self.assertEqual((mended.status, mended.said.splitlines()[1]), (0, "pass"))

    def test_run_one(self):
        advised = self.run_suite("--run-one", "DV-024", faults="hops")
        self.assertEqual(advised.status, 1)
        self.assertIn("\nadvised, not kept: ", advised.said)
        empty = self.run_suite("--run-one", "RT-017")
        self.assertEqual((empty.status, empty.said.splitlines()[1]), (0, "empty: no runtime that has such a state"))
        unknown = self.run_suite("--run-one", "VM-999")
        self.assertEqual((unknown.status, unknown.complained), (2, "weir-conformance: there is no requirement VM-999\n"))

    def test_junit_has_what_was_printed(self):
        done = self.run_suite("--filter", "PL-001,RT-001", "--junit", "junit.xml", faults="free")
        self.assertEqual(done.status, 1)
        suite = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()
        right, wrong = suite.findall("testcase")
        self.assertIsNone(right.find("system-out"))
        self.assertTrue(wrong.find("failure").get("message").startswith("when taken down: "))
        printed = wrong.find("system-out").text
        self.assertIn('faulty: frees <"nothing">\n', printed)
        self.assertIn(f"again: {done.comments('again')[0]}\n", printed)

    # ---- how a run was asked for

    def test_order(self):
        done = self.run_suite("--filter", "RT-001,FE-003,FE-004", "--order", "2")
        self.assertEqual(done.status, 0)
        self.assertIn("# order: 2 of 2 requirements that hold a stream up applied", done.lines)
        done = self.run_suite("--filter", "RT-001,FE-003,FE-004", "--order", "3")
        self.assertEqual(done.status, 1)
        self.assertIn("# failed: fewer than 3 of them, which --order asks for", done.lines)

    def test_settings_are_told(self):
        done = self.run_suite("--filter", "RT-001,-RT-002", "--seed", "9", "--device", "1", "--timeout", "50", "--junit", "junit.xml")
        said = {"device-index": "1", "options": OPTIONS, "filter": "RT-001,-RT-002", "seed": "9", "timeout": "50", "jobs": "2",
                "allow-oom": "no"}
        first = next(i for i, line in enumerate(done.lines) if line.startswith("ok 1 "))
        for key, value in said.items():
            self.assertEqual(done.comments(key), [value])
            self.assertLess(done.lines.index(f"# {key}: {value}"), first)
        suite = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()
        properties = {each.get("name"): each.get("value") for each in suite.find("properties")}
        self.assertEqual(properties | said, properties)
        self.assertEqual(properties["backend"], "host")

    def test_filters(self):
        done = self.run_suite("--filter", "RT-00[12],-RT-002")
        self.assertEqual([name for _, _, name, _, _ in done.results], ["RT-001"])
        done = self.run_suite("--filter", "RT-001,VX-*,-VY-*", "--bundle", "bundle")
        self.assertEqual((done.status, done.said),
                         (2, "Bail out! --filter: VX-* matches no requirement; --filter: -VY-* matches no requirement\n"))
        self.assertFalse((self.folder / "bundle").exists())
        done = self.run_suite("--filter", "RT-001,-RT-*")
        self.assertEqual((done.status, done.said), (2, "Bail out! --filter: RT-001,-RT-* leaves no requirement\n"))

    def test_waivers(self):
        """Mistyped ones are told apart from those that were not needed."""
        day = "2999-01-01"
        self.folder.joinpath("waivers").write_text("".join(
            f"host | * | {test} | X-1 | {last} | why\n"
            for test, last in (("VX-*", day), ("RT-001", day), ("PL-001", day), ("RT-*", "2020-01-01"), ("VY-1", "2020-01-01"))),
            encoding="utf-8")
        done = self.run_suite("--filter", "RT-001,PL-001", "--waivers", "waivers", "--bundle", "bundle", faults="free")
        self.assertEqual(done.status, 0)
        self.assertTrue(done.line_of("PL-001").endswith(f" # TODO waived: X-1: why (until {day})"))
        self.assertEqual([line for line in done.lines if line.startswith("# waiver ")],
                         ["# waiver of line 1 (VX-*, X-1) is mistyped: VX-* matches no requirement",
                          "# waiver of line 2 (RT-001, X-1) was not needed",
                          "# waiver of line 4 (RT-*, X-1) is ignored: it expired on 2020-01-01",
                          "# waiver of line 5 (VY-1, X-1) is mistyped: VY-1 matches no requirement"])
        self.assertEqual(done.comments("waived"), ["PL-001"])
        self.assertEqual((self.folder / "bundle/results.tap").read_text(encoding="utf-8"), done.said)

    # ---- all devices

    def test_all_devices(self):
        done = self.run_suite("--all-devices", "--filter", "RT-001,PL-001", "--bundle", "bundle", "--junit", "junit.xml",
                              faults="second")
        self.assertEqual(done.status, 1)
        self.assertEqual([each[:4] for each in done.results],
                         [("ok", "1", "RT-001", " [0]"), ("ok", "2", "PL-001", " [0]"), ("ok", "3", "RT-001", " [1]"),
                          ("not ok", "4", "PL-001", " [1]")])
        self.assertIn("1..4", done.lines)
        self.assertEqual(done.comments("device"), ["host memory 0", "host memory 1"])
        self.assertEqual(done.comments("device-index"), ["0", "1"])
        self.assertEqual((done.comments("device 0"), done.comments("device 1"), done.comments("all devices")),
                         (["2 pass"], ["1 pass, 1 fail"], ["3 pass, 1 fail"]))
        self.assertEqual(done.comments("failed"), ["PL-001 [1]"] * 2)  # of the device, and of all
        self.assertIn("--device 1 ", done.comments("again")[0])
        for device, verdict in ((0, "pass"), (1, "fail")):
            submission, results = self.bundle(f"bundle/device-{device}")
            self.assertEqual((submission["device_index"], submission["all_devices"]), (device, True))
            self.assertEqual(submission["said_device"], f"host memory {device}")
            self.assertEqual((results["PL-001"]["device_index"], results["PL-001"]["verdict"]), (device, verdict))
            tap = (self.folder / f"bundle/device-{device}/results.tap").read_text(encoding="utf-8")
            self.assertTrue(tap.startswith("TAP version 13\n1..2\n") and f"ok 1 - RT-001 [{device}] " in tap)
        suites = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()
        self.assertEqual(suites.tag, "testsuites")
        self.assertEqual([(each.get("tests"), each.get("failures")) for each in suites], [("2", "0"), ("2", "1")])
        self.assertEqual([each.get("classname") for each in suites.iter("testcase")],
                         ["runtime [0]", "plain memory [0]", "runtime [1]", "plain memory [1]"])

    def test_all_devices_of_one(self):
        done = self.run_suite("--all-devices", "--filter", "RT-001", options="memory=64M;devices=1")
        self.assertEqual((done.status, [each[3] for each in done.results]), (0, [" [0]"]))

    def test_one_device_is_told_as_ever(self):
        done = self.run_suite("--filter", "RT-001,PL-001", "--bundle", "bundle")
        self.assertEqual((done.status, [each[3] for each in done.results]), (0, [None, None]))
        self.assertEqual((self.folder / "bundle/results.tap").read_text(encoding="utf-8"), done.said)
        self.assertEqual(sorted(each.name for each in (self.folder / "bundle").iterdir()),
                         ["log.txt", "results.jsonl", "results.tap", "submission.json"])

    def test_arguments_that_exclude_each_other(self):
        for others in (("--device", "0"), ("--run-one", "RT-001")):
            done = self.run_suite("--all-devices", *others)
            self.assertEqual(done.status, 2)
            self.assertTrue(done.complained.startswith(f"weir-conformance: --all-devices and {others[0]} exclude each other: "))


if __name__ == "__main__":
    unittest.main()
