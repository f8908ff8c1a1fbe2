# SPDX-License-Identifier: Apache-2.0
"""Turns Weir's public headers into what cffi reads, and that into the C source of the extension `weir._capi`.

The headers that lie beside the installed library are the only source: no copy of the interface is kept here that could
fall behind them. In cffi's API mode the C compiler checks every declaration against the headers again, and gives sizes,
offsets and constants; so what this script gets wrong does not compile. It must never guess a value.

    make_cdef.py --include DIR --cc CC --helpers native/helpers.h --out _capi.c [--cdef-out weir.cdef]
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# cffi knows these types itself; the system's own headers would only be in the way.
REPLACED_HEADERS = ("stddef.h", "stdint.h")
DEFINE = re.compile(r"^#define (WEIR_[A-Z0-9_]+) (.+)$")
PLAIN_NUMBER = re.compile(r"^(0x[0-9a-f]+|[0-9]+)$")
NUMBER = re.compile(r"^\(?(UINT(32|64)_C\((0x[0-9a-f]+|[0-9]+)\)|UINT64_MAX)( - 1\))?$")
TERM = r"(WEIR_[A-Z0-9_]+|[0-9]+)"
SUM = re.compile(rf"^\({TERM}( [-+*] {TERM})+\)$")


def preprocess(include, compiler, *options):
    """The headers without comments, includes and attributes; a static build has no attributes."""
    with tempfile.TemporaryDirectory() as folder:
        for name in REPLACED_HEADERS:
            (pathlib.Path(folder) / name).write_text("")
        command = [*compiler, "-E", "-P", "-nostdinc", "-DWEIR_STATIC", "-I", folder, "-I", str(include), *options,
                   "-x", "c", str(pathlib.Path(include) / "weir" / "weir.h")]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def constants(include, compiler):
    """#defines that are numbers. The compiler gives the values of those that need a macro to say them."""
    lines = []
    for line in preprocess(include, compiler, "-dD").splitlines():
        found = DEFINE.match(line.strip())
        if not found:
            continue
        name, value = found.groups()
        if name == "WEIR_STATIC":
            continue
        if PLAIN_NUMBER.match(value):
            lines.append(f"#define {name} {value}")
        elif NUMBER.match(value) or SUM.match(value):
            lines.append(f"#define {name} ...")
    return lines


def declarations_of(path):
    """The part of the helpers' header that cffi is to see."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return re.search(r"/\* cdef begin \*/\n(.*?)/\* cdef end \*/", text, re.S).group(1)


def make_cdef(include, compiler, helpers):
    declarations = preprocess(include, compiler)
    if "weir_acquire(" not in declarations:
        raise SystemExit(f"{include}/weir/weir.h does not declare weir_acquire: is it Weir's?")
    return "\n".join([*constants(include, compiler), declarations, declarations_of(helpers),
                      (pathlib.Path(helpers).parent / "callbacks.cdef").read_text(encoding="utf-8")])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", required=True, help="the folder that holds weir/weir.h")
    parser.add_argument("--cc", required=True, nargs="+", help="the C compiler")
    parser.add_argument("--helpers", required=True, help="native/helpers.h")
    parser.add_argument("--out", required=True, help="the C source to write")
    parser.add_argument("--cdef-out", help="also write what cffi is given")
    arguments = parser.parse_args()

    import cffi  # only here: tests import this file's functions where cffi is not needed

    text = make_cdef(arguments.include, arguments.cc, arguments.helpers)
    if arguments.cdef_out:
        pathlib.Path(arguments.cdef_out).write_text(text, encoding="utf-8")
    builder = cffi.FFI()
    builder.cdef(text)
    builder.set_source("weir._capi", '#include <weir/weir.h>\n#include "helpers.h"\n#include "helpers_impl.h"\n',
                       py_limited_api=False)
    builder.emit_c_code(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
