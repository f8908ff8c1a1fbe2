# SPDX-License-Identifier: Apache-2.0
"""What machine it is, and what its kernel complained of. Programs of the driver's are run as steps are: one that is stuck is
left behind."""
import os
import pathlib
import platform
import re
import time

from gpu_check import runner, watch

NVIDIA_FIELDS = ("name", "driver_version", "memory.total", "memory.used", "pcie.link.gen.current", "pcie.link.gen.max",
                 "pcie.link.width.current", "pcie.link.width.max", "persistence_mode", "compute_mode", "ecc.mode.current",
                 "mig.mode.current")
XID = re.compile(r"NVRM: Xid[^\n]*")


def kernel_is_gvisor(version, kernel_messages=""):
    """gVisor's kernel says that it is a Linux 4.4.0 of one day in 2016, and starts with jokes."""
    return "gvisor" in (version + kernel_messages).lower() or version.endswith("Sun Jan 10 15:06:54 PST 2016")


def messages(run):
    """The kernel's messages; None where they can't be read."""
    record = run("kernel messages", ["dmesg"], 10, "")
    return record["output"] if record["outcome"] == "passed" else None


def xids(text):
    """The NVIDIA driver's complaints; None: the messages can't be read."""
    return None if text is None else XID.findall(text)


def describe(kernel_messages):
    cpu = next((line.split(":", 1)[1].strip() for line in watch.read("/proc/cpuinfo").splitlines()
                if line.startswith("model name")), platform.machine())
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except (OSError, AttributeError):
        system = ""
    version = watch.read("/proc/version")
    gvisor = kernel_is_gvisor(version, kernel_messages or "")
    return {"kind": "gvisor" if gvisor else "linux", "cpu": cpu, "cpus": os.cpu_count(), "kernel": platform.release(),
            "kernel_version": version, "system": system, "libc": " ".join(platform.libc_ver()),
            "nvidia_kernel": watch.read("/proc/driver/nvidia/version"),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}


def nvidia(run):
    """What nvidia-smi says of the devices: a list, and the record of asking. A field that it does not know is left out."""
    fields = list(NVIDIA_FIELDS)
    while True:
        record = run("nvidia-smi", ["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader"], 30, "gpu")
        unknown = re.search(r'Field "([^"]+)" is not a valid field', record.get("output", ""))
        if not unknown or unknown.group(1) not in fields:
            break
        fields.remove(unknown.group(1))
    lines = record.pop("output", "").splitlines() if record["outcome"] == "passed" else []
    return [dict(zip(fields, (word.strip() for word in line.split(",")))) for line in lines], record


def may_be_shared(cards):
    """Whether several processes may use the card at once."""
    return all(card.get("compute_mode", "Default") == "Default" for card in cards)


def asker(of, environment):
    """run(name, command, limit, device) for the above: a step of its own."""
    def run(name, command, limit, device):
        step = runner.Step(name, "", command, environment, limit, device=device)
        return of.run(step, time.monotonic() + limit + 2, keep_output=True) | {"step": name}
    return run


def exists(command):
    return any((pathlib.Path(folder) / command).is_file() for folder in os.environ.get("PATH", "").split(os.pathsep))
