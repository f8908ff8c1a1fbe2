#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the memory snapshots of this folder: in the shape of torch.cuda.memory._dump_snapshot, by Python's own pickle.

None of them is from a run of PyTorch. A small model of its caching allocator makes the history of a training loop on one device, and
one of two devices with two streams; README.md says what is in each.

  make.py [FOLDER]   the same files each time
"""
import pathlib
import pickle
import sys


class Allocator:
    """Blocks of 512 bytes' multiples in segments of 2 MiB (20 MiB for what is larger), first fit; frees at once."""

    def __init__(self, device, clock, stream=0):
        self.device, self.clock, self.stream = device, clock, stream
        self.segments, self.trace, self.next = [], [], 0x7f0000000000 + device * 0x100000000 + (0x10000000 if stream else 0)

    def event(self, action, addr, size, frames):
        self.clock[0] += 7
        self.trace.append({"action": action, "addr": addr, "size": size, "stream": self.stream, "time_us": self.clock[0],
                           "frames": frames})

    def malloc(self, size, frames):
        rounded = (size + 511) // 512 * 512
        for segment in self.segments:
            for i, block in enumerate(segment["blocks"]):
                if block["state"] == "inactive" and block["size"] >= rounded:
                    return self.place(segment, i, size, rounded, frames)
        total = (2 << 20) if rounded <= (1 << 20) else (20 << 20)
        segment = {"device": self.device, "address": self.next, "total_size": total, "allocated_size": 0, "active_size": 0,
                   "requested_size": 0, "stream": self.stream, "segment_type": "small" if total == 2 << 20 else "large",
                   "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames,
                   "blocks": [{"address": self.next, "size": total, "requested_size": 0, "state": "inactive", "frames": []}]}
        self.next += total
        self.segments.append(segment)
        self.event("segment_alloc", segment["address"], total, frames)
        return self.place(segment, 0, size, rounded, frames)

    def place(self, segment, i, size, rounded, frames):
        block = segment["blocks"][i]
        addr, rest = block["address"], block["size"] - rounded
        segment["blocks"][i] = {"address": addr, "size": rounded, "requested_size": size, "state": "active_allocated", "frames": frames}
        if rest:
            segment["blocks"].insert(i + 1, {"address": addr + rounded, "size": rest, "requested_size": 0, "state": "inactive",
                                             "frames": []})
        self.count(segment, rounded, size)
        self.event("alloc", addr, size, frames)
        return addr

    def free(self, addr):
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["address"] == addr and block["state"] == "active_allocated":
                    self.event("free_requested", addr, block["requested_size"], [])
                    self.event("free_completed", addr, block["requested_size"], [])
                    self.count(segment, -block["size"], -block["requested_size"])
                    block.update(state="inactive", requested_size=0, frames=[])
                    return self.merge(segment)
        raise KeyError(addr)

    @staticmethod
    def count(segment, size, requested):
        segment["allocated_size"] += size
        segment["active_size"] += size
        segment["requested_size"] += requested

    @staticmethod
    def merge(segment):
        merged = []
        for block in segment["blocks"]:
            if merged and merged[-1]["state"] == block["state"] == "inactive":
                merged[-1]["size"] += block["size"]
            else:
                merged.append(block)
        segment["blocks"] = merged


def frames(line, function):
    """Shared by all events of a place, as PyTorch shares them."""
    return [{"name": "malloc", "filename": "/build/c10/cuda/CUDACachingAllocator.cpp", "line": 0},
            {"name": "linear", "filename": "/usr/lib/python3/site-packages/torch/nn/functional.py", "line": 116},
            {"name": function, "filename": "/home/user/train.py", "line": line},
            {"name": "<module>", "filename": "/home/user/train.py", "line": 80}]


PLACES = {name: frames(line, name) for name, line in (("weights", 12), ("forward", 31), ("backward", 44), ("optimizer", 57))}


def train(allocator, steps, layers, width):
    weights = [allocator.malloc(width * width * 4, PLACES["weights"]) for _ in range(layers)]
    for _ in range(steps):
        live = [allocator.malloc(width * (300 + 77 * layer), PLACES["forward"]) for layer in range(layers)]
        grads = []
        for activation in reversed(live):
            grads.append(allocator.malloc(width * width * 4, PLACES["backward"]))
            allocator.free(activation)
        scratch = allocator.malloc(width * width * 8, PLACES["optimizer"])
        for grad in grads:
            allocator.free(grad)
        allocator.free(scratch)
    return weights


def snapshot(allocators, devices, keep=None):
    traces = [sorted((e for a in allocators if a.device == d for e in a.trace), key=lambda e: e["time_us"]) for d in range(devices)]
    if keep is not None:  # a ring buffer: what is older is forgotten
        traces = [trace[-keep:] for trace in traces]
    return {"segments": [s for a in allocators for s in a.segments], "device_traces": traces,
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False},
            "external_annotations": []}


def older(data):
    """As PyTorch 1.13 wrote it: blocks have a history, and no addresses; events have no times."""
    for segment in data["segments"]:
        for block in segment["blocks"]:
            del block["address"]
            found = block.pop("frames")
            if block.pop("requested_size"):
                block["history"] = [{"addr": 0, "real_size": block["size"], "frames": found}]
    for trace in data["device_traces"]:
        for event in trace:
            del event["time_us"]
    return data


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    clock = [1700000000000000]
    one = Allocator(0, clock)
    weights = train(one, 4, 6, 256)
    one.trace.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": clock[0], "frames": []})
    (folder / "training.pickle").write_bytes(pickle.dumps(snapshot([one], 1), protocol=4))

    two = [Allocator(0, clock), Allocator(0, clock, 94000000000001), Allocator(1, clock)]
    for allocator in two:
        train(allocator, 2, 3, 200)
    (folder / "two_devices_cut.pickle").write_bytes(pickle.dumps(snapshot(two, 2, keep=25), protocol=5))

    clock[0] = 0
    old = Allocator(0, clock)
    train(old, 1, 2, 128)
    (folder / "older.pickle").write_bytes(pickle.dumps(older(snapshot([old], 1)), protocol=2))
    assert weights


if __name__ == "__main__":
    main()
