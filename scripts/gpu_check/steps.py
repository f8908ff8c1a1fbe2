# SPDX-License-Identifier: Apache-2.0
"""The steps, and how they are run: each a process of its own with a time limit, killed with its children when that is
over. What a step found is its outcome, its counts, its figures and the end of what it printed."""
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

TAIL = 4000  # characters of a step's output that are kept
# Full and damaged file systems, in sizes of the host's pages: nothing of them is a device's.
ABOUT_FILES = ("test_spill_failures",)
COUNTS = re.compile(r"\[\s*(PASSED|FAILED|SKIPPED)\s*\]\s*(\d+) test")


@dataclasses.dataclass
class Step:
    name: str
    target: str
    command: list
    environment: dict
    limit: float
    alone: bool = False  # nothing else runs beside it: it measures


def conformance_step(tree, target, folder, limit):
    plugin = tree.root / f"lib/weir/1/libweir_backend_{target.backend}.so"
    bundle = pathlib.Path(folder) / target.name.replace(" ", "_")
    bundle.mkdir()
    return Step("conformance", target.name,
                [str(tree.program("weir-conformance")), str(plugin), "--jobs", "2", "--bundle", str(bundle)],
                tree.environment(target.environment), limit)


def suite_steps(tree, target, limit):
    """The C ABI's tests, the fault sweep's short form and the fuzzer."""
    alias = {} if target.real else {"WEIR_TEST_MODE": "alias"}
    strict = {} if target.real else {"WEIR_TEST_MODE": "strict"}
    for name in tree.about["abi_tests"]:
        if target.real and name in ABOUT_FILES:
            continue
        yield Step(name, target.name, [str(tree.program(name))], tree.environment(target.testing | alias), limit.test)
    yield Step("fault sweep", target.name, [str(tree.program("test_faults"))],
               tree.environment(target.testing | strict | {"WEIR_FAULT_EVERY": str(limit.fault_every)}), limit.sweep)
    yield Step("fuzzer", target.name, [str(tree.program("fuzz_pool")), "--seconds", str(limit.fuzz_seconds)],
               tree.environment(target.testing | strict), limit.fuzz_seconds + 30)


def bench_steps(tree, target, limit):
    for part in ("transfer", "lease", "kernels", "allocation"):
        command = [str(tree.program("bench_device")), "--backend", target.backend, "--only", part, *limit.bench_sizes]
        yield Step("bench " + part, target.name, command, tree.environment(target.environment), limit.bench, True)


def torch_step(tree, limit):
    """PyTorch's allocator, with whatever python3 of the machine has PyTorch."""
    return Step("bench allocation torch", "cuda", ["python3", str(tree.torch_script()), *limit.torch_sizes],
                tree.environment({}), limit.bench, True)


def read_counts(step, output):
    """Tests by outcome."""
    if step.name == "conformance":
        results = pathlib.Path(step.command[-1]) / "results.jsonl"
        if not results.is_file():
            return {}, []
        lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        bad = [f"{line['id']} {line['verdict']}: {line['message']}" for line in lines
               if line["verdict"] in ("fail", "crash", "timeout")]
        return dict(collections.Counter(line["verdict"] for line in lines)), bad
    return {kind.lower(): int(number) for kind, number in COUNTS.findall(output)}, []


def read_figures(step, output):
    """Lines of JSON that name a benchmark."""
    figures = []
    for line in output.splitlines() if step.alone else []:
        if line.startswith('{"benchmark"'):
            try:
                figures.append({"target": step.target} | json.loads(line))
            except ValueError:
                pass  # cut off when its time was over
    return figures


def outcome_of(code, timed_out):
    if timed_out:
        return "timeout"
    return {0: "passed", 77: "skipped"}.get(code, "failed")


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(step, deadline, keep_output=False):
    """Runs one step to its end; never raises for what it does."""
    record = {"step": step.name, "target": step.target, "command": " ".join(
        pathlib.PurePath(word).name if word.startswith("/") else word for word in step.command)}
    limit = min(step.limit, deadline - time.monotonic())
    if limit <= 1:
        return record | {"outcome": "not run", "reason": "the whole run's time was over"}
    if not pathlib.Path(step.command[0]).is_file() and step.command[0].startswith("/"):
        return record | {"outcome": "not run", "reason": "the program is not in the tree"}
    start = time.monotonic()
    timed_out = False
    # A file, not a pipe: a grandchild that outlives the step can't keep us waiting.
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(step.command, env=step.environment, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return record | {"outcome": "failed", "reason": str(error)}
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
        except BaseException:
            end_group(process)
            raise
        end_group(process)
        code = process.wait()
        out.seek(0)
        output = out.read().decode("utf-8", "replace")
    counts, bad = read_counts(step, output)
    record |= {"outcome": outcome_of(code, timed_out), "exit_code": code,
               "seconds": round(time.monotonic() - start, 2), "limit_seconds": round(limit, 1)}
    if counts:
        record["counts"] = counts
    if bad:
        record["failures"] = bad
    if record["outcome"] != "passed":
        record["output_tail"] = output[-TAIL:]
    if keep_output:
        record["output"] = output
    return record | {"figures": read_figures(step, output)}


def run_all(steps, deadline, bench_deadline, jobs):
    """Those that may share the machine first, side by side; then, one by one, those that measure."""
    shared = [step for step in steps if not step.alone]
    records = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for step, record in zip(shared, pool.map(lambda step: run(step, deadline), shared)):
            tell(step, record)
            records.append(record)
    for step in steps:
        if step.alone:
            record = run(step, bench_deadline)
            tell(step, record)
            records.append(record)
    return records


def tell(step, record):
    print(f"   {step.target}: {step.name}: {record['outcome']} ({record.get('seconds', 0)} s)", file=sys.stderr,
          flush=True)
