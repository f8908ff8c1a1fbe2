#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a timeline (WEIR_TRACE) and a recording (WEIR_RECORD) cost a replay: CPU time, user and system, of `weir replay` with each
against the same without, in turns, nine times; the median of the ratios. Wall time says nothing here: the threads that write have a core
to themselves where one is free.

  bench/trace_overhead.py [--weir build/release/bin/weir] [--rounds 9] TRACE [options of weir replay]
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile


def cpu_seconds(command, extra):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=os.environ | extra, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="build/release/bin/weir")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("trace")
    chosen, options = parser.parse_known_args()
    command = [chosen.weir, "replay", chosen.trace, *options]
    ratios = {"WEIR_TRACE": [], "WEIR_RECORD": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(chosen.rounds):
            alone = cpu_seconds(command, {})
            for variable, ending in (("WEIR_TRACE", ".json"), ("WEIR_RECORD", ".vmt.zst")):
                file = pathlib.Path(folder) / f"{variable}-{number}{ending}"
                ratios[variable].append(cpu_seconds(command, {variable: str(file)}) / alone)
                file.unlink()
    for variable, each in ratios.items():
        print(f"{variable}: {statistics.median(each):.3f} of the CPU time without "
              f"({min(each):.3f} to {max(each):.3f}, {chosen.rounds} rounds)")


if __name__ == "__main__":
    main()
