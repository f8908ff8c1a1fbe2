#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/bench policy runs: traces in virtual time under policies, beside the least that any policy needs.

Each run replays a trace twice on one pool of a share of the trace's peak: from cold memory, and again. Its time is told as a multiple of
the tight bound on time, its bytes brought up as one of the bound's bytes: of a program that has loaded what it reads and never writes. One JSON object a run goes to standard output as it ends, or to
the file of --out; the tables go to standard error. A run that --out has already, by the same program, is not done again. A trace
without uses is left out: nothing has to be brought up for it.

With --real N each run is done in real time and with bytes too, both slowed down by N (weir replay --slow), one after the other. Then the
tables tell what real time is as a multiple of virtual time, by trace and as geometric means by kind, and how much of it the CPU held
operations up by checking their bytes. Such figures are of the machine: larger N, less of its own time.
"""
import argparse
import concurrent.futures
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import time

KINDS = ("train", "decode", "serve", "infer", "mix")
QUICK = ("gpt2s_train_varlen", "graphsage_train")
FIELDS = ("operations", "uses", "peak_live_bytes", "device_bytes", "first_seconds", "seconds", "bound_seconds",
          "bound_simple_seconds", "bound_loaded_seconds", "first_promoted_bytes", "promoted_bytes", "bound_fetched_bytes",
          "bound_loaded_fetched_bytes", "hits", "misses",
          "prefetched_bytes", "refaulted_bytes", "evictions", "link_up_seconds", "link_down_seconds", "link_both_seconds",
          "link_both_least_seconds")


def say(text):
    print(text, file=sys.stderr, flush=True)


def kind_of(name):
    """By the name: a mix is one of several, whatever its parts are."""
    if name.startswith("mix"):
        return "mix"
    return next((kind for kind in KINDS if f"_{kind}" in f"_{name}"), "other")


def program_id(weir):
    """Of the command and the library beside it: results of another are not these."""
    digest = hashlib.sha256()
    for path in (weir, weir.parent.parent / "lib" / "libweir.so.1"):
        if path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def replay(command, name, percent):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{name} at {percent} %: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run(args, program, work):
    trace, percent, policy = work
    name = trace.name.split(".vmt")[0]
    command = [args.weir, "replay", trace, "--device-memory", f"{percent}%", "--pace", args.pace, "--no-all-resident",
               "--announce", args.announce, "--json"]
    command += ["--slow", str(args.real), "--scale", str(args.scale)] if args.real else []
    command += ["--policy", policy] if policy else []
    command += ["--limit", str(args.limit)] if args.limit else []
    start = time.monotonic()
    report = replay(command + ["--virtual", "--no-verify"], name, percent)
    result = {"trace": name, "kind": kind_of(name), "percent": percent, "policy": policy or None, "announce": args.announce,
              "pace": args.pace, "limit": args.limit, "program": program, "took": round(time.monotonic() - start, 1)}
    result |= {field: report[field] for field in FIELDS}
    # A page is rounded away where nothing was raised.
    if args.real:
        real = replay(command + ["--check-one-in", str(args.check_one_in)], name, percent)
        result |= {"real": args.real, "scale": args.scale, "check_one_in": args.check_one_in}
        result |= {f"real_{field}": real[field] for field in ("first_seconds", "seconds", "overrun_seconds")}
    result["raised"] = report["device_bytes"] > report["peak_live_bytes"] * percent / 100
    return result


def ratios(result):
    """Time and bytes, of the first pass and the second; None where the bound brings nothing up."""
    times = [result[pass_] / result["bound_loaded_seconds"] for pass_ in ("first_seconds", "seconds")]
    least = result["bound_loaded_fetched_bytes"]
    moved = [result[pass_] / least if least else None for pass_ in ("first_promoted_bytes", "promoted_bytes")]
    return times + moved


def mean(values):
    """Geometric, of those that there are and above 0."""
    known = [value for value in values if value]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def row(cells):
    return "| " + " | ".join("-" if cell is None else f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def table(results):
    head = ("memory %", "time, first pass", "time, second", "bytes up, first pass", "bytes up, second")
    lines = [row(("trace",) + head), "|---|--:|--:|--:|--:|--:|"]
    for result in results:
        lines.append(row([result["trace"], f"{result['percent']}{' F' if result['raised'] else ''}"] + ratios(result)))
    lines += ["", row(("kind", "traces") + head), "|---|--:|--:|--:|--:|--:|--:|"]
    for kind in KINDS + ("other",):
        for percent in sorted({result["percent"] for result in results}, reverse=True):
            ours = [ratios(result) for result in results if result["kind"] == kind and result["percent"] == percent]
            if ours:
                lines.append(row([kind, len(ours), percent] + [mean(column) for column in zip(*ours)]))
    return "\n".join(lines)


def real_table(results):
    """Real time as multiples of virtual time."""
    def beside(result):
        return [result["real_first_seconds"] / result["first_seconds"], result["real_seconds"] / result["seconds"],
                result["real_overrun_seconds"] / result["real_seconds"]]
    head = ("memory %", "real time of virtual, first pass", "second", "share held by checking")
    lines = [row(("trace",) + head), "|---|--:|--:|--:|--:|"]
    lines += [row([result["trace"], result["percent"]] + beside(result)) for result in results]
    lines += ["", row(("kind", "traces") + head[:3]), "|---|--:|--:|--:|--:|"]
    for kind in KINDS + ("other",):
        for percent in sorted({result["percent"] for result in results}, reverse=True):
            ours = [beside(result)[:2] for result in results if result["kind"] == kind and result["percent"] == percent]
            if ours:
                lines.append(row([kind, len(ours), percent] + [mean(column) for column in zip(*ours)]))
    return "\n".join(lines)


def known_results(args, program):
    if not args.out or not args.out.exists():
        return []
    known = [json.loads(line) for line in args.out.read_text().splitlines()]
    same = {"program": program, "announce": args.announce, "pace": args.pace, "limit": args.limit,
            "real": args.real}
    if args.real:
        same |= {"scale": args.scale, "check_one_in": args.check_one_in}
    return [result for result in known if all(result.get(key) == value for key, value in same.items())]


def slower(shown, policies, percent):
    """A line for each run that takes longer than the first policy's, by more than that."""
    lines = []
    for (trace, memory, policy), result in sorted(shown.items()):
        first = shown.get((trace, memory, policies[0]))
        if policy in policies[1:] and first and result["seconds"] > first["seconds"] * (1 + percent / 100):
            lines.append(f"{trace} at {memory} %: {policy} takes {result['seconds'] / first['seconds']:.3f} of {policies[0]}'s time")
            say(f"failed: {lines[-1]}")
    return lines


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench policy", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--traces", type=pathlib.Path, default=pathlib.Path("../shared/traces"),
                        help="folder of *.vmt.zst, or, where there are none, of *.vmt")
    parser.add_argument("--only", action="append", metavar="TRACE", help="this one alone; may be given again")
    parser.add_argument("--policy", action="append", help="of the pool; may be given again [default: the library's]")
    parser.add_argument("--percent", type=int, action="append", help="device memory; may be given again [default: 75, 50, 30]")
    parser.add_argument("--announce", default="0", help="as of weir replay [default: 0]")
    parser.add_argument("--pace", default="a100", help="as of weir replay [default: a100]")
    parser.add_argument("--real", type=float, metavar="N", help="in real time and with bytes too, both N times as slow; one run at a time")
    parser.add_argument("--scale", type=int, default=1, help="with --real: as of weir replay [default: 1]")
    parser.add_argument("--check-one-in", type=int, default=64, help="with --real: as of weir replay [default: 64]")
    parser.add_argument("--limit", type=int, help="operations of each trace [default: all]")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time [default: 2]")
    parser.add_argument("--minutes", type=float, default=60, help="no run begins after so many [default: 60]")
    parser.add_argument("--out", type=pathlib.Path, help="file of results, gone on with")
    parser.add_argument("--quick", action="store_true", help="two small traces at 50 %%")
    parser.add_argument("--no-slower", type=float, metavar="PERCENT",
                        help="fail where a policy's second pass takes so much longer than the first policy's")
    args = parser.parse_args()
    if args.quick:
        args.only, args.percent = args.only or list(QUICK), args.percent or [50]
        if not args.traces.is_dir():
            args.traces = pathlib.Path("examples/traces")
    if args.jobs < 1:
        parser.error("--jobs: it takes one at least")
    if args.real is not None and not args.real > 0:
        parser.error(f"--real: {args.real} is not above 0")
    if args.real:
        args.jobs = 1
    return args


def choose(args):
    found = list(args.traces.glob("*.vmt.zst")) or list(args.traces.glob("*.vmt"))
    traces = sorted(found, key=lambda trace: (trace.stat().st_size, trace.name))
    names = {trace.name.split(".vmt")[0] for trace in traces}
    missing = set(args.only or ()) - names
    if missing or not traces:
        raise SystemExit(f"error: {args.traces} has no trace {', '.join(sorted(missing))}".rstrip())
    return [trace for trace in traces if not args.only or trace.name.split(".vmt")[0] in args.only]


def main():
    args = parse()
    program = program_id(args.weir)
    policies, percents = args.policy or [""], args.percent or [75, 50, 30]
    results = known_results(args, program)
    have = {(result["trace"], result["percent"], result["policy"] or "") for result in results}
    # By rising size: what is left undone when time is over are the fewest.
    work = [(trace, percent, policy) for trace in choose(args) for percent in percents for policy in policies
            if (trace.name.split(".vmt")[0], percent, policy) not in have]
    end, failures = time.monotonic() + args.minutes * 60, []
    sink = open(args.out, "a") if args.out else sys.stdout

    def one(item):
        return run(args, program, item) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(one, item) for item in work]):
            try:
                result = future.result()
            except RuntimeError as error:
                failures.append(str(error))
                say(f"failed: {error}")
                continue
            if result is None:
                continue
            print(json.dumps(result), file=sink, flush=True)
            say(f"{result['trace']} at {result['percent']} %, {result['policy'] or 'the default'}: {result['took']} s")
            results.append(result)
    wanted = {(trace.name.split(".vmt")[0], percent, policy) for trace in choose(args) for percent in percents for policy in policies}
    shown = {(r["trace"], r["percent"], r["policy"] or ""): r for r in results if r["uses"]}
    for policy in policies:
        ours = [result for key, result in sorted(shown.items(), key=lambda item: (item[0][0], -item[0][1]))
                if key in wanted and key[2] == policy]
        say(f"\n{policy or 'the default policy'}, announced: {args.announce}; multiples of the bound\n\n{table(ours)}")
        if args.real:
            say(f"\n{real_table(ours)}")
    if args.no_slower is not None:
        failures += slower(shown, policies, args.no_slower)
    undone = len(wanted) - len({key for key in wanted if key in {(r["trace"], r["percent"], r["policy"] or "") for r in results}})
    if undone:
        say(f"\n{undone} of {len(wanted)} runs are missing")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
