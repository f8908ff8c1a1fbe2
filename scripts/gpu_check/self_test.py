# SPDX-License-Identifier: Apache-2.0
"""Tests of gpu-check's own parts, with processes that need no driver: python3 -m unittest gpu_check.self_test, in scripts/.

A process that can't be ended is one that a tracer holds: killed, it stays a zombie that nobody can reap while the tracer lives. What hangs
here ends by an alarm if the test dies first.
"""
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import types
import unittest

from gpu_check import machine, pack, report, runner, steps, targets, watch
from gpu_check import tree as trees

HELD = """
import ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
note = struct.pack("8sII", b"weirnote", 512, 2) + b"cuInit".ljust(48, b"\\0") + b"cuMemMap".ljust(48, b"\\0")
note = note.ljust(16 + 128 * 48, b"\\0") + struct.pack("IIQ", os.getpid(), 2, 7)
open(os.environ["WEIR_WATCH_DIR"] + "/" + str(os.getpid()), "wb").write(note.ljust(16 + 128 * 48 + 512 * 16, b"\\0"))
libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # any tracer may
read, write = os.pipe()
held = os.getpid()
if os.fork() == 0:
    os.setsid()
    failed = libc.ptrace(0x4206, held, None, None)  # PTRACE_SEIZE
    os.write(write, b"n" if failed else b"y")
    if not failed:
        signal.alarm(60)
        signal.pause()
    os._exit(0)
if os.read(read, 1) == b"n":
    sys.exit(77)
print("figures until now", flush=True)
signal.alarm(120)
signal.pause()
"""
LEAVES_A_CHILD = """
import os, signal
if os.fork() == 0:
    os.setpgid(0, 0)
    signal.alarm(60)
    signal.pause()
print(os.getpid(), flush=True)
"""


def step(name, code, limit=20.0, **more):
    return runner.Step(name, "cuda", [sys.executable, "-c", code], dict(os.environ), limit, **more)


class Tree:
    about = {"revision": "r", "modified": False, "build_type": "", "built_on": "", "described": "", "abi_tests": ["test_pool"],
             "vulkan_tests": ["test_lease", "test_map"], "vulkan_tests_without_vmm": ["test_lease"]}
    root = pathlib.Path("/nowhere")

    def program(self, name):
        return self.root / "bin" / name

    def driver(self, name):
        return self.root / "lib/drivers" / name

    def script(self, name):
        return self.root / "bench" / name

    def has_backend(self, name):
        return False


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "result.json"
        self.document = report.Document(Tree(), self.path)
        self.seen = []
        self.runner = runner.Runner(0.5, self.tell)

    def tearDown(self):
        for pid in self.runner.left:  # its tracer goes by itself
            for tracer in [line.split()[1] for line in watch.read(f"/proc/{pid}/status").splitlines()
                           if line.startswith("TracerPid")]:
                if int(tracer):
                    os.kill(int(tracer), signal.SIGKILL)
        self.folder.cleanup()

    def tell(self, one, record):
        self.document.add(record)
        self.seen.append([each["step"] for each in json.loads(self.path.read_text())["steps"]])

    def test_a_stuck_process_costs_one_step(self):
        for limit in (1.5, 6.0, 24.0):  # on a busy machine it may not have come so far as to be held
            self.document.records.clear()
            self.runner.run_all([step("before", "print('hello')", device="gpu"), step("held", HELD, limit, device="gpu"),
                                 step("after", "", device="gpu", alone=True), step("without", "", alone=True)],
                                time.monotonic() + 120, 1)
            before, held, after, without = self.document.records
            if held["outcome"] != "timeout" or "figures until now" in held["output_tail"]:
                break
        if held["outcome"] == "skipped":
            self.skipTest("nothing may be traced here")
        self.assertEqual([before["outcome"], held["outcome"], after["outcome"], without["outcome"]],
                         ["passed", "stuck", "not run", "passed"])
        self.assertIn("cuMemMap", held["reason"])
        self.assertEqual(held["stuck"][0]["calls"][0]["number"], 7)
        self.assertIn("figures until now", held["output_tail"])
        self.assertIn("the device is gone", after["reason"])
        self.assertIn("cuMemMap", after["reason"])
        self.assertEqual(self.runner.left, [held["stuck"][0]["pid"]])

    def test_the_file_has_each_step_at_once(self):
        self.runner.run_all([step(name, "") for name in "abc"], time.monotonic() + 60, 1)
        self.assertEqual(self.seen, [["a"], ["a", "b"], ["a", "b", "c"]])
        self.assertFalse(json.loads(self.path.read_text())["complete"])
        self.document.finish()
        self.assertTrue(json.loads(self.path.read_text())["complete"])
        self.assertEqual(os.listdir(self.folder.name), ["result.json"])

    def test_what_a_step_leaves_behind_is_ended(self):
        record = self.runner.run(step("leaves", LEAVES_A_CHILD), time.monotonic() + 60, keep_output=True)
        self.assertEqual(record["outcome"], "passed")
        self.assertEqual([pid for pid, fields in watch.session(int(record["output"])).items() if fields["state"] != "Z"], [])

    def test_time(self):
        record = self.runner.run(step("long", "import signal; signal.alarm(60); signal.pause()", 1.1), time.monotonic() + 60)
        self.assertEqual((record["outcome"], record["exit_code"]), ("timeout", -signal.SIGKILL))
        record = self.runner.run(step("late", ""), time.monotonic() + 0.5)
        self.assertEqual((record["outcome"], record["reason"]), ("not run", "the run's budget was spent"))

    def test_other_ends(self):
        outcomes = [self.runner.run(step("one", code), time.monotonic() + 60)["outcome"]
                    for code in ("", "raise SystemExit(77)", "raise SystemExit(3)", "import os; os.abort()")]
        self.assertEqual(outcomes, ["passed", "skipped", "failed", "failed"])
        missing = runner.Step("missing", "", ["/nowhere/program"], {}, 5)
        self.assertEqual(self.runner.run(missing, time.monotonic() + 60)["reason"], "the program is not in the tree")

    def test_what_can_not_be_read_costs_no_more(self):
        def read(one, output):
            raise ValueError(output)
        record = self.runner.run(step("odd", "print('odd')", read=read), time.monotonic() + 60)
        self.assertIn("odd", record["failures"][0])
        skipped = self.runner.run(step("long", "", skip="takes too long"), time.monotonic() + 60)
        self.assertEqual((skipped["outcome"], skipped["reason"]), ("skipped", "takes too long"))

    def test_a_holder(self):
        holder = runner.Holder(self.runner, step("holder", "print('holds 1 devices', flush=True); input()"))
        self.assertEqual(holder.start()["outcome"], "passed")
        pid = holder.process.pid
        self.assertEqual(holder.stop(), {})
        self.assertIsNone(watch.fields_of(pid))
        self.assertEqual(holder.stop(), {})


class Reading(unittest.TestCase):
    def test_conformance_without_results(self):
        with tempfile.TemporaryDirectory() as folder:
            read = steps.conformance_reader(pathlib.Path(folder))
            found = read(None, "TAP version 13\n1..3\nok 1 - A-1 Good.\nnot ok 2 - A-2 Bad.\n")
            self.assertEqual(found, {"counts": {"told": 2, "told not ok": 1}, "failures": ["A-2 Bad."]})

    def test_figures_that_were_cut_off(self):
        found = steps.read_figures(step("bench", ""), '{"benchmark":"a","ratio":1}\n{"benchmark":"b","rat')
        self.assertEqual([each["benchmark"] for each in found["figures"]], ["a"])

    def test_machine(self):
        self.assertTrue(machine.kernel_is_gvisor("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"))
        self.assertTrue(machine.kernel_is_gvisor("Linux version 4.4.0", "[    0.000000] Starting gVisor..."))
        self.assertFalse(machine.kernel_is_gvisor("Linux version 6.8.0-generic (buildd) #1 SMP", "NVRM: loading"))
        self.assertEqual(machine.xids("a\n[1.0] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\nb"),
                         ["NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."])
        self.assertIsNone(machine.xids(None))
        self.assertFalse(machine.may_be_shared([{"compute_mode": "Exclusive_Process"}]))

    def test_an_old_nvidia_smi(self):
        asked = []

        def run(name, command, limit, device):
            asked.append(command[1])
            if "mig.mode.current" in command[1]:
                return {"outcome": "failed", "output": 'Field "mig.mode.current" is not a valid field to query.\n'}
            return {"outcome": "passed", "output": ", ".join(["x"] * (command[1].count(",") + 1))}

        cards, record = machine.nvidia(run)
        self.assertEqual((len(asked), len(cards), cards[0]["persistence_mode"]), (2, 1, "x"))
        self.assertNotIn("mig.mode.current", cards[0])

    def test_nothing_is_left_out_of_a_pack(self):
        complaints = list(pack.not_built(Tree()))
        for name in ("bin/weir ", "bin/bench_driver", "bin/test_pool", "libweir_watched_cuda.so", "offload_torch.py"):
            self.assertTrue(any(name in line + " " for line in complaints), name)

    def test_what_a_tree_says_of_its_tests(self):
        about = trees.describe(pathlib.Path("/nowhere"))
        for name in ("abi_tests", "vulkan_tests", "vulkan_tests_without_vmm"):
            self.assertIn("test_lease", about[name], name)
            self.assertTrue(all((trees.REPOSITORY / "tests/abi" / (each + ".cpp")).is_file() for each in about["vulkan_tests"]), name)
        self.assertLess(set(about["vulkan_tests_without_vmm"]), set(about["vulkan_tests"]))

    def test_implementations_on_the_cpu_are_no_cards(self):
        def told(**vulkan):
            return {"backends": [{"name": "host", "available": True, "devices": [{"name": "host memory 0"}]},
                                 {"name": "opencl", "available": True, "version": "3.0 (Portable Computing Language, driver 6.0)",
                                  "devices": [{"name": "cpu-zen"}]}, {"name": "vulkan"} | vulkan]}
        tree = types.SimpleNamespace(watched={"vulkan"}, driver=lambda name: pathlib.Path("/nowhere") / name)
        card = told(available=True, version="Vulkan 1.3.2; NVIDIA, 580.1", devices=[{"name": "a card"}])
        found = targets.real_targets(types.SimpleNamespace(watched={"vulkan"}, driver=tree.driver, has_backend=lambda name: False), card)
        self.assertEqual([(one.name, one.real, one.card) for one in found], [("vulkan", True, "gpu")])
        self.assertTrue(found[0].environment["WEIR_VULKAN_LIBRARY"].endswith("libweir_watched_vulkan.so"))
        self.assertIsNone(targets.left_out(card))
        cpu = told(available=True, version="Vulkan 1.3.2; llvmpipe, Mesa 22, on the CPU", devices=[{"name": "llvmpipe"}])
        self.assertEqual(targets.real_targets(tree, cpu), [])
        self.assertIn("llvmpipe", targets.left_out(cpu))
        nothing = told(available=False, reason="the Vulkan loader is not here", devices=[])
        self.assertEqual(targets.real_targets(tree, nothing), [])
        self.assertEqual(targets.left_out(nothing), "the Vulkan loader is not here")
        self.assertIn("not built", targets.left_out({"backends": []}))

    def test_the_most_valuable_comes_first(self):
        tree = types.SimpleNamespace(about=Tree.about, root=Tree.root, program=Tree().program, script=Tree().script,
                                     environment=dict, bare_environment=dict, waivers=lambda backend: backend + ".waivers")
        real = [targets.Target(name, name, True, "a card", "", {}, {}) for name in ("vulkan", "cuda")]
        everything = list(steps.plan(steps.Catalogue(tree, steps.Limits(), "/nowhere"), real, targets.host_target(),
                                     ("bench", "suite", "conformance")))
        self.assertTrue(all(one.device == "gpu" for one in everything[:-1]))
        of_vulkan = [one for one in everything if one.target == "vulkan"]
        self.assertGreater(everything.index(of_vulkan[0]), max(
            i for i, one in enumerate(everything) if one.target == "cuda"))
        self.assertEqual([one.name for one in of_vulkan], [
            "bench vulkan 32M", "bench vulkan 2M", "conformance", "bench vulkan 16x2M", "bench vulkan hits", "bench vulkan wrapped",
            "test_lease", "test_map", "fuzzer"])
        plain = targets.Target("vulkan", "vulkan", True, "a card", "", {}, {}, vmm=False)
        self.assertEqual([one.name for one in steps.plan(steps.Catalogue(tree, steps.Limits(), "/nowhere"), [plain], None, ("suite",))],
                         ["test_lease"])
        self.assertIn("vulkan.waivers", of_vulkan[2].command)
        planned = [one for one in everything if one.target != "vulkan"]
        names = [one.name for one in planned]
        self.assertEqual(names[:3], ["bench micro", "bench transfer 32M", "conformance"])
        self.assertLess(names.index("bench batch_copy=0"), names.index("bench batch_copy=1"))
        self.assertEqual((planned[-1].target, planned[-1].device), ("host", ""))
        self.assertTrue(all(one.device == "gpu" for one in planned[:-1]))
        self.assertTrue(all(callable(one.read) and isinstance(one.skip, str) for one in planned))


if __name__ == "__main__":
    unittest.main()
