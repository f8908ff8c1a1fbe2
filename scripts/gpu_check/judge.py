# SPDX-License-Identifier: Apache-2.0
"""For scripts/test-gpu-check: whether a result says what it must.

  judge.py FILE complete BACKEND    everything that was planned was run, on that backend too, and nothing went wrong
  judge.py FILE stuck STEP          the steps before STEP are there; STEP is stuck, with the call in which the simulated driver says that it
                              hangs; no later step used the device, and what needs none was run
  judge.py --middle STEP      the number of the call of the driver at which STEP is to be stuck
"""
import json
import re
import sys

# Steps of few calls; all others make many more than this.
FEW = {"holder": 3, "devices": 12, "bench managed": 6, "bench vulkan hits": 40}
MANY = 150


def complete(document, backend):
    done = [f"{record['target']}: {record['step']}" for record in document["steps"]]
    yield document["complete"], "the document is not complete"
    yield not document["summary"]["bad"], f"bad steps: {document['summary']['bad']}"
    missing = [name for name in document["planned"] if name not in done]
    yield not missing, f"planned and not run: {missing}"
    names = [target["name"] for target in document["targets"]]
    yield backend in names, f"targets: {names}"
    yield all(target["real"] for target in document["targets"]), "targets are not taken for real"
    told = [record for record in document["steps"] if record["step"] == "vulkan"]
    yield "vulkan" in names or told and told[0]["outcome"] == "skipped" and told[0]["reason"], f"Vulkan is no target, and why is not told: {told}"
    yield document["calls_noted"], "calls of the driver are not noted"
    measured = {figure["step"] for figure in document["figures"]}
    silent = [record["step"] for record in document["steps"] if record["step"].startswith("bench ")
              and record["outcome"] == "passed" and record["step"] not in measured]
    yield not silent, f"nothing was measured by {silent}"
    for name in ("kernel", "kernel_version", "kind"):
        yield document["machine"].get(name), f"the machine's {name} is not told"


def stuck(document, name):
    yield document["complete"], "the document is not complete"
    records = document["steps"]
    at = next((i for i, record in enumerate(records) if record["step"] == name and record["outcome"] == "stuck"), None)
    yield at is not None, f"{name} is not stuck: {[(record['step'], record['outcome']) for record in records]}"
    if at is None:
        return
    record = records[at]
    said = re.findall(r"weir_sim: stuck in (\w+)", record["output_tail"])
    named = {call["call"] for process in record["stuck"] for call in process["calls"]}
    yield said or name == "conformance", f"the simulated driver did not say where: {record['output_tail']!r}"
    yield said and said[0] in named or named and name == "conformance", f"stuck in {said}, and named are {sorted(named)}"
    before = [other for other in records[:at] if other["outcome"] != "passed"]
    yield not before, f"before it: {before}"
    # What ran beside it when it got stuck may have passed.
    after = [other for other in records[at + 1:] if other["target"] not in ("host", "") and other["outcome"] != "not run"
             and not other["step"].startswith("test_")]
    yield not after, f"used the device after it: {[(other['step'], other['outcome']) for other in after]}"
    planned = [step.split(": ", 1) for step in document.get("planned", [])]
    for target, step in planned:
        yield any(other["target"] == target and other["step"] == step for other in records), f"{target}: {step} is left out"
    host = [other["outcome"] for other in records if other["target"] == "host"]
    wanted = ["passed"] if ["host", "conformance"] in planned else []
    yield host == wanted, f"what needs no device: {host}"


def main(words):
    if words[0] == "--middle":
        print(FEW.get(words[1], MANY))
        return 0
    with open(words[0], encoding="utf-8") as file:
        document = json.load(file)
    judges = complete(document, words[2]) if words[1] == "complete" else stuck(document, words[2])
    bad = [text for good, text in judges if not good]
    for text in bad:
        print(f"judge: {words[-1]}: {text}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
