# SPDX-License-Identifier: Apache-2.0
"""Running steps: each a process, in a session of its own, with a time limit, killed with all that it started when that is
over. A process that is killed and does not end (it sleeps in a driver, uninterruptibly) is left behind: its step is
"stuck", the call is named, and the device that it uses counts as gone, so that no later step of that device is tried.

Never waits for a process without a limit. What a step found is told to `tell` as soon as it is known.
"""
import collections
import concurrent.futures
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

from gpu_check import watch

TAIL = 4000  # characters of a step's output that are kept
MOST = 64 << 20  # bytes of it that are read
PR_SET_CHILD_SUBREAPER = 36


@dataclasses.dataclass
class Step:
    name: str
    target: str
    command: list
    environment: dict
    limit: float
    alone: bool = False  # nothing else runs beside it: it measures
    device: str = ""     # the device that it needs; "": none
    read: object = None  # what is found in its output: read(step, output) -> dict
    skip: str = ""       # why it is not tried at all


def adopt_orphans():
    """What a step's processes leave behind becomes ours, and can be asked for."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # then another process reaps them


def outcome_of(code, timed_out):
    if timed_out:
        return "timeout"
    return {0: "passed", 77: "skipped"}.get(code, "failed")


class Runner:
    def __init__(self, patience=10, tell=lambda step, record: None):
        self.patience = patience  # seconds that a killed process may take to end
        self.tell = tell
        self.gone = {}     # device -> why it counts as gone
        self.left = []     # pids of processes that did not end
        self.leaders = set()
        self.lock = threading.Lock()

    # ---- ends ----

    def others(self, process):
        """Of the session of an ended or killed step, what is still there. Those that were only waiting to be asked for are not."""
        found = watch.session(process.pid)
        found.pop(process.pid, None)
        for pid, fields in list(found.items()):
            if fields["state"] != "Z":
                continue
            if fields["parent"] != os.getpid():
                del found[pid]  # somebody else's to ask for
                continue
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    del found[pid]
            except OSError:
                del found[pid]
        return found

    def end(self, process):
        """Kills the session; returns the pids that have not ended when patience is over."""
        until = time.monotonic() + self.patience
        while True:
            pids = set(self.others(process)) | ({process.pid} if process.poll() is None else set())
            if not pids or time.monotonic() >= until:
                return pids
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.02)

    def end_all(self):
        """For the end of the whole run before its time: nothing is waited for."""
        with self.lock:
            leaders = list(self.leaders)
        for leader in leaders:
            for pid in watch.session(leader):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass

    def lose(self, step, pictures):
        reason = f"{step.target or '-'}: {step.name} is stuck: {watch.sentence(pictures)}"
        with self.lock:
            self.left += [each["pid"] for each in pictures]
            if step.device:
                self.gone.setdefault(step.device, reason)

    # ---- one step ----

    def refusal(self, step, limit, deadline_reason):
        if step.device in self.gone:
            return "the device is gone: " + self.gone[step.device]
        if limit <= 1:
            return deadline_reason
        if step.command[0].startswith("/") and not pathlib.Path(step.command[0]).is_file():
            return "the program is not in the tree"
        return ""

    def run(self, step, deadline, deadline_reason="the run's budget was spent", keep_output=False):
        """Runs one step to its end, or leaves it behind; never raises for what it does. What it prints is part of the
        record if it is to be kept; then complaints are none of it."""
        record = {"step": step.name, "target": step.target, "command": " ".join(
            pathlib.PurePath(word).name if word.startswith("/") else word for word in step.command)}
        limit = min(step.limit, deadline - time.monotonic())
        if reason := self.refusal(step, limit, deadline_reason):
            return record | {"outcome": "not run", "reason": reason}
        if step.skip:
            return record | {"outcome": "skipped", "reason": step.skip}
        start = time.monotonic()
        # A file, not a pipe: what outlives the step can't keep us waiting.
        with (tempfile.TemporaryDirectory(prefix="gpu-check-notes-") as notes, tempfile.TemporaryFile() as out,
              tempfile.TemporaryFile() as apart):
            environment = step.environment | {"WEIR_STEP": step.name, "WEIR_WATCH_DIR": notes}
            try:
                process = subprocess.Popen(step.command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=apart if keep_output else subprocess.STDOUT, start_new_session=True)
            except OSError as error:
                return record | {"outcome": "failed", "reason": str(error)}
            with self.lock:
                self.leaders.add(process.pid)
            record |= self.follow(step, process, limit, notes)
            output, errors = (os.pread(file.fileno(), MOST, 0).decode("utf-8", "replace") for file in (out, apart))
        record |= {"seconds": round(time.monotonic() - start, 2), "limit_seconds": round(limit, 1)}
        if step.read:
            try:
                record |= step.read(step, output)
            except Exception as error:  # whatever a program printed or left: it costs this step's figures and no more
                record["failures"] = [f"what it left can't be read: {error!r}"]
        if record["outcome"] != "passed":
            record["output_tail"] = (output + errors)[-TAIL:]
        if keep_output:
            record["output"] = output
        return record

    def follow(self, step, process, limit, notes):
        """Outcome and exit code; for what had to be killed, the calls it was in."""
        timed_out, pictures = False, []
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            pids = set(self.others(process)) | {process.pid}
            pictures = watch.picture(pids, notes)
        left = self.end(process)
        with self.lock:
            self.leaders.discard(process.pid)
        if left:
            stuck = watch.picture(left, notes)
            self.lose(step, stuck)
            return {"outcome": "stuck", "exit_code": process.poll(), "stuck": stuck,
                    "reason": "killed, and did not end: " + watch.sentence(stuck)}
        found = {"outcome": outcome_of(process.poll(), timed_out), "exit_code": process.poll()}
        inside = [each for each in pictures if each["calls"]]
        if inside:
            found |= {"in_calls": inside, "reason": "when its time was over: " + watch.sentence(inside)}
        return found

    # ---- all of them ----

    def run_all(self, steps, deadline, jobs):
        """In their order; neighbours that may share the machine side by side, those that measure one by one."""
        waiting = collections.deque(steps)
        while waiting:
            side_by_side = []
            while waiting and not waiting[0].alone:
                side_by_side.append(waiting.popleft())
            if side_by_side:
                with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                    list(pool.map(lambda step: self.run_and_tell(step, deadline), side_by_side))
            if waiting:
                self.run_and_tell(waiting.popleft(), deadline)

    def run_and_tell(self, step, deadline):
        record = self.run(step, deadline)
        with self.lock:
            self.tell(step, record)


class Holder:
    """A process that keeps the device awake for the whole run, as persistence mode does: a context is made once, and
    the driver's own state outlives each step."""

    def __init__(self, runner, step):
        self.runner = runner
        self.step = step
        self.process = None

    def start(self, limit=30):
        """A record, as of a step; it passes once the program says that it holds."""
        record = {"step": self.step.name, "target": self.step.target, "outcome": "failed"}
        self.folder = tempfile.TemporaryDirectory(prefix="gpu-check-notes-")
        self.notes = self.folder.name
        self.out = tempfile.TemporaryFile()
        start = time.monotonic()
        try:
            self.process = subprocess.Popen(
                self.step.command, env=self.step.environment | {"WEIR_STEP": self.step.name, "WEIR_WATCH_DIR": self.notes},
                stdin=subprocess.PIPE, stdout=self.out, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return record | {"reason": str(error)}
        self.runner.leaders.add(self.process.pid)
        while self.process.poll() is None and b"holds" not in self.said() and time.monotonic() - start < limit:
            time.sleep(0.02)
        record["seconds"] = round(time.monotonic() - start, 2)
        if b"holds" in self.said():
            return record | {"outcome": "passed"}
        record["output_tail"] = self.said().decode("utf-8", "replace")[-TAIL:]
        record["outcome"] = "timeout" if self.process.poll() is None else outcome_of(self.process.poll() or 1, False)
        return record | self.stop(0)

    def said(self):
        return os.pread(self.out.fileno(), 1 << 16, 0)

    def stop(self, limit=10):
        """Lets it end by itself, or leaves it behind: then what a record has to say of it."""
        if self.process is None:
            return {}
        process, self.process = self.process, None
        process.stdin.close()
        self.out.close()
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            pass
        left = self.runner.end(process)
        self.runner.leaders.discard(process.pid)
        if not left:
            return {}
        stuck = watch.picture(left, self.notes)
        self.runner.lose(self.step, stuck)
        return {"outcome": "stuck", "stuck": stuck, "reason": "did not end: " + watch.sentence(stuck)}
