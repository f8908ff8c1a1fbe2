#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a timeline (WEIR_TRACE), a recording (WEIR_RECORD) and ranges for a profiler (WEIR_NVTX) cost a replay: CPU time, user and system, of
`weir replay` with each against the same without, in turns, nine times; the median of the ratios. Wall time says nothing here: the
threads that write have a core to themselves where one is free.

Ranges need a library in the profiler's place: that of the tests (target weir_watched_nvtx) notes each range in memory under a mutex.

  bench/trace_overhead.py [--weir build/release/bin/weir] [--rounds 9] [--nvtx build/release/lib/drivers/libweir_watched_nvtx.so]
                          [--only WEIR_NVTX] TRACE [options of weir replay]
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
    parser.add_argument("--nvtx", metavar="LIBRARY", type=pathlib.Path)
    parser.add_argument("--only", metavar="VARIABLE", choices=["WEIR_TRACE", "WEIR_RECORD", "WEIR_NVTX"])
    parser.add_argument("trace")
    chosen, options = parser.parse_known_args()
    command = [chosen.weir, "replay", chosen.trace, *options]
    ratios = {variable: [] for variable in ("WEIR_TRACE", "WEIR_RECORD", "WEIR_NVTX") if chosen.only in (None, variable)}
    if not chosen.nvtx:
        if chosen.only == "WEIR_NVTX":
            parser.error("WEIR_NVTX needs --nvtx LIBRARY")
        ratios.pop("WEIR_NVTX", None)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(chosen.rounds):
            alone = cpu_seconds(command, {})
            for variable, ending in (("WEIR_TRACE", ".json"), ("WEIR_RECORD", ".vmt.zst")):
                if variable not in ratios:
                    continue
                file = pathlib.Path(folder) / f"{variable}-{number}{ending}"
                ratios[variable].append(cpu_seconds(command, {variable: str(file)}) / alone)
                file.unlink()
            if "WEIR_NVTX" in ratios:
                ranges = {"WEIR_NVTX": "1", "NVTX_INJECTION64_PATH": str(chosen.nvtx.resolve(strict=True))}
                ratios["WEIR_NVTX"].append(cpu_seconds(command, ranges) / alone)
    for variable, each in ratios.items():
        print(f"{variable}: {statistics.median(each):.3f} of the CPU time without "
              f"({min(each):.3f} to {max(each):.3f}, {chosen.rounds} rounds)")


if __name__ == "__main__":
    main()
