# SPDX-License-Identifier: Apache-2.0
"""The guard's own test: small headers with one of everything, and one change of each kind. Each break must be found and named,
each growth must pass; libabigail must see what it can see. The headers are the test's own, so that it means the same
whatever becomes of Weir's."""

import pathlib
import tempfile
from dataclasses import dataclass

from . import headers, libabigail, record, rules

WEIR_H = """
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H
#include <stddef.h>
#include <stdint.h>
#define WEIR_API __attribute__((visibility("default")))
typedef int32_t weir_result;
typedef uint32_t weir_device;
typedef struct weir_pool_s *weir_pool;
enum { WEIR_SUCCESS = 0, WEIR_ERROR_IO = -17 };
enum { WEIR_READ = 1, WEIR_WRITE = 2, WEIR_MODE_SLOTS = 3 };
#define WEIR_WHOLE UINT64_MAX
#define WEIR_NAME "weir"
#define WEIR_USE(length) {(length), 0, {0, 0}}
typedef void (*weir_callback)(void *user, weir_result result);
typedef struct weir_use {
  uint64_t length;
  uint64_t address;
  uint64_t reserved[2];
} weir_use;
typedef struct weir_desc {
  uint32_t struct_size;
  weir_device device;
  uint64_t budget;
  uint64_t size;
  const char *name;
  weir_callback callback;
  uint32_t threads;
} weir_desc;
#define WEIR_DESC_INIT {sizeof(weir_desc), 0, 0, 0, 0, 0, 0}
typedef struct weir_counts {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t modes[WEIR_MODE_SLOTS];
} weir_counts;
WEIR_API weir_result weir_create(const weir_desc *desc, weir_pool *pool);
WEIR_API weir_result weir_acquire(weir_pool pool, weir_use *uses, size_t count);
WEIR_API weir_result weir_discard(weir_pool pool, uint64_t offset, weir_device device);
WEIR_API weir_result weir_count(weir_pool pool, weir_counts *counts);
WEIR_API const char *weir_text(void);
#endif
"""
BACKEND_H = """
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H
#include <weir/weir.h>
#define WEIR_BACKEND_ABI_MAJOR 0
typedef struct weir_be_copy {
  uint64_t source;
  uint64_t bytes;
} weir_be_copy;
typedef struct weir_backend_table {
  uint32_t struct_size;
  uint32_t abi_major;
  weir_result (*copy)(const weir_be_copy *copy, uint32_t count);
  weir_result (*wait)(uint64_t fence);
} weir_backend_table;
#endif
"""


@dataclass
class Case:
    name: str
    old: str            # in the headers
    new: str
    names: str = ""     # in what is told
    sees: bool = True   # libabigail does
    interface: str = "weir"
    header: str = ""    # the interface's own if it is not named


BREAKS = [
    Case("a removed function", "WEIR_API weir_result weir_discard(weir_pool pool, uint64_t offset, weir_device device);\n", "",
         "function weir_discard is gone"),
    Case("a changed parameter type", "uint64_t offset,", "uint32_t offset,", "(offset) of weir_discard was uint64_t, is uint32_t"),
    Case("a changed result", "const char *weir_text(void)", "weir_result weir_text(void)", "weir_text returned const char *"),
    Case("a parameter more", "weir_use *uses, size_t count)", "weir_use *uses, size_t count, uint64_t flags)",
         "weir_acquire took 3 parameters, takes 4"),
    Case("a changed integer type", "typedef uint32_t weir_device", "typedef uint64_t weir_device", "type weir_device was uint32_t"),
    Case("a changed callback", "(void *user, weir_result result)", "(void *user, int64_t result)", "weir_callback was"),
    Case("reordered fields", "  uint64_t budget;\n  uint64_t size;\n", "  uint64_t size;\n  uint64_t budget;\n",
         "weir_desc.budget was at byte 8, is at 16"),
    Case("a changed field type", "  uint64_t size;\n", "  int64_t size;\n", "weir_desc.size was uint64_t, is int64_t"),
    Case("a removed field", "  uint64_t size;\n", "", "weir_desc.size is gone"),
    Case("a field in the middle", "  uint64_t size;\n", "  uint64_t extra;\n  uint64_t size;\n", "weir_desc.extra is new, within"),
    Case("a shrunk struct", "  uint32_t threads;\n", "", "weir_desc had 48 bytes, has 40"),
    # Older programs leave garbage there: it would be read as a value.
    Case("a field in the padding at the end", "  uint32_t threads;\n", "  uint32_t threads;\n  uint32_t more;\n",
         "weir_desc.more is new, within the first 48 bytes", sees=False),
    Case("a fixed struct that grew", "  uint64_t reserved[2];\n} weir_use", "  uint64_t reserved[2];\n  uint64_t more;\n} weir_use",
         "fixed size of 32 bytes, and now has 40"),
    Case("a struct without its size", "  uint32_t struct_size;\n  weir_device device;", "  uint32_t bytes;\n  weir_device device;",
         "no longer begins with struct_size", sees=False),
    Case("a changed enumerator", "WEIR_WRITE = 2", "WEIR_WRITE = 4", "WEIR_WRITE was 2, is 4", sees=False),
    Case("a removed enumerator", "WEIR_READ = 1, ", "", "WEIR_READ (= 1) is gone", sees=False),
    Case("a count that shrank", "WEIR_MODE_SLOTS = 3", "WEIR_MODE_SLOTS = 2", "WEIR_MODE_SLOTS was 3, is 2"),
    Case("an array at the end that grew", "WEIR_MODE_SLOTS = 3", "WEIR_MODE_SLOTS = 4",
         "weir_counts.modes was uint64_t[3], is uint64_t[4]"),
    Case("an array in the middle that grew", "  uint32_t threads;\n", "  uint32_t threads;\n",  # replaced below
         "weir_counts.last was at byte 32, is at 40"),
    Case("a changed macro", "WEIR_WHOLE UINT64_MAX", "WEIR_WHOLE 0", "WEIR_WHOLE was 0xffffffffffffffff, is 0", sees=False),
    Case("a changed text", '"weir"', '"Weir"', 'WEIR_NAME was "weir", is "Weir"', sees=False),
    Case("a removed initialiser", "#define WEIR_DESC_INIT {sizeof(weir_desc), 0, 0, 0, 0, 0, 0}\n", "",
         "macro WEIR_DESC_INIT is gone", sees=False),
    Case("a reordered table", "  weir_result (*copy)(const weir_be_copy *copy, uint32_t count);\n  weir_result (*wait)(uint64_t fence);\n",
         "  weir_result (*wait)(uint64_t fence);\n  weir_result (*copy)(const weir_be_copy *copy, uint32_t count);\n",
         "weir_backend_table.copy was at byte 8", interface="backend"),
    Case("a changed entry of a table", "(*wait)(uint64_t fence)", "(*wait)(uint64_t fence, uint64_t timeout)",
         "weir_backend_table.wait was", interface="backend"),
    Case("a fixed struct of a backend that grew", "  uint64_t bytes;\n} weir_be_copy", "  uint64_t bytes;\n  uint64_t more;\n} weir_be_copy",
         "weir_be_copy has a fixed size of 16", interface="backend"),
    Case("a changed number that backends answer", "WEIR_ERROR_IO = -17", "WEIR_ERROR_IO = -18", "WEIR_ERROR_IO was -17, is -18",
         sees=False, interface="backend", header="weir"),
]
GROWTH = [
    Case("nothing", "", ""),
    Case("another name of a parameter", "uint64_t offset,", "uint64_t begin,"),
    Case("another name of the same type", "weir_device device);", "uint32_t device);"),
    Case("a new function", "#endif\n", "WEIR_API weir_result weir_more(weir_pool pool);\n#endif\n", "function weir_more is new"),
    Case("a new enumerator", "WEIR_MODE_SLOTS = 3", "WEIR_DISCARD = 2, WEIR_MODE_SLOTS = 3", "WEIR_DISCARD = 2 is new"),
    Case("a new macro", "#define WEIR_NAME", "#define WEIR_MORE 7\n#define WEIR_NAME", "WEIR_MORE = 7 is new"),
    Case("fields at the end", "  uint32_t threads;\n", "  uint32_t threads;\n  uint64_t more;\n",
         "weir_desc.more is new, at the end"),
    Case("two fields in one declaration", "  uint64_t budget;\n  uint64_t size;\n", "  uint64_t budget, size;\n"),
    Case("reserved words in use", "  uint64_t reserved[2];\n", "  uint32_t flags;\n  uint32_t reserved0;\n  uint64_t reserved;\n",
         "weir_use.flags uses words that were reserved"),
    Case("a new struct", "#endif\n", "typedef struct weir_new { uint32_t struct_size; uint32_t a; } weir_new;\n#endif\n",
         "struct weir_new is new"),
    Case("a new entry of a table", "(*wait)(uint64_t fence);\n", "(*wait)(uint64_t fence);\n  void (*more)(void);\n",
         "weir_backend_table.more is new, at the end", interface="backend"),
]
UNREADABLE = [
    Case("a bit field", "  uint32_t threads;\n", "  uint32_t threads : 4;\n"),
    Case("a union", "  uint32_t threads;\n", "  union { int a; float b; } both;\n"),
    Case("pointers and numbers in one", "  uint32_t threads;\n", "  uint32_t *threads, more;\n"),
    Case("a macro without a value", "#define WEIR_NAME", "#define WEIR_EMPTY\n#define WEIR_NAME"),
    Case("a variable", "#endif\n", "extern int weir_variable;\n#endif\n"),
]


class Bench:
    """A folder with the headers as they were and as a case makes them."""

    def __init__(self, cc, folder, with_libabigail):
        self.cc, self.folder, self.with_libabigail = cc, folder, with_libabigail
        self.before = self.tree("before", WEIR_H, BACKEND_H)
        self.old = {i: record.read(record.write(record.read_tree(cc, self.before, i, 0)), i) for i in record.INTERFACES}
        self.recorded = {i: self.library(self.before, i, self.old[i], "before") for i in record.INTERFACES} if with_libabigail else {}
        for interface, library in self.recorded.items():
            libabigail.dump(library, folder / f"{interface}.abi.xml")

    def tree(self, name, weir, backend):
        include = self.folder / name / "include"
        (include / "weir").mkdir(parents=True, exist_ok=True)
        (include / "weir/weir.h").write_text(weir, encoding="utf-8")
        (include / "weir/backend.h").write_text(backend, encoding="utf-8")
        return include

    def library(self, include, interface, now, name):
        return libabigail.stub(self.cc, include, interface, now, self.folder / name, "WEIR_1")

    def changed(self, case):
        texts = {"weir": WEIR_H, "backend": BACKEND_H}
        if case.name == "an array in the middle that grew":
            return self.middle_array()
        header = case.header or case.interface
        if case.old and texts[header].count(case.old) == 0:
            raise AssertionError(f"{case.name}: the headers have no \"{case.old}\"")
        # The last match: "#endif" and the like stand at the end.
        if case.old:
            head, _, tail = texts[header].rpartition(case.old)
            texts[header] = head + case.new + tail
        return self.tree("after", texts["weir"], texts["backend"]), self.old

    def middle_array(self):
        """Something stands behind the array, so a greater count moves it."""
        last = "  uint64_t modes[WEIR_MODE_SLOTS];\n"
        before = self.tree("middle", WEIR_H.replace(last, last + "  uint64_t last;\n"), BACKEND_H)
        old = {i: record.read_tree(self.cc, before, i, 0) for i in record.INTERFACES}
        if self.with_libabigail:
            libabigail.dump(self.library(before, "weir", old["weir"], "middle"), self.folder / "middle.abi.xml")
        after = (before / "weir/weir.h").read_text(encoding="utf-8").replace("SLOTS = 3", "SLOTS = 4")
        return self.tree("after", after, BACKEND_H), old

    def outcome(self, case):
        """What the rules and libabigail find. libabigail is asked also where the rules have found a break, since what the one
        misses the other must not need."""
        include, old = self.changed(case)
        now = record.read_tree(self.cc, include, case.interface, 0)
        changes = rules.compare(old[case.interface], now)
        if not self.with_libabigail:
            return changes, None
        recorded = self.folder / ("middle.abi.xml" if case.name == "an array in the middle that grew" else f"{case.interface}.abi.xml")
        library = self.library(include, case.interface, now, "after")
        return changes, libabigail.differences(recorded, library, changes, self.folder)


def problems_of(bench):
    for case in BREAKS:
        changes, second = bench.outcome(case)
        if not any(case.names in line for line in changes.breaks):
            yield f"{case.name} is not found; told was: {changes}"
        if second is not None and case.sees and not second:
            yield f"{case.name} is not found by libabigail"
    for case in GROWTH:
        changes, second = bench.outcome(case)
        if changes.breaks:
            yield f"{case.name} passes for a break: {changes.breaks}"
        if case.names and not any(case.names in line for line in changes.growth):
            yield f"{case.name} is not told; told was: {changes}"
        if not case.names and changes.growth:
            yield f"{case.name} passes for growth: {changes.growth}"
        if second:
            yield f"{case.name} is a break to libabigail:\n{second}"
    for case in UNREADABLE:
        try:
            bench.outcome(case)
        except headers.HeaderError:
            continue
        yield f"{case.name} is read past"


def run(cc, with_libabigail):
    if with_libabigail and not libabigail.there():
        print("check-abi: libabigail is not installed (abigail-tools); --no-libabigail does without")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        problems = list(problems_of(Bench(cc, pathlib.Path(folder), with_libabigail)))
    for problem in problems:
        print(f"check-abi self-test: {problem}")
    asked = "libabigail too" if with_libabigail else "without libabigail"
    print(f"check-abi self-test: {len(BREAKS)} breaks, {len(GROWTH)} kinds of growth, {len(UNREADABLE)} unreadable headers ({asked}): "
          f"{len(problems)} wrong")
    return 1 if problems else 0
