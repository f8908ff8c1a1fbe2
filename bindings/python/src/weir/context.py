# SPDX-License-Identifier: Apache-2.0
"""Contexts: loaded backends, the devices they found, and the links between them.

The callable for the log is kept by the context's native handle, so it must not refer to the context; if it does, the two
are cyclic garbage like any other."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import enums
from ._arguments import Paths, device_number, known_options, paths
from ._capi import ffi, lib
from ._core import Closable, entered, nanoseconds, text_or_null, unraisable, watch
from ._outputs import exported
from ._sizes import Size, size_in_bytes
from .errors import check
from .records import BackendInfo, CalibrateReport, DeviceInfo, LinkInfo, known_or_number, record, sized

if TYPE_CHECKING:
    from .pool import Pool
    from .stream import Stream
    from .trace import Trace

_TOPOLOGY = {"json": lib.WEIR_TOPOLOGY_JSON, "text": lib.WEIR_TOPOLOGY_TEXT, "svg": lib.WEIR_TOPOLOGY_SVG}
#: Receives one line of the log. It runs on any thread and must not call Weir.
LogCallback = Callable[[enums.LogLevel, str], object]


class Context(Closable):
    """The root object. Contexts are independent of each other.

    options: of the backends and the topology, {"backend.key": value} or "backend.key=value" joined by ";"; None reads the
      environment variable WEIR_OPTIONS. The host backend's are for trying things out: "host.memory=64M".
    backend_paths: files of backends to load, beside those that are found.
    host_backend: False leaves out the backend whose device is CPU memory.
    search: False loads no backends from the folder beside libweir.
    log: called with each line of the log, as (weir.LogLevel, str), on any thread; it must not call Weir. None leaves it to the
      environment variable WEIR_LOG: "info" writes lines of that level and worse to stderr, as do "error", "warning" and "debug".
    stacks: True keeps the call stack of each buffer and allocation, as far as it is C's, for reports and snapshots;
      WEIR_STACKS=1 in the environment does the same.
    natives: objects of the program that backends are to use in place of their own, {"vulkan": handles}: the address of a struct of
      that backend's header, as a number or a pointer of cffi. It is copied.
    start_timeout: how long one backend may take to start before it is given up (None: 60 s)."""

    _kind = "context"
    _waits = True

    def __init__(
        self,
        options: str | Mapping[str, object] | None = None,
        *,
        backend_paths: Paths | None = None,
        host_backend: bool = True,
        search: bool = True,
        log: LogCallback | None = None,
        stacks: bool = False,
        natives: Mapping[str, Any] | None = None,
        start_timeout: float | None = None,
    ) -> None:
        desc = sized("weir_context_desc")
        desc.flags = (
            (0 if host_backend else lib.WEIR_CONTEXT_NO_HOST_BACKEND)
            | (0 if search else lib.WEIR_CONTEXT_NO_SEARCH)
            | (lib.WEIR_CONTEXT_STACKS if stacks else 0)
        )
        if isinstance(options, Mapping):
            options = ";".join(f"{key}={value}" for key, value in options.items())
        if options is not None and not isinstance(options, (str, bytes, os.PathLike)):
            raise TypeError(f'options are a text such as "host.memory=64M", or a mapping, not {options!r}')
        text = text_or_null(options)
        files = [text_or_null(path) for path in paths(backend_paths)]
        desc.options = text
        path_list = ffi.new("char *[]", [*files, ffi.NULL])
        desc.backend_paths = path_list if backend_paths is not None else ffi.NULL
        self._log = None if log is None else ffi.new_handle(log)
        if self._log is not None:
            desc.log, desc.log_user = lib.weirpy_log, self._log
        desc.start_timeout_ns = nanoseconds(start_timeout)
        native_names = [text_or_null(name) for name in natives or ()]
        native_list = ffi.new("weir_native[]", len(native_names))
        for entry, name, handles in zip(native_list, native_names, (natives or {}).values(), strict=True):
            entry.backend, entry.handles = name, ffi.cast("void *", handles)
        desc.native_count = len(native_names)
        if native_names:
            desc.natives = native_list
        out = ffi.new("weir_context *")
        check(lib.weir_context_create(desc, out))
        self._take(out[0], True)
        watch(4, self)

    def _take(self, raw: Any, owned: bool) -> None:
        self._streams: dict[tuple[int, int | None], Stream] = {}
        self._stream_lock = threading.Lock()
        self._begin(raw, owned)

    @classmethod
    def from_handle(cls, handle: int, *, owned: bool = False) -> Context:
        """A context that another language in this process has made; with `owned`, closing this closes it."""
        self = cls.__new__(cls)
        self._log = None
        self._take(ffi.cast("weir_context", handle), owned)
        if owned:
            watch(4, self)
        return self

    def _destroy(self) -> int:
        for stream in list(self._streams.values()):
            stream._close_kept()
        self._streams = {key: stream for key, stream in self._streams.items() if not stream.closed}
        return int(lib.weir_context_destroy(self._raw))

    def _kept_stream(self, device: int, native: int | None = None) -> Stream:
        """A stream that ends with the context: made on a device, or the wrapper of a native one."""
        from .stream import Stream

        with self._stream_lock:
            found = self._streams.get((device, native))
            if found is None:
                found = Stream(self, device) if native is None else Stream._wrap(self, native, device)
                found._warns = False
                self._streams[(device, native)] = found
            return found

    def _at_exit(self, rank: int) -> None:
        self.close()

    # ---- what there is ----

    @property
    def backends(self) -> list[BackendInfo]:
        """What became of each backend that was found, also of those that are not available."""
        with entered(self):
            count = ffi.new("uint32_t *")
            check(lib.weir_backend_count(self._raw, count))
            infos = []
            for index in range(count[0]):
                info = sized("weir_backend_info")
                check(lib.weir_backend_info_get(self._raw, index, info))
                infos.append(record(BackendInfo, info))
            return infos

    @property
    def device_count(self) -> int:
        with entered(self):
            count = ffi.new("uint32_t *")
            check(lib.weir_device_count(self._raw, count))
            return int(count[0])

    def device(self, which: SupportsIndex | str | None = None) -> DeviceInfo:
        """A device, with the memory that is free now as its runtime tells it.

        ``which`` is a device's number, or a text that means one: ``"gpu"`` is the GPU with the most free memory,
        ``"gpu:1"`` the second GPU, ``"cuda:0"`` the first of a backend, and a UUID or a PCI address that card. Of several with
        commas between the first that is there counts: ``"gpu,host"`` takes the host's memory only where there is no GPU.
        ``None`` is the environment variable WEIR_DEVICE, or ``"gpu"`` where that is not set. The answer's ``index`` is the
        number. InvalidArgument lists what there is.
        """
        with entered(self):
            index = self._found(which) if which is None or isinstance(which, str) else device_number(which)
            info = sized("weir_device_info")
            check(lib.weir_device_info_get(self._raw, index, info))
            return record(DeviceInfo, info, index=index)

    def _found(self, wish: str | None) -> int:
        number = ffi.new("weir_device *")
        check(lib.weir_device_find(self._raw, ffi.NULL if wish is None else wish.encode(), number))
        return int(number[0])

    def native_memory(self, device: SupportsIndex, address: int, kind: int, out: Any) -> None:
        """Writes the runtime's own object behind an address of a lease into the struct of the backend's header at `out`, a number
        or a pointer of cffi; its size is set. NotSupported where addresses are what the runtime takes."""
        with entered(self):
            check(lib.weir_native_memory(self._raw, device_number(device), address, kind, ffi.cast("void *", out)))

    @property
    def devices(self) -> list[DeviceInfo]:
        return [self.device(index) for index in range(self.device_count)]

    def link(self, source: int, target: int) -> LinkInfo:
        """The path between two places; either may be weir.HOST."""
        with entered(self):
            info = sized("weir_link_info")
            check(lib.weir_link_info_get(self._raw, source, target, info))
            return record(LinkInfo, info)

    # ---- topology ----

    def topology(self, format: str = "json") -> str:
        """The machine with the context's devices in it, as "json", "text" or "svg"."""
        if format not in _TOPOLOGY:
            raise ValueError(f"a topology as {format!r}; there are {', '.join(_TOPOLOGY)}")
        with entered(self):
            return exported(lambda *out: lib.weir_topology_export(self._raw, _TOPOLOGY[format], *out))

    def topology_document(self) -> dict[str, Any]:
        """The JSON form, parsed."""
        document: dict[str, Any] = json.loads(self.topology())
        return document

    def calibrate(
        self, *, max_time: float | None = None, max_bytes: Size = 0, cache: bool = True
    ) -> CalibrateReport:
        """Measures every direct link, for this context and, with `cache`, for later ones of this user: pools choose better ways
        then. `max_time` is for all links together (None: 5 s), `max_bytes` is how much memory may be held at once (0: "64M"). An
        IoError leaves the figures valid in this context."""
        desc = sized("weir_calibrate_desc")
        desc.flags = 0 if cache else lib.WEIR_CALIBRATE_NO_CACHE
        desc.max_ns, desc.max_bytes = nanoseconds(max_time), size_in_bytes(max_bytes, "max_bytes")
        report = sized("weir_calibrate_report")
        with entered(self):
            check(lib.weir_topology_calibrate(self._raw, desc, report))
            return record(CalibrateReport, report)

    # ---- what its pools do ----

    def trace(self, path: str | os.PathLike[str], *, kind: str = "timeline", max_bytes: Size = 0) -> Trace:
        """Starts a trace of all pools of the context, those that it has and those that it gets, in a file that is not there
        yet; "%p" in `path` is the process's number. A "timeline" is for ui.perfetto.dev, a "recording" has the program's calls,
        for `weir replay`. It ends when its file has come to `max_bytes` (0: "1G"). Busy: one of that kind runs.

            with context.trace("timeline.json"):
                work()"""
        from .trace import Trace

        return Trace(self, path, kind, max_bytes)

    def metrics_text(self) -> str:
        """The figures of all pools of the context in Prometheus' text format 0.0.4, for a program that has an HTTP endpoint of
        its own (Content-Type "text/plain; version=0.0.4")."""
        with entered(self):
            return exported(lambda *out: lib.weir_metrics_text(self._raw, *out), 1 << 16)

    # ---- what is made of it ----

    def pool(self, devices: Size | Mapping[int, Size] | Mapping[DeviceInfo, Size], **options: Any) -> Pool:
        """A pool over devices of this context: {device: size}, or one size for device 0. The options are those of `weir.Pool`,
        which tells of each:

            gpu = context.device("gpu")
            context.pool({gpu: "80%"}, host_budget="64G", storage_budget="200G", storage_paths="/nvme")"""
        from .pool import Pool

        known_options("Context.pool", Pool.__init__, options, 3)
        return Pool(self, devices, **options)

    def stream(self, device: SupportsIndex = enums.DEFAULT) -> Stream:
        """A new stream on a device, or on weir.HOST: leases there give CPU addresses."""
        from .stream import Stream

        return Stream(self, device)

    def wrap_stream(self, native: int, device: SupportsIndex = 0) -> Stream:
        """Wraps a stream of the runtime, such as `torch.cuda.current_stream().cuda_stream`. It must outlive the wrapper."""
        from .stream import Stream

        return Stream._wrap(self, native, device)


_level = known_or_number(enums.LogLevel)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def weirpy_on_log(user: Any, level: int, text: Any) -> None:
    try:
        ffi.from_handle(user)(_level(level), ffi.string(text).decode(errors="replace"))
    except BaseException:
        unraisable("a log callback")
