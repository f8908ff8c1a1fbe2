# SPDX-License-Identifier: Apache-2.0
"""What a run found, for a file and for a person. The document explains itself: schema 2 is described in
docs/gpu-check.md. It is written again after every step, so that what was found is there whatever happens later."""
import json
import os
import pathlib
import sys

BAD = ("failed", "timeout", "stuck", "not run")


class Document:
    def __init__(self, tree, path):
        self.path = pathlib.Path(path) if path else None
        self.records, self.figures, self.about = [], [], {}
        self.fixed = {"kind": "weir gpu-check", "schema": 2, "revision": tree.about["revision"],
                      "modified": tree.about["modified"],
                      "build": {name: tree.about[name] for name in ("build_type", "built_on", "described")}}
        self.complete = False

    def add(self, record):
        """Figures are taken out of the steps that measured them, into one list."""
        self.figures += record.pop("figures", [])
        self.records.append(record)
        self.write()

    def tell(self, **facts):
        self.about |= facts
        self.write()

    def finish(self, **facts):
        self.complete = True
        self.tell(**facts)

    @property
    def bad(self):
        return [f"{record['target'] or '-'}: {record['step']}: {record['outcome']}" for record in self.records
                if record["outcome"] in BAD]

    def content(self):
        return self.fixed | {"complete": self.complete} | self.about | {
            "summary": {"steps": len(self.records), "bad": self.bad}, "steps": self.records, "figures": self.figures}

    def write(self):
        """A whole document or the one before it, never a part."""
        if self.path is None:
            return
        part = self.path.with_name(self.path.name + ".part")
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(json.dumps(self.content(), indent=1, default=str) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:  # a full disk is no reason to measure nothing
            print(f"gpu-check: {self.path} is not written: {error}", file=sys.stderr)


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
    for name in ("page_mib", "pages_per_lease", "pages_per_buffer", "buffers", "mode", "kernel", "beside", "call", "mib",
                 "neighbours", "peers", "context", "way", "memory", "batch_copy", "fence"):
        if name in figure:
            words.append(f"{name.replace('_', ' ')} {figure[name]}")
    return ", ".join(words)


def line(record):
    return (f"{record['target'] or '-':16} {record['step']:28} {record['outcome']:8} {record.get('seconds', 0):7.1f} s  "
            f"{counts_text(record)}")


def summary(document):
    for figure in document.figures:
        if "ratio" in figure or "skipped" in figure:
            print(f"{figure['target']:16} {figure_case(figure)}: {figure_text(figure)}")
    for record in document.records:
        print(line(record))
        for failure in record.get("failures", []):
            print("    " + failure)
        if record["outcome"] in ("failed", "timeout", "stuck"):
            for text in record.get("output_tail", "").splitlines()[-8:]:
                print("    | " + text)
    print(f"gpu-check: {len(document.records)} steps in {document.about.get('seconds', 0)} s, "
          + (f"{len(document.bad)} bad" if document.bad else "all good"))
