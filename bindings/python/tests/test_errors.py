# SPDX-License-Identifier: Apache-2.0
"""Every error that the host backend can be made to give arrives as its class, with its numbers."""

from __future__ import annotations

import math
import mmap
import pathlib
import threading

import pytest

import weir
from tests_support import PAGE
from weir import errors


def test_invalid_argument_names_the_value(pool: weir.Pool) -> None:
    with pytest.raises(weir.InvalidArgument, match="0") as caught:
        pool.buffer(0)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.result, caught.value.use_index) == (weir.Result.INVALID_ARGUMENT, None)
    assert caught.value.device == weir.HOST  # none is concerned


def test_invalid_handle() -> None:
    with weir.Arena(64) as arena, pytest.raises(weir.InvalidHandle):
        arena.free(12345)


def test_closed_is_an_invalid_handle(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    buffer.close()
    with pytest.raises(weir.Closed, match="the buffer is closed") as caught:
        pool.acquire(stream, weir.read(buffer))
    assert isinstance(caught.value, weir.InvalidHandle)
    with pytest.raises(weir.Closed, match="buffer"):
        buffer.query()
    assert (caught.value.device, caught.value.use_index) == (weir.HOST, None)
    buffer.close()  # twice is allowed


def test_not_supported(pool: weir.Pool) -> None:
    with pytest.raises(weir.NotSupported):
        pool.buffer(4096).register_host(mmap.mmap(-1, 8192))


def test_over_budget_tells_the_numbers(pool: weir.Pool, stream: weir.Stream) -> None:
    buffer = pool.buffer(6 * PAGE)
    with pytest.raises(weir.OverBudget) as caught:
        pool.acquire(stream, weir.read(buffer))
    error = caught.value
    assert isinstance(error, MemoryError)
    assert (error.asked, error.available, error.short_by) == (6 * PAGE, 4 * PAGE, 2 * PAGE)
    assert (error.tier, error.device) == (weir.Tier.DEVICE, 0)
    assert str(error) == error.message != ""


def test_would_block_and_timeout(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(3 * PAGE), pool.buffer(2 * PAGE)
    with pool.acquire(stream, weir.overwrite(first)):
        with pytest.raises(weir.WouldBlock):
            pool.acquire(stream, weir.overwrite(second))
        with pytest.raises(weir.Timeout) as caught:
            pool.acquire(stream, weir.overwrite(second), timeout=0.01)
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(weir.InvalidArgument):  # without a deadline it needs sole_holder
            pool.acquire(stream, weir.overwrite(second), timeout=math.inf)


def test_a_report_names_who_has_the_memory(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second, large = (pool.buffer(n * PAGE, name=name) for n, name in ((3, "first"), (2, "second"), (5, "large")))
    with pool.acquire(stream, weir.overwrite(first)):
        with pytest.raises(weir.WouldBlock) as blocked:
            pool.acquire(stream, weir.overwrite(second))
        report = weir.last_error_report()
        assert report.startswith(blocked.value.message)
        assert '"first"' in report
        assert "leased (1)" in report
        assert "What to do: " in report
        with pytest.raises(weir.Timeout):
            pool.acquire(stream, weir.overwrite(second), timeout=0.01)
        assert '"first"' in weir.last_error_report()
        with pytest.raises(weir.LeaseConflict):
            pool.acquire(stream, weir.read(first))
        assert '"first"' in weir.last_error_report()
    with pytest.raises(weir.OverBudget) as over:
        pool.acquire(stream, weir.read(large))
    assert weir.last_error_report().startswith(over.value.message)
    assert '"first"' in weir.last_error_report()
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(weir.last_error_report()))
    thread.start()
    thread.join()
    assert told == [""]  # each thread has its own
    with pytest.raises(weir.InvalidArgument) as caught:
        pool.buffer(0)
    assert weir.last_error_report() == caught.value.message + "\n"


def test_a_report_of_any_length_is_whole(pool: weir.Pool, stream: weir.Stream) -> None:
    large = pool.buffer(5 * PAGE)
    buffers = [pool.buffer(PAGE, name="\1" * 255) for _ in range(4)]
    for buffer in buffers:
        pool.acquire(stream, weir.overwrite(buffer)).release()
    with pytest.raises(weir.OverBudget):
        pool.acquire(stream, weir.read(large))
    report = weir.last_error_report()
    assert report.count("\\x01") >= 4 * 255
    assert report.endswith("\n")


def test_a_host_call_has_no_report(pool: weir.Pool, stream: weir.Stream) -> None:
    with pytest.raises(RuntimeError, match="must not call Weir"):
        stream.host_call(weir.last_error_report).result()


def test_lease_conflict_names_the_use(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(PAGE), pool.buffer(PAGE)
    with pool.acquire(stream, weir.write(second)), pytest.raises(weir.LeaseConflict) as caught:
        pool.acquire(stream, weir.read(first), weir.read(second))
    assert caught.value.use_index == 1


def test_busy(pool: weir.Pool, context: weir.Context, stream: weir.Stream) -> None:
    buffer = pool.buffer(PAGE)
    with pool.acquire(stream, weir.overwrite(buffer)):
        for each in (buffer, stream, pool, context):
            with pytest.raises(weir.Busy):
                each.close()
            assert not each.closed


def test_device_out_of_memory(context: weir.Context, stream: weir.Stream) -> None:
    with context.pool(128 << 20, host_budget=4 * PAGE) as pool:  # the device has 64 MiB
        buffer = pool.buffer(96 << 20)
        with pytest.raises(weir.DeviceOutOfMemory) as caught:
            pool.acquire(stream, weir.overwrite(buffer))
        assert isinstance(caught.value, MemoryError)
        assert pool.stats.device_oom > 0


def test_corrupt() -> None:
    blob = bytearray(weir.compress(bytes(range(256)) * 4096))
    blob[len(blob) // 2] ^= 1
    with pytest.raises(weir.Corrupt):
        weir.decompress(blob)
    with pytest.raises(weir.Corrupt):
        weir.compressed_info(b"no blob")


def test_backend(tmp_path: pathlib.Path) -> None:
    with pytest.raises(weir.BackendError, match="absent"):
        weir.Context(backend_paths=[tmp_path / "absent.so"])


def test_io(context: weir.Context, tmp_path: pathlib.Path) -> None:
    with pytest.raises(weir.IoError, match="absent") as caught:
        context.pool(4 * PAGE, storage_budget=8 * PAGE, storage_paths=[tmp_path / "absent"])
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == caught.value.native_code != 0


def test_cancelled_by_the_end_of_a_removal(context: weir.Context) -> None:
    with context.pool({0: 4 * PAGE, 1: 4 * PAGE}) as pool, context.stream(1) as stream:
        buffer = pool.buffer(PAGE, home=1)
        caught: list[BaseException] = []

        def remove() -> None:
            try:
                pool.remove_device(1)
            except weir.WeirError as error:
                caught.append(error)

        with pool.acquire(stream, weir.overwrite(buffer)):
            thread = threading.Thread(target=remove)
            thread.start()
            while pool.device_stats(1).state != weir.DeviceState.LEAVING and thread.is_alive():
                pass
            with pytest.raises(weir.DeviceRemoved):
                pool.acquire(stream, weir.read(pool.buffer(PAGE)))
            pool.cancel_remove(1)
            thread.join()
        assert [type(each) for each in caught] == [weir.Cancelled]
        pool.remove_device(1, timeout=10)
        with pytest.raises(weir.DeviceRemoved, match="device 1 has left the pool"):
            pool.acquire(stream, weir.read(buffer))
        pool.add_device(1, 4 * PAGE)
        pool.acquire(stream, weir.read(buffer)).release()


def test_forked(run_python: object) -> None:
    source = """
import os, weir
context = weir.Context("host.memory=64M", search=False)
pool = context.pool(8 << 20)
child = os.fork()
if child == 0:
    try:
        pool.stats
    except weir.Forked:
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
child = os.fork()
if child == 0:
    raise SystemExit(9)  # finalizers and the end of the interpreter do no harm in a child
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
pool.close()
context.close()
"""
    done = run_python(source, "-W", "ignore::DeprecationWarning")  # type: ignore[operator]
    assert (done.returncode, done.stderr) == (0, "")


def test_out_of_host_memory(run_python: object) -> None:
    source = """
import resource, weir
context = weir.Context("host.memory=64M", search=False)
pool = context.pool(8 << 20, host_budget=weir.NONE)
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + (16 << 20), -1))
try:
    buffers = [pool.buffer(4 << 30) for _ in range(1 << 20)]
except weir.OutOfHostMemory as error:
    assert isinstance(error, MemoryError) and error.result == weir.Result.OUT_OF_HOST_MEMORY
except (weir.BackendError, MemoryError) as error:  # the system may refuse addresses, or Python's own memory, first
    print(type(error).__name__)
else:
    raise SystemExit("nothing was refused")
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
"""
    done = run_python(source)  # type: ignore[operator]
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("result", list(errors.CLASSES))
def test_every_code_has_a_message_of_its_own(result: weir.Result) -> None:
    # DEVICE_LOST, DATA_LOST, STREAM_CAPTURING and INTERNAL can't be had of the host backend.
    error = errors.make(result, "")
    assert type(error) is errors.CLASSES[result]
    assert error.message != ""
    assert error.message == str(error)


def test_a_number_of_a_newer_library_is_an_error_too() -> None:
    assert type(errors.make(-999, "words")) is weir.WeirError
