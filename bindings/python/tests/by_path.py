# SPDX-License-Identifier: Apache-2.0
"""A backend that is named by its path, on whatever driver it finds: more bytes than its device's budget are written, carried
through the device and read back. Needs neither NumPy nor PyTorch.

    by_path.py PLUGIN NAME    NAME is what the backend calls itself"""

import sys

import weir

plugin, name = sys.argv[1:]
with weir.Context("host.memory=64M", search=False, backend_paths=[plugin]) as context:
    backend = [info.name for info in context.backends].index(name)
    device = next(info.index for info in context.devices if info.backend == backend)
    with context.pool({device: 8 << 20}, host_budget=64 << 20) as pool:
        buffers = [pool.buffer(2 << 20) for _ in range(8)]
        with context.stream(weir.HOST) as cpu, context.stream(device) as stream:
            for value, buffer in enumerate(buffers):
                with pool.acquire(cpu, weir.overwrite(buffer)) as lease, memoryview(lease[0]) as memory:
                    memory[:] = bytes([value + 1]) * len(memory)
            for buffer in buffers:
                with pool.acquire(stream, weir.write(buffer)):
                    pass  # its only copy is on the device now
            for value, buffer in enumerate(buffers):
                with pool.acquire(cpu, weir.read(buffer)) as lease:
                    assert lease[0].tobytes() == bytes([value + 1]) * buffer.size
        up = pool.stats.promoted_bytes >> 20
assert up >= 16, up
print(f"by path: {name}, {up} MiB moved up to device {device}, all bytes right")
