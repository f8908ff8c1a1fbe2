# SPDX-License-Identifier: Apache-2.0
"""What is run, and in which order: where the time or the device ends early, what was worth most has been done. So measures
come before the long checks, and what may hang a driver (many small copies in one batch, managed memory) comes last."""
import collections
import dataclasses
import fnmatch
import json
import pathlib
import re

from gpu_check.runner import Step

# Full and damaged file systems, in sizes of the host's pages: nothing of them is a device's.
ABOUT_FILES = ("test_spill_failures",)
# Whole scans, page by page, in every order: with pages of 2 MiB that are filled by copies they take minutes.
LONG = ("test_prefetch",)
COUNTS = re.compile(r"\[\s*(PASSED|FAILED|SKIPPED)\s*\]\s*(\d+) test")
TAP = re.compile(r"^(not ok|ok) \d+ (?:- )?(.*)$", re.MULTILINE)


@dataclasses.dataclass
class Limits:
    """Seconds of each kind of step, and the sizes it works at."""
    conformance: float = 120
    conformance_jobs: int = 6
    conformance_each: int = 30  # of one requirement
    test: float = 60
    sweep: float = 90
    bench: float = 60
    fuzz_seconds: int = 20
    fault_every: int = 7
    size: str = "1G"
    pages: tuple = ("32M", "2M", "8M")
    run_pages: int = 16  # of 2 MiB in one buffer
    micro: tuple = ()
    bench_sizes: tuple = ()
    vulkan_size: str = "1G"
    vulkan_sizes: tuple = ()
    vulkan_requirements: str = ""  # of the conformance suite; "": all
    torch_sizes: tuple = ()
    offload_sizes: tuple = ()


SIMULATED = {"size": "64M", "pages": ("2M", "4M"), "micro": ("--repetitions", "3", "--kernel-ms", "2"),
             "bench_sizes": ("--repetitions", "2", "--allocation-max", "1M", "--allocation-pairs", "2000"),
             "vulkan_size": "256M", "vulkan_sizes": ("--repetitions", "2")}
# A Vulkan driver on the CPU takes a minute and a half for the whole suite.
QUICK = {"fuzz_seconds": 3, "fault_every": 97, "vulkan_requirements": "DV-*,PM-*,PL-*,CP-*,FE-*"}


# ---- reading what steps print ----

def read_tests(step, output):
    counts = {kind.lower(): int(number) for kind, number in COUNTS.findall(output)}
    return {"counts": counts} if counts else {}


def read_figures(step, output):
    """Lines of JSON that name a benchmark."""
    figures = []
    for line in output.splitlines():
        if line.startswith('{"benchmark"'):
            try:
                figures.append({"target": step.target, "step": step.name} | json.loads(line))
            except ValueError:
                pass  # cut off when its time was over
    return {"figures": figures}


def conformance_reader(bundle):
    def read(step, output):
        """The results, or, where the suite did not come to write them, what it had told until then."""
        results = bundle / "results.jsonl"
        if results.is_file():
            lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
            bad = [f"{line['id']} {line['verdict']}: {line['message']}" for line in lines
                   if line["verdict"] in ("fail", "crash", "timeout")]
            counts = dict(collections.Counter(line["verdict"] for line in lines))
        else:
            told = TAP.findall(output)
            bad = [what for outcome, what in told if outcome == "not ok" and "# TODO" not in what]
            counts = {"told": len(told), "told not ok": len(bad)}
        return {"counts": counts} | ({"failures": bad} if bad else {})
    return read


# ---- the steps ----

class Catalogue:
    """Makes the steps of one run."""

    def __init__(self, tree, limits, folder, shared=True):
        self.tree, self.limits, self.folder = tree, limits, pathlib.Path(folder)
        self.jobs = limits.conformance_jobs if shared else 1

    def conformance(self, target):
        plugin = self.tree.root / f"lib/weir/1/libweir_backend_{target.backend}.so"
        bundle = self.folder / target.name.replace(" ", "_")
        command = [str(self.tree.program("weir-conformance")), str(plugin), "--jobs", str(self.jobs), "--timeout",
                   str(self.limits.conformance_each), "--bundle", str(bundle)]
        if target.options:
            command += ["--options", target.options]
        if target.backend == "vulkan":
            command += ["--waivers", str(self.tree.waivers("vulkan"))]
            if self.limits.vulkan_requirements:
                command += ["--filter", self.limits.vulkan_requirements]
        yield Step("conformance", target.name, command, self.tree.environment(target.environment),
                   self.limits.conformance, device=target.card, read=conformance_reader(bundle))

    def test(self, name, target, program, limit, *arguments, **extra):
        mode = {} if target.real else {"WEIR_TEST_MODE": extra.pop("mode", "strict")}
        extra.pop("mode", None)
        return Step(name, target.name, [str(self.tree.program(program)), *arguments],
                    self.tree.environment(target.testing | mode | extra), limit, device=target.card, read=read_tests)

    def abi(self, target):
        # Of Vulkan, what is known to be about it: the inner ring runs these too.
        names = self.tree.about["abi_tests"]
        if target.backend == "vulkan":
            names = self.tree.about["vulkan_tests" if target.vmm else "vulkan_tests_without_vmm"]
        for name in names:
            if target.real and name in ABOUT_FILES:
                continue
            step = self.test(name, target, name, self.limits.test, mode="alias")
            if (target.real or target.backend == "level_zero") and name in LONG:
                step.skip = "takes minutes with this device's pages; it can be run by hand"
            yield step

    def robustness(self, target):
        """The fault sweep's short form, where the driver is ours or the vendor's own, and the fuzzer."""
        if target.backend != "vulkan":
            yield self.test("fault sweep", target, "test_faults", self.limits.sweep,
                            WEIR_FAULT_EVERY=str(self.limits.fault_every))
        if target.backend == "vulkan" and not target.vmm:
            return  # it makes buffers with addresses that stay
        yield self.test("fuzzer", target, "fuzz_pool", self.limits.fuzz_seconds + 30, "--seconds",
                        str(self.limits.fuzz_seconds))

    def bench(self, target, part, *arguments, name=""):
        command = [str(self.tree.program("bench_device")), "--backend", target.backend, "--only", part, "--bytes",
                   self.limits.size, "--page", self.limits.pages[0], *self.limits.bench_sizes, *arguments]
        return Step(name or "bench " + part, target.name, command, self.tree.environment(target.environment),
                    self.limits.bench, True, target.card, read_figures)

    def driver(self, target, part):
        """Of the CUDA driver itself, without Weir."""
        if target.backend == "cuda":
            yield Step("bench " + part, target.name, [str(self.tree.program("bench_driver")), "--only", part, *self.limits.micro],
                       self.tree.environment(target.environment), self.limits.bench, True, target.card, read_figures)

    def vulkan(self, target, *parts):
        """Beside the driver's own copies and submissions, which bench_device can't make."""
        sizes = {"32M": ("--page", "32M"), "2M": ("--page", "2M"), "16x2M": ("--page", "2M", "--run", "16")}
        for part in parts if target.backend == "vulkan" else ():
            words = ("--only", "pages", *sizes[part]) if part in sizes else ("--only", part)
            yield Step("bench vulkan " + part, target.name, [
                str(self.tree.program("bench_vulkan")), *words, "--bytes", self.limits.vulkan_size, *self.limits.vulkan_sizes],
                self.tree.environment(target.environment), self.limits.bench, True, target.card, read_figures)

    def transfer(self, target):
        if target.backend == "vulkan":
            yield from self.vulkan(target, "32M", "2M")
            return
        yield self.bench(target, "transfer", name="bench transfer " + self.limits.pages[0])

    def transfer_sizes(self, target):
        if target.backend == "vulkan":
            yield from self.vulkan(target, "16x2M", "hits", "wrapped")
            return
        for page in self.limits.pages[1:]:
            yield self.bench(target, "transfer", "--page", page, name="bench transfer " + page)
        yield self.bench(target, "transfer", "--page", "2M", "--run", str(self.limits.run_pages),
                         name=f"bench transfer {self.limits.run_pages}x2M")

    def batch(self, target, on):
        if target.backend == "cuda":
            yield self.bench(target, "transfer", "--page", "2M", "--batch-copy", on, name="bench batch_copy=" + on)

    def locks(self, target):
        for part in ("register", "channel", "beside") if target.backend != "vulkan" else ():
            yield self.bench(target, part)

    def usual(self, target):
        for part in ("kernels", "lease", "allocation") if target.backend != "vulkan" else ():
            yield self.bench(target, part)

    def torch(self, target):
        """PyTorch as it is used, with whatever python3 of the machine has PyTorch."""
        if target.real and target.name == "cuda":
            environment = self.tree.bare_environment()
            for name, script, sizes, extra in (
                    ("bench offload torch", "offload_torch.py", self.limits.offload_sizes, {}),
                    ("bench allocation torch", "allocation_torch.py", self.limits.torch_sizes, {}),
                    ("bench allocation torch expandable", "allocation_torch.py", self.limits.torch_sizes,
                     {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})):
                yield Step(name, "cuda", ["python3", str(self.tree.script(script)), *sizes], environment | extra,
                           self.limits.bench, True, target.card, read_figures)

    def holder(self, target):
        return Step("holder", target.name, [str(self.tree.program("bench_driver")), "--hold", "1"],
                    self.tree.environment(target.environment), 30, device=target.card)


def plan(catalogue, found, host, parts):
    """In the order in which time is best spent: each kind of step on every target before the next kind."""
    make = catalogue
    order = [("bench", lambda one: make.driver(one, "micro")), ("bench", make.transfer), ("conformance", make.conformance),
             ("bench", lambda one: make.driver(one, "remap")), ("bench", make.transfer_sizes),
             ("bench", lambda one: make.batch(one, "0")), ("bench", make.locks),
             ("suite", make.abi), ("bench", make.torch), ("bench", make.usual), ("suite", make.robustness),
             ("bench", lambda one: make.driver(one, "managed")), ("bench", lambda one: make.batch(one, "1"))]
    for number in sorted({one.group for one in found}):
        group = [one for one in found if one.group == number]
        for part, kind in order:
            if part in parts:
                for target in group:
                    yield from kind(target)
    # Needs no device: what this machine's kernel (or gVisor) makes of the host backend.
    if "conformance" in parts and host is not None:
        yield from make.conformance(host)


def chosen(steps, globs, limit_of):
    """Of the steps, those that any of the globs names, all of them for none, with limits that limit_of(name, own) gives."""
    kept = [step for step in steps if not globs or any(fnmatch.fnmatch(step.name, glob) for glob in globs)]
    for step in kept:
        step.limit = limit_of(step.name, step.limit)
    return kept
