# SPDX-License-Identifier: Apache-2.0
"""The package against the headers that it was built with: nothing of the C API is left out or written down wrongly."""

from __future__ import annotations

import dataclasses
import enum
import importlib.metadata
import inspect
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

import weir
from weir import buffer, enums, errors, lease, records
from weir._capi import ffi, lib

# Functions that Python has another way for.
NOT_WRAPPED: set[str] = {"weir_hold"}  # weir_hold_as with a mode
SOURCES = pathlib.Path(weir.__file__).parent


def names(prefix: str) -> set[str]:
    return {name for name in dir(lib) if name.startswith(prefix)}


def test_every_function_is_used() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.glob("*.py"))
    used = set(re.findall(r"lib\.(weir_\w+)", text))
    # In the fast path the helpers call them.
    used |= {"weir_acquire"}
    assert names("weir_") - used == NOT_WRAPPED
    assert used <= names("weir_")


PREFIXES: list[tuple[type[enum.Enum], str, set[str]]] = [
    (enums.Tier, "WEIR_TIER_", set()),
    (enums.Element, "WEIR_ELEMENT_", {"SLOTS"}),
    (enums.LogLevel, "WEIR_LOG_", set()),
    (enums.Capability, "WEIR_CAP_", set()),
    (enums.LinkFigure, "WEIR_LINK_FIGURE_", set()),
    (enums.Priority, "WEIR_PRIORITY_", set()),
    (enums.Trim, "WEIR_TRIM_", set()),
    (enums.Advice, "WEIR_ADVISE_", set()),
    (enums.DeviceState, "WEIR_POOL_DEVICE_", set()),
    (enums.PieceState, "WEIR_PIECE_", set()),
    (enums.Method, "WEIR_CODEC_", {"SLOTS"}),
    (enums.Compress, "WEIR_COMPRESS_LEVEL_", set()),
]


@pytest.mark.parametrize(("kind", "prefix", "others"), PREFIXES)
def test_enumerations_are_whole(kind: type[enum.Enum], prefix: str, others: set[str]) -> None:
    there = {name[len(prefix) :]: getattr(lib, name) for name in names(prefix)}
    assert {name: int(member.value) for name, member in kind.__members__.items()} == {
        name: value for name, value in there.items() if name not in others
    }


def test_results_are_whole_and_have_a_class_each() -> None:
    there = {getattr(lib, name) for name in names("WEIR_ERROR_")}
    answers = {lib.WEIR_SUCCESS, lib.WEIR_NOT_READY, lib.WEIR_INCOMPLETE}
    assert {int(each) for each in enums.Result} == there | answers
    assert all(each > 0 for each in answers - {lib.WEIR_SUCCESS})
    assert {int(each) for each in errors.CLASSES} == there
    assert all(cls.result == result for result, cls in errors.CLASSES.items())


def test_link_kinds_are_whole() -> None:
    there = {name for name in names("WEIR_LINK_") if "FIGURE" not in name}
    assert {f"WEIR_LINK_{each.name}" for each in enums.LinkKind} == there
    assert [str(enums.LinkKind.NVLINK), str(enums.LinkFigure.MEASURED)] == ["nvlink", "measured"]


STRUCTS: list[tuple[type[Any], str]] = [
    (records.BackendInfo, "weir_backend_info"),
    (records.DeviceInfo, "weir_device_info"),
    (records.LinkInfo, "weir_link_info"),
    (records.CalibrateReport, "weir_calibrate_report"),
    (records.PoolStats, "weir_pool_stats"),
    (records.PoolDeviceStats, "weir_pool_device_stats"),
    (records.ClientStats, "weir_client_stats"),
    (records.BufferInfo, "weir_buffer_info"),
    (records.DefragmentReport, "weir_defragment_report"),
    (records.DeviceLoss, "weir_device_loss"),
    (records.LostRange, "weir_lost_range"),
    (records.Piece, "weir_piece"),
    (records.CodecStats, "weir_codec_stats"),
    (records.CompressedInfo, "weir_compressed_info"),
    (records.ArenaStats, "weir_arena_stats"),
    (records.ArenaReport, "weir_arena_report"),
    (weir.BufferOptions, "weir_buffer_desc"),
    (weir.Shards, "weir_shard_desc"),
]


@pytest.mark.parametrize(("cls", "name"), STRUCTS)
def test_records_have_the_fields_of_their_structs(cls: type[Any], name: str) -> None:
    struct = {field for field, _ in ffi.typeof(name).fields}
    struct -= {"struct_size", "reserved", "reserved2"}
    own = {field.name for field in dataclasses.fields(cls)}
    if name == "weir_device_info":
        own -= {"index"}
    if name == "weir_buffer_desc":
        struct -= {"flags", "user_count"}
        own -= {"stable_address", "scrub", "lossy"}
    if name == "weir_shard_desc":
        struct -= {"device_count"}
    assert own == struct


def test_shards_have_the_fields_and_policies_of_the_header() -> None:
    assert [*records.Shard._fields, "reserved", "reserved2"] == [field for field, _ in ffi.typeof("weir_shard").fields]
    assert {f"WEIR_SHARD_{name.upper()}": value for name, value in buffer._POLICIES.items()} == {
        name: getattr(lib, name) for name in names("WEIR_SHARD_")
    }


def test_a_set_lies_as_the_c_structs_say(pool: weir.Pool, stream: weir.Stream) -> None:
    first, second = pool.buffer(1 << 20), pool.buffer(3 << 20)
    prepared = pool.prepare(
        stream, weir.read(first, 64, 128), weir.overwrite(second, remote=True), timeout=1.5, operation="name"
    )
    native = prepared._idle[0]
    assert (native.pool, native.stream, native.count) == (pool._raw, stream._raw, 2)
    uses = [(use.buffer, use.offset, use.length, use.mode, use.flags) for use in native.uses[0:2]]
    assert uses == [
        (first._raw, 64, 128, lib.WEIR_READ, 0),
        (second._raw, 0, lib.WEIR_WHOLE, lib.WEIR_DISCARD_WRITE, lib.WEIR_USE_ALLOW_REMOTE),
    ]
    options = native.options
    assert (options.struct_size, options.timeout_ns) == (ffi.sizeof("weir_acquire_options"), 1_500_000_000)
    assert (options.operation, options.operation_id) == (ffi.NULL, pool.operation_id("name"))
    gates = [native.gates[i] for i in range(native.gate_count)]
    assert gates == [pool._gate, stream._gate, first._gate, second._gate]
    assert native.lease == ffi.NULL
    assert (options.flags, native.lease, native.which) == (0, ffi.NULL, 0)
    assert lease._SET_REST.size + 2 * len(pool._word) == ffi.sizeof("weirpy_set")
    assert lease._USE_REST.size + len(pool._word) == ffi.sizeof("weir_use")
    plain = pool.prepare(stream, weir.write(first), sole_holder=True, operation=0)._idle[0]
    assert (plain.options.flags, plain.options.timeout_ns, plain.options.operation) == (
        lib.WEIR_ACQUIRE_SOLE_HOLDER, 0, ffi.NULL
    )  # fmt: skip
    assert plain.options.operation_id == 0
    assert (plain.uses[0].mode, plain.count, plain.gate_count) == (lib.WEIR_READ_WRITE, 1, 3)


# Options with another name than their field, and fields that are put together of several options.
OPTIONS: list[tuple[Any, str, dict[str, str], set[str]]] = [
    (
        weir.Pool.__init__,
        "weir_pool_desc",
        {"evict_wait": "evict_wait_ns", "idle_grace": "idle_grace_ns", "recompress_idle": "recompress_idle_ns",
         "rebalance_rate": "rebalance_bytes_per_second"},
        {"context", "background", "peer", "checksum_host", "encrypt_storage", "buffered_storage", "io_uring", "name_operations"},
    ),
    (weir.Client.__init__, "weir_client_desc", {}, {"pool"}),
    (weir.Pool.defragment, "weir_defragment_desc", {"max_time": "max_ns"}, {"wait", "evict"}),
    (weir.Pool.set_defragmentation, "weir_defragmentation_desc", {}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("function", "name", "renamed", "flags"), OPTIONS)
def test_options_have_the_names_of_the_fields(function: Any, name: str, renamed: dict[str, str], flags: set[str]) -> None:
    fields = {field for field, _ in ffi.typeof(name).fields}
    fields -= {"struct_size", "reserved", "reserved2", "flags", "device_count", "storage_path_count", "user"}
    options = set(inspect.signature(function).parameters) - {"self"} - flags
    assert {renamed.get(option, option) for option in options} == fields


TOLD: list[tuple[Any, Any]] = [
    (weir.Context, weir.Context.__init__),
    (weir.Pool, weir.Pool.__init__),
    (weir.Client, weir.Client.__init__),
    (weir.BufferOptions, weir.BufferOptions),
    (weir.Shards, weir.Shards),
    (weir.Pool.defragment, weir.Pool.defragment),
    (weir.compress, weir.compress),
]


@pytest.mark.parametrize(("where", "function"), TOLD)
def test_every_option_is_told_in_the_docstring(where: Any, function: Any) -> None:
    told = set(re.findall(r"(?m)^ +((?:\w+, )*\w+): ", where.__doc__))
    names = {name for line in told for name in line.split(", ")}
    assert set(inspect.signature(function).parameters) - {"self", "context", "pool", "data"} - names == set()


def test_no_docstring_sends_to_the_headers() -> None:
    for path in SOURCES.glob("*.py"):
        assert not re.search(r"[Ss]ee weir_", path.read_text()), path.name


def test_versions_fit() -> None:
    numbers = (lib.WEIR_VERSION_MAJOR, lib.WEIR_VERSION_MINOR, lib.WEIR_VERSION_PATCH)
    assert numbers[0] * 1_000_000 + numbers[1] * 1000 + numbers[2] == lib.WEIR_VERSION_NUMBER
    assert weir.library_version == ".".join(map(str, numbers))
    assert weir.library_version_number == lib.WEIR_VERSION_NUMBER
    assert weir.__version__ == importlib.metadata.version(weir.__distribution__)
    assert weir.__version__.split(".")[:2] == [str(number) for number in numbers[:2]]


def test_a_library_that_is_older_than_the_headers_is_refused(tmp_path: pathlib.Path) -> None:
    older = tmp_path / "older.so"
    source = 'unsigned weir_version_number(void) { return 999999; } const char *weir_version_string(void) { return "0.999.999"; }'
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", older], input=source, text=True, check=True)
    done = subprocess.run(
        [sys.executable, "-c", "import weir"],
        env={**os.environ, "LD_PRELOAD": str(older)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"ImportError: the package weir was built with the headers of libweir {weir.library_version}" in done.stderr
    assert "0.999.999" in done.stderr
