# SPDX-License-Identifier: Apache-2.0
"""What a run found, for a file and for a person. The document explains itself: schema 1 is described in
docs/gpu-check.md."""
import json

from gpu_check import steps

BAD = ("failed", "timeout", "not run")


def devices(tree, deadline):
    """The record of `weir devices --json`, and what it told ({} if it failed)."""
    step = steps.Step("devices", "", [str(tree.program("weir")), "devices", "--json"], tree.environment({}), 60)
    record = steps.run(step, deadline, keep_output=True)
    text = record.pop("output", "")
    record.pop("figures", None)
    try:
        return record, json.loads(text)
    except ValueError:
        return record | {"outcome": "failed", "output_tail": text[-steps.TAIL:]}, {}


def document(tree, records):
    """Figures are taken out of the steps that measured them, into one list."""
    figures = [figure for record in records for figure in record.pop("figures", [])]
    bad = [f"{record['target']}: {record['step']}: {record['outcome']}" for record in records
           if record["outcome"] in BAD]
    return {"kind": "weir gpu-check", "schema": 1, "revision": tree.about["revision"], "modified": tree.about["modified"],
            "build": {name: tree.about[name] for name in ("build_type", "built_on", "described")},
            "summary": {"steps": len(records), "bad": bad}, "steps": records, "figures": figures}


def counts_text(record):
    if "reason" in record:
        return record["reason"]
    return ", ".join(f"{number} {kind}" for kind, number in record.get("counts", {}).items())


def figure_text(figure):
    if "skipped" in figure:
        return "skipped: " + figure["skipped"]
    text = f"{figure['ratio']:.3g} x ({figure['ratio_low']:.3g} - {figure['ratio_high']:.3g})"
    if "value" in figure:
        text += f"; {figure['value']:.4g} against {figure['yardstick_value']:.4g} {figure['unit']}"
    return text + (f"; goal: {figure['goal']}" if "goal" in figure else "")


def figure_case(figure):
    words = [figure["benchmark"].removeprefix("device_")]
    for name in ("pages_per_lease", "buffers", "mode", "kernel", "beside"):
        if name in figure:
            words.append(f"{name.replace('_', ' ')} {figure[name]}")
    return ", ".join(words)


def summary(document):
    for record in document["steps"]:
        print(f"{record['target'] or '-':16} {record['step']:24} {record['outcome']:8} "
              f"{record.get('seconds', 0):7.1f} s  {counts_text(record)}")
        for line in record.get("failures", []):
            print("    " + line)
        if record["outcome"] in ("failed", "timeout"):
            for line in record.get("output_tail", "").splitlines()[-8:]:
                print("    | " + line)
    for figure in document["figures"]:
        if "ratio" in figure or "skipped" in figure:
            print(f"{figure['target']:16} {figure_case(figure)}: {figure_text(figure)}")
    bad = document["summary"]["bad"]
    print(f"gpu-check: {document['summary']['steps']} steps in {document['seconds']} s, "
          + (f"{len(bad)} bad" if bad else "all good"))
