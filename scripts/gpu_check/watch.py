# SPDX-License-Identifier: Apache-2.0
"""What processes are doing, seen from outside: those of a session, which call of the CUDA driver each of their threads is
in (the notes of libweir_watched_cuda.so, tests/drivers/watch/notes.hpp) and where in the kernel, as far as that may be read."""
import os
import pathlib
import struct
import time

HEADER = struct.Struct("8sII")
NAME_BYTES = 48
MOST_NAMES = 128
SLOT = struct.Struct("IIQ")
LINES_OF_STACK = 12


def calls(notes):
    """Thread -> (call it is in, which of its calls that is), of one process' notes; {} if there are none."""
    try:
        data = pathlib.Path(notes).read_bytes()
    except OSError:
        return {}
    if len(data) < HEADER.size or not data.startswith(b"weirnote"):
        return {}
    _, threads, count = HEADER.unpack_from(data)
    names = [data[HEADER.size + i * NAME_BYTES:][:NAME_BYTES].split(b"\0", 1)[0].decode() for i in range(count)]
    slots = HEADER.size + MOST_NAMES * NAME_BYTES
    found = {}
    for i in range(threads):
        thread, inside, number = SLOT.unpack_from(data, slots + i * SLOT.size)
        if thread and 0 < inside <= count:
            found[thread] = (names[inside - 1], number)
    return found


def fields_of(pid):
    """Of /proc/PID/stat: name, state, parent, session; None where there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    words = rest.split()
    return {"name": name, "state": words[0], "parent": int(words[1]), "session": int(words[3])}


def session(leader):
    """The processes of a session, dead ones that nobody has asked for too: pid -> fields."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := fields_of(int(entry))) and fields["session"] == leader:
            found[int(entry)] = fields
    return found


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def in_kernel(pid, thread):
    """Where the kernel has a thread: what is empty may not be read here."""
    task = f"/proc/{pid}/task/{thread}"
    about = {"state": (fields_of(thread) or {}).get("state", ""), "wchan": read(task + "/wchan"),
             "syscall": read(task + "/syscall"), "stack": read(task + "/stack").splitlines()[:LINES_OF_STACK]}
    return {name: value for name, value in about.items() if value not in ("", "0", [])}


def picture(pids, folder, look=0.2):
    """Of each process: its name, state and the calls that do not end while one looks."""
    first = {pid: calls(pathlib.Path(folder) / str(pid)) for pid in pids}
    time.sleep(look)
    pictures = []
    for pid in sorted(pids):
        fields = fields_of(pid)
        if fields is None:
            continue
        now = calls(pathlib.Path(folder) / str(pid))
        still = [{"thread": thread, "call": call, "number": number}
                 for thread, (call, number) in sorted(now.items()) if first[pid].get(thread) == (call, number)]
        for each in still:
            each.update(in_kernel(pid, each["thread"]))
        about = {"pid": pid, "program": fields["name"], "state": fields["state"], "calls": still}
        if not still:
            about["kernel"] = [{"thread": int(thread)} | in_kernel(pid, thread) for thread in threads_of(pid)]
        pictures.append(about)
    return pictures


def threads_of(pid):
    try:
        return sorted(os.listdir(f"/proc/{pid}/task"), key=int)[:32]
    except OSError:
        return []


def sentence(pictures):
    """In words: which calls, in which programs."""
    words = [f"{each['program']} ({each['pid']}) in " + ", ".join(sorted({call["call"] for call in each["calls"]}))
             for each in pictures if each["calls"]]
    return "; ".join(words) or "; ".join(
        f"{each['program']} ({each['pid']}, {each['state']}): no call was noted" for each in pictures)
