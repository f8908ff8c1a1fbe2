# SPDX-License-Identifier: Apache-2.0
"""What a fresh environment with nothing but the wheel must do, without NumPy and PyTorch: the example of the package's own
documentation, by memoryview."""

import sys

import weir

with weir.Context("host.memory=64M", search=False) as context, context.pool(8 << 20, host_budget=32 << 20) as pool:
    buffers = [pool.buffer(2 << 20) for _ in range(8)]
    with context.stream(0) as stream:
        for value, buffer in enumerate(buffers):
            with pool.acquire(stream, weir.overwrite(buffer)) as lease, memoryview(lease[0]) as memory:
                memory[:] = bytes([value]) * len(memory)
        for value, buffer in enumerate(buffers):
            with pool.acquire(stream, weir.read(buffer)) as lease:
                assert lease[0].tobytes() == bytes([value]) * buffer.size
    moved = pool.stats.demoted_bytes >> 20
assert "numpy" not in sys.modules
assert weir.__file__.startswith(sys.prefix)
print(f"fresh environment: weir {weir.__version__} on libweir {weir.library_version}, moved {moved} MiB down, all bytes right")
