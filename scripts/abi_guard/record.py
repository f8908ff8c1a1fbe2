# SPDX-License-Identifier: Apache-2.0
"""The record of one interface: a text with every struct's layout, every function, type and number, made to be read in a
diff. A C program, made from the declarations and run, tells sizes, offsets and values; so they are the compiler's.

The record knows nothing of paths, dates or versions of tools: the same headers give the same text on every machine with
the same sizes of C's types."""

import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field

from . import headers

INTERFACES = {
    "weir": (["weir.h"], "the C ABI of libweir.so, as weir/weir.h declares it"),
    "backend": (["backend.h"], "the backend ABI, as weir/backend.h declares it, with what it borrows from the C ABI"),
}


@dataclass
class Member:
    name: str
    type: str
    offset: int
    size: int


@dataclass
class Layout:
    size: int
    align: int
    grows: bool
    members: list = field(default_factory=list)


@dataclass
class Record:
    interface: str
    major: int
    structs: dict = field(default_factory=dict)     # name -> Layout
    functions: dict = field(default_factory=dict)   # name -> (result, [(type, name)])
    typedefs: dict = field(default_factory=dict)    # name -> text
    constants: dict = field(default_factory=dict)   # name -> text of the value
    macros: list = field(default_factory=list)


def program(found, header):
    """The C program that prints what only a compiler knows."""
    lines = [f"#include <weir/{header}>", "#include <inttypes.h>", "#include <stdio.h>",
             "static void text(const char *name, const char *value) { printf(\"constant %s = \\\"%s\\\"\\n\", name, value); }",
             "static void number(const char *name, int64_t value) { printf(\"constant %s = %\" PRId64 \"\\n\", name, value); }",
             "static void natural(const char *name, uint64_t value) {",
             "  printf(value > 65536 ? \"constant %s = 0x%\" PRIx64 \"\\n\" : \"constant %s = %\" PRIu64 \"\\n\", name, value);",
             "}",
             "#define SHOW(name, value) _Generic((value), char *: text, const char *: text, int: number, long: number, \\",
             "  long long: number, unsigned: natural, unsigned long: natural, unsigned long long: natural)(name, value)",
             "#define SIZE(type, name) sizeof(((type *)0)->name)",
             "int main(void) {"]
    for struct in found.structs:
        lines.append(f'  printf("struct {struct.name}: %zu bytes, aligned to %zu\\n", sizeof(struct {struct.name}), '
                     f'_Alignof(struct {struct.name}));')
        for item in struct.fields:
            path = f"struct {struct.name}, {item.name}"
            element = item.name + "[0]" * item.dimensions
            count = f"SIZE({path}) / SIZE(struct {struct.name}, {element})" if item.dimensions else "(size_t)1"
            lines.append(f'  printf("field %zu %zu %zu {item.name}\\n", offsetof({path}), SIZE({path}), {count});')
    lines += [f'  SHOW("{name}", {name});' for name in found.constants]
    return "\n".join([*lines, "  return 0;", "}", ""])


def ask_compiler(cc, include, source):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "layout.c"
        binary = pathlib.Path(folder) / "layout"
        file.write_text(source, encoding="utf-8")
        done = subprocess.run([*cc, "-std=c11", "-w", f"-I{include}", str(file), "-o", str(binary)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise headers.HeaderError(f"the headers do not compile:\n{done.stderr}")
        return subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout.splitlines()


def read_tree(cc, include, interface, major):
    """The record of one interface as the headers below `include` are now."""
    names, _ = INTERFACES[interface]
    own = headers.declarations(cc, include, INTERFACES["weir"][0]) if interface != "weir" else None
    found = headers.declarations(cc, include, names, own)
    record = Record(interface, major, typedefs=dict(sorted(found.typedefs.items())), macros=found.macros)
    record.functions = {f.name: (f.result, f.parameters) for f in sorted(found.functions, key=lambda f: f.name)}
    structs = {struct.name: struct for struct in found.structs}
    current = None
    for line in ask_compiler(cc, include, program(found, names[0])):
        if line.startswith("struct "):
            name, size, align = re.match(r"struct (\w+): (\d+) bytes, aligned to (\d+)", line).groups()
            current = structs[name]
            record.structs[name] = Layout(int(size), int(align), current.grows)
        elif line.startswith("field "):
            _, offset, size, count, name = line.split()
            declared = next(item for item in current.fields if item.name == name)
            kind = declared.type + (f"[{count}]" if declared.dimensions else "")
            record.structs[current.name].members.append(Member(name, kind, int(offset), int(size)))
        else:
            name, value = re.match(r"constant (\w+) = (.*)", line).groups()
            if not re.match(r"WEIR_VERSION_", name):  # they change with every release
                record.constants[name] = value
    record.structs = dict(sorted(record.structs.items()))
    return record


def declared_as(kind, name):
    """A type and a name as C writes them."""
    if "(*)" in kind:
        return kind.replace("(*)", f"(*{name})", 1)
    array = re.match(r"(.*?)(\[.*)$", kind)
    if array and "(" not in kind:
        return f"{declared_as(array.group(1), name)}{array.group(2)}"
    return kind + ("" if kind.endswith("*") else " ") + name


def write(record):
    """The record as text."""
    lines = [f"# The record of {INTERFACES[record.interface][1]}.",
             "# Written by scripts/check-abi --update, and read by scripts/check-abi; docs/abi.md says what may change.",
             f"interface {record.interface}, major version {record.major}", ""]
    lines += [f"constant {name} = {value}" for name, value in record.constants.items()]
    lines += ["", *(f"macro {name}" for name in record.macros), ""]
    lines += [f"typedef {name} = {kind}" for name, kind in record.typedefs.items()]
    for name, layout in record.structs.items():
        kind = "may grow" if layout.grows else "fixed"
        lines += ["", f"struct {name}: {layout.size} bytes, aligned to {layout.align}, {kind}"]
        lines += [f"  {m.offset:5} {m.size:5}  {m.name}: {m.type}" for m in layout.members]
    lines.append("")
    for name, (result, parameters) in record.functions.items():
        inner = ", ".join(declared_as(kind, parameter) for kind, parameter in parameters) or "void"
        lines.append(f"function {declared_as(result, name)}({inner})")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def read(text, where):
    """A record from its text."""
    record, layout = None, None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "interface":
                name, major = re.fullmatch(r"(\w+), major version (\d+)", rest).groups()
                record = Record(name, int(major))
            elif word == "constant":
                name, _, value = rest.partition(" = ")
                record.constants[name] = value
            elif word == "macro":
                record.macros.append(rest)
            elif word == "typedef":
                name, _, kind = rest.partition(" = ")
                record.typedefs[name] = kind
            elif word == "struct":
                name, size, align, kind = re.fullmatch(r"(\w+): (\d+) bytes, aligned to (\d+), (may grow|fixed)", rest).groups()
                layout = record.structs[name] = Layout(int(size), int(align), kind == "may grow")
            elif word == "function":
                tokens = [t for t in headers.TOKEN.findall(rest) if not t.isspace()]
                opening = tokens.index("(")
                name, result, _ = headers.declarator(tokens[:opening])
                record.functions[name] = (result, headers.read_parameters(tokens[opening + 1:-1]))
            else:
                offset, size, name, kind = re.fullmatch(r"(\d+)\s+(\d+)\s+(\w+): (.*)", line.strip()).groups()
                layout.members.append(Member(name, kind, int(offset), int(size)))
        except (AttributeError, ValueError) as error:
            raise headers.HeaderError(f"{where}:{number}: not a line of a record: {line}") from error
    if record is None:
        raise headers.HeaderError(f"{where}: not a record")
    return record
