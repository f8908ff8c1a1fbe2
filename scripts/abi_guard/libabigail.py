# SPDX-License-Identifier: Apache-2.0
"""The second opinion: libabigail compares the record with the debug information of real code.

The record is written from the headers alone: a small C library with a body for every function that they declare, so it is
the same whatever the library is made of. What is compared with it is the library's own shim (api/src), compiled with debug
information and linked without the core, and the template of backends. The two must agree, which they do only if what is
exported has the types that the headers declare.

libabigail sees functions and the types that they reach. Enumerators, macros and the rule of struct_size it does not: those are
the text record's (record.py, rules.py), which therefore also says where a struct has grown as it may."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from . import record as records

QUIET = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--no-parameter-names",
         "--type-id-style", "hash"]
QUERY = "weir_backend_query"


class ToolError(Exception):
    """A compiler or libabigail failed, which says nothing about the ABI."""


def there():
    return shutil.which("abidw") is not None and shutil.which("abidiff") is not None


def run(command, accepted=(0,)):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode not in accepted:
        raise ToolError(f"{' '.join(str(part) for part in command[:1])} failed:\n{done.stderr or done.stdout}")
    return done


def body(result, name, parameters):
    inner = ", ".join(records.declared_as(kind, parameter) for kind, parameter in parameters) or "void"
    return f"WEIR_API {records.declared_as(result, name)}({inner}) {{ for (;;) {{}} }}"


def stub(cc, include, interface, record, folder, node):
    """A library that exports what the headers promise, and does nothing."""
    lines = ["#include <weir/weir.h>", "#include <weir/backend.h>"]
    if interface == "weir":
        lines += [body(result, name, parameters) for name, (result, parameters) in record.functions.items()]
    else:
        lines.append(body("const weir_backend_table *", QUERY, [("uint32_t", "abi_major")]))
    source, script, library = folder / f"{interface}.c", folder / f"{interface}.map", folder / f"lib{interface}.so"
    source.write_text("\n".join([*lines, ""]), encoding="utf-8")
    script.write_text(f"{node} {{ global: weir_*; local: *; }};\n", encoding="utf-8")
    run([*cc, "-std=c99", "-g", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-shared", f"-I{include}", source, "-o", library,
         f"-Wl,-soname,lib{interface}.so", f"-Wl,--version-script={script}"])
    return library


def dump(library, out):
    run(["abidw", *QUIET, "--out-file", out, library])


def shim(cxx, root, folder, node, jobs):
    """libweir.so without the core: what api/src exports, with debug information."""
    sources = sorted((root / "api/src").glob("*.cpp"))

    def compile_one(source):
        target = folder / f"{source.stem}.o"
        run([*cxx, "-std=c++20", "-g", "-O0", "-w", "-fPIC", "-fvisibility=hidden", f"-I{root}", f"-I{root / 'api/include'}",
             "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(max_workers=jobs) as workers:
        objects = list(workers.map(compile_one, sources))
    script, library = folder / "shim.map", folder / "libweir_shim.so"
    script.write_text(f"{node} {{ global: weir_*; local: *; }};\n", encoding="utf-8")
    run([*cxx, "-shared", *objects, "-o", library, "-Wl,-soname,libweir.so", f"-Wl,--version-script={script}"])
    return library


def template(cc, root, folder, node):
    """A backend in C, with debug information."""
    script, library = folder / "template.map", folder / "libweir_backend_template.so"
    script.write_text(f"{node} {{ global: {QUERY}; local: *; }};\n", encoding="utf-8")
    run([*cc, "-std=gnu11", "-g", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-shared", f"-I{root / 'api/include'}",
         *sorted((root / "examples/backend_template").glob("*.c")), "-o", library, "-pthread", "-Wl,-soname,libbackend.so",
         f"-Wl,--version-script={script}"])
    return library


def suppressions(changes):
    """The structs that the text rules found to have grown as they may, and nothing else."""
    lines = []
    for name in sorted(changes.longer | changes.recut):
        lines += ["[suppress_type]", "  type_kind = struct", f"  name = {name}"]
        if name not in changes.recut:
            # The second is what libabigail 2.6 asks for beside the first; 2.2 does not know it.
            lines += ["  has_data_member_inserted_at = end", "  has_size_change = yes"]
        lines.append("")
    return "\n".join(lines)


def differences(recorded, library, changes, folder):
    """What libabigail finds changed in `library` beside growth; "" if nothing."""
    allowed = folder / "growth.suppr"
    allowed.write_text(suppressions(changes), encoding="utf-8")
    command = ["abidiff", "--no-default-suppression", "--no-added-syms", "--no-show-locs",
               "--suppressions", allowed, recorded, library]
    done = run(command, accepted=(0, 4, 8, 12))
    return "" if done.returncode == 0 else done.stdout
