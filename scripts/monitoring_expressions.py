# SPDX-License-Identifier: Apache-2.0
"""Runs every expression of the dashboard and of the rules against a real Prometheus that asks a real `weir exporter`, while traces are
replayed in small pools. An expression that is wrong fails, and so does one that answers with nothing, or with no number.

Comparisons of alerts are asked as "> bool": what they compare must be there, whether or not the alert fires. For scripts/test-monitoring."""
import argparse
import base64
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

RANGE = "10s"  # for $__rate_interval: ten questions of the Prometheus
COMPARISON = re.compile(r"(>=|<=|==|!=|>|<)(?! *bool)(?![=~])")
IN_BRACES = re.compile(r"\{[^}]*\}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """Ended by its number, whatever happens."""

    def __init__(self, command, log, **options):
        self.name = pathlib.Path(command[0]).name
        self.log = log
        with open(log, "wb") as out:
            self.child = subprocess.Popen(command, stdout=options.pop("stdout", out), stderr=out, **options)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def must_run(self):
        if self.child.poll() is not None:
            sys.exit(f"{self.name} ended by itself with {self.child.returncode}:\n{self.log.read_text(errors='replace')}")


class Api:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path, **parameters):
        url = self.base + path + ("?" + urllib.parse.urlencode(parameters) if parameters else "")
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error).get("error", str(error))) from None

    def ready(self):
        try:
            with urllib.request.urlopen(self.base + "/-/ready", timeout=5) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False


def wait_until(what, seconds, done, *processes):
    end = time.monotonic() + seconds
    while not done():
        for process in processes:
            process.must_run()
        if time.monotonic() > end:
            sys.exit(f"after {seconds} seconds still not: {what}")
        time.sleep(0.2)


def dashboard_expressions(path):
    board = json.loads(path.read_text())
    expressions = {}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            where = f"{path.name}: panel \"{panel['title']}\" {target['refId']}"
            text = target["expr"].replace("$__rate_interval", RANGE)
            for variable in board["templating"]["list"]:
                text = text.replace(f"${variable['name']}", variable.get("allValue", ""))
            expressions[where] = text
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            text = re.sub(r"\$(\w+)", ".*", inner.group(1))
            expressions[f"{path.name}: variable {variable['name']}"] = f"count by ({inner.group(2)}) ({text})"
    return expressions


def as_values(expression):
    """Comparisons answer 0 or 1. What stands in braces is no comparison."""
    parts, at = [], 0
    for braces in IN_BRACES.finditer(expression):
        parts += [COMPARISON.sub(r"\1 bool", expression[at:braces.start()]), braces.group()]
        at = braces.end()
    return "".join([*parts, COMPARISON.sub(r"\1 bool", expression[at:])])


def rule_expressions(api, folder):
    """As the Prometheus has read them, with shorter ranges; those it says itself are broken end this."""
    expressions = {}
    for group in api.get("/api/v1/rules")["groups"]:
        for rule in group["rules"]:
            if rule.get("lastError"):
                sys.exit(f"{rule['name']}: {rule['lastError']}")
            text = re.sub(r"\[\d+m\]", f"[{RANGE}]", rule["query"])
            expressions[f"{pathlib.Path(group['file']).name}: {rule['name']}"] = as_values(text)
    written = sum(len(re.findall(r"^ *- (?:alert|record):", path.read_text(), re.M)) for path in folder.glob("*.rules.yml"))
    if written == 0 or written != len(expressions):
        sys.exit(f"{written} rules are written down, and the Prometheus has {len(expressions)}")
    return expressions


def numbers_in(api, expression):
    data = api.get("/api/v1/query", query=expression)
    if data["resultType"] == "scalar":
        return [data["result"][1]]
    return [sample["value"][1] for sample in data["result"] if sample["value"][1] not in ("NaN", "+Inf", "-Inf")]


def self_test():
    assert as_values('a{b!="c"} > 0.5 and d == 1') == 'a{b!="c"} > bool 0.5 and d == bool 1'
    assert as_values("a > bool 1") == "a > bool 1"


def configuration(folder, work, exporter_port, password):
    (work / "password").write_text(password)
    rules = "".join(f"  - {path}\n" for path in sorted(folder.resolve().glob("*.rules.yml")))
    text = f"""global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
rule_files:
{rules}scrape_configs:
  - job_name: weir
    basic_auth:
      username: prometheus
      password_file: {work / "password"}
    static_configs:
      - targets: ["127.0.0.1:{exporter_port}"]
"""
    (work / "prometheus.yml").write_text(text)
    return work / "prometheus.yml"


class Replays:
    """Replays of a trace in small pools with all tiers, one after the other for as long as they are wanted."""

    def __init__(self, arguments, work, environment):
        self.command = [arguments.weir, "replay", arguments.trace, "--device-memory", "50%", "--host-memory", "10%",
                        "--compressed-memory", "5%", "--storage", str(work), "--storage-size", "100%", "--data", "tensor",
                        "--no-all-resident", "--announce", "16"]
        self.work, self.environment, self.now = work, environment, None

    def __enter__(self):
        return self

    def keep_on(self):
        if self.now is not None and self.now.child.poll() is not None:
            if self.now.child.returncode != 0:
                self.now.must_run()
            self.now = None
        if self.now is None:
            self.now = Process(self.command, self.work / "replay.log", env=self.environment)

    def __exit__(self, *unused):
        if self.now is not None:
            self.now.__exit__()


def ask_all(api, expressions, replays, seconds, *processes):
    """Each has until the end to have a number; returns what has none."""
    left, end = dict(expressions), time.monotonic() + seconds
    while left and time.monotonic() < end:
        for process in processes:
            process.must_run()
        replays.keep_on()
        for where, expression in list(left.items()):
            try:
                if numbers_in(api, expression):
                    del left[where]
            except ValueError as error:
                sys.exit(f"{where}: {error}\n  {expression}")
        time.sleep(0.5)
    return left


def run(arguments):
    folder = pathlib.Path(arguments.folder)
    with tempfile.TemporaryDirectory(prefix="weir-monitoring-") as name:
        work = pathlib.Path(name)
        runtime = work / "run"
        runtime.mkdir(mode=0o700)
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        for variable in ("WEIR_LIVE", "WEIR_OPTIONS"):
            environment.pop(variable, None)
        password = secrets.token_urlsafe(12)
        accounts = work / "accounts"
        accounts.touch(mode=0o600)
        accounts.write_text(f"prometheus:{password}\n")
        command = [arguments.weir, "exporter", "--listen", "127.0.0.1:0", "--auth-file", str(accounts)]
        with Process(command, work / "exporter.log", stdout=subprocess.PIPE, env=environment) as exporter:
            line = exporter.child.stdout.readline().decode()
            found = re.search(r":(\d+)/metrics", line)
            if not found:
                exporter.child.wait(30)
                exporter.must_run()
            exporter_port, port = int(found.group(1)), free_port()
            config = configuration(folder, work, exporter_port, password)
            command = [arguments.prometheus, f"--config.file={config}", f"--storage.tsdb.path={work / 'data'}",
                       f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
            with Process(command, work / "prometheus.log") as server, Replays(arguments, work, environment) as replays:
                api = Api(port)
                wait_until("the Prometheus is ready", 60, api.ready, server, exporter)
                replays.keep_on()
                check_exposition(arguments, exporter_port, password, replays)
                expressions = {**dashboard_expressions(folder / "weir-dashboard.json"), **rule_expressions(api, folder)}
                left = ask_all(api, expressions, replays, arguments.seconds, server, exporter)
                for where, expression in left.items():
                    print(f"no number in {arguments.seconds} seconds: {where}\n  {expression}", file=sys.stderr)
                print(f"{len(expressions) - len(left)} of {len(expressions)} expressions answered with numbers")
                return 1 if left or not expressions else 0


def check_exposition(arguments, port, password, replays):
    """What the exporter serves pleases promtool, as soon as a replay is among it."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    request.add_header("Authorization", "Basic " + base64.b64encode(f"prometheus:{password}".encode()).decode())
    end = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        if b'weir_buffers{program="weir"' in text:
            break
        if time.monotonic() > end:
            sys.exit(f"the exporter shows no replay:\n{text.decode()}")
        replays.keep_on()
        time.sleep(0.1)
    checked = subprocess.run([arguments.promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    if checked.returncode != 0 or checked.stderr or checked.stdout:
        sys.exit(f"promtool check metrics: {checked.stdout.decode()}{checked.stderr.decode()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("weir", "prometheus", "promtool", "trace", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seconds", type=float, default=120, help="until which each expression must have had a number")
    self_test()
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
