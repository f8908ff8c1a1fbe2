# SPDX-License-Identifier: Apache-2.0
"""Reads the declarations of C headers: structs, functions, types, enumerators and macros, as the preprocessor leaves them.

It knows the C that the public headers are written in, and nothing more: what it cannot name is an error, never skipped,
so no declaration can slip past the guard. It must not need the system's headers: those of the standard that the public
headers include are stood in for by empty ones."""

import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field

TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|[A-Za-z_]\w*|\d[\w.]*|\.\.\.|->|<<|>>|[^\s\w]')
STANDARD = ("stddef.h", "stdint.h")
# What every header has for itself.
PLUMBING = re.compile(r"_H$|^WEIR_API$|^WEIR_BEGIN_DECLS$|^WEIR_END_DECLS$")


class HeaderError(Exception):
    """A header that the guard cannot read, or that does not compile."""


@dataclass
class Field:
    name: str
    type: str          # as written; "char[]" for an array, whose count the compiler tells
    dimensions: int = 0


@dataclass
class Struct:
    name: str
    fields: list

    @property
    def grows(self):
        """Structs that begin with struct_size may grow at their end; all others have their size for ever."""
        return bool(self.fields) and self.fields[0].name == "struct_size" and self.fields[0].type == "uint32_t"


@dataclass
class Function:
    name: str
    result: str
    parameters: list   # (type, name)


@dataclass
class Declarations:
    structs: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    typedefs: dict = field(default_factory=dict)   # name -> text
    constants: list = field(default_factory=list)  # enumerators, then macros that have a value
    macros: list = field(default_factory=list)     # names of the others: initialisers, and macros with arguments


def spaced(tokens):
    """Tokens as one canonical text."""
    text = " ".join(tokens)
    text = re.sub(r"\s*\(\s*", "(", text)
    text = re.sub(r"\s*\)", ")", text)
    text = re.sub(r"\s*,\s*", ", ", text)
    text = re.sub(r"\*\s+(?=[\w*()])", "*", text)
    text = re.sub(r"(?<=\w)\(\*", " (*", text)
    return text.strip()


def preprocess(cc, include, names, arguments):
    text = "".join(f"#include <weir/{name}>\n" for name in names)
    with tempfile.TemporaryDirectory() as folder:
        for standard in STANDARD:
            (pathlib.Path(folder) / standard).write_text("", encoding="utf-8")
        command = [*cc, "-E", "-nostdinc", "-x", "c", "-std=c99", f"-I{include}", f"-I{folder}", *arguments, "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HeaderError(f"the headers do not get through the preprocessor:\n{done.stderr}")
    return done.stdout


def closing(tokens, at, opens="(", closes=")"):
    """The index of what closes the bracket at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index] == opens) - (tokens[index] == closes)
        if depth == 0:
            return index
    raise HeaderError(f"'{opens}' is not closed in: {spaced(tokens[at:at + 12])}")


def split(tokens, separator):
    """Cuts at the separators that are in no brackets."""
    parts, depth = [[]], 0
    for token in tokens:
        depth += (token in "([{") - (token in ")]}")
        if token == separator and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def declarator(tokens):
    """Name, type as text, and number of dimensions of one declared thing."""
    what = spaced(tokens)
    if ":" in tokens or "{" in tokens or "union" in tokens:
        raise HeaderError(f"the guard has no rule for: {what}")
    for at in range(len(tokens) - 2):
        if tokens[at] == "(" and tokens[at + 1] == "*" and tokens[at + 2] != ")":
            inner = tokens[at + 2:closing(tokens, at)]
            if len(inner) == 1:
                return inner[0], spaced(tokens[:at + 2] + tokens[at + 3:]), 0
            raise HeaderError(f"the guard has no rule for: {what}")
    dimensions = 0
    while tokens[-1] == "]":
        opening = len(tokens) - 1 - tokens[::-1].index("[")
        tokens, dimensions = tokens[:opening], dimensions + 1
    if "," in tokens or "(" in tokens or "[" in tokens or len(tokens) < 2:
        raise HeaderError(f"the guard has no rule for: {what}")
    return tokens[-1], spaced(tokens[:-1]), dimensions


def read_struct(name, tokens):
    fields = []
    for part in split(tokens, ";"):
        several = split(part, ",")
        # `uint64_t offset, length;`: plain names of one type.
        if len(several) > 1 and all(len(more) == 1 for more in several[1:]) and "*" not in part:
            field_name, kind, _ = declarator(several[0])
            fields += [Field(other, kind) for other in [field_name, *(more[0] for more in several[1:])]]
        elif part:
            field_name, kind, dimensions = declarator(part)
            fields.append(Field(field_name, kind, dimensions))
    return Struct(name, fields)


def read_parameters(tokens):
    if tokens == ["void"] or not tokens:
        return []
    parameters = []
    for part in split(tokens, ","):
        name, kind, dimensions = declarator(part)
        if dimensions:
            raise HeaderError(f"the guard has no rule for: {spaced(part)}")
        parameters.append((kind, name))
    return parameters


def read_typedef(tokens, found):
    if tokens[0] == "struct" and len(tokens) > 2 and tokens[2] == "{":
        end = closing(tokens, 2, "{", "}")
        if tokens[end + 1:] != [tokens[1]]:
            raise HeaderError(f"struct {tokens[1]} is named otherwise as a type")
        found.structs.append(read_struct(tokens[1], tokens[3:end]))
        return
    name, kind, dimensions = declarator(tokens)
    if dimensions:
        raise HeaderError(f"the guard has no rule for: typedef {spaced(tokens)}")
    found.typedefs[name] = kind


def read_declaration(tokens, found):
    if tokens[0] == "typedef":
        read_typedef(tokens[1:], found)
    elif tokens[0] == "enum":
        opening = tokens.index("{")
        found.constants += [part[0] for part in split(tokens[opening + 1:closing(tokens, opening, "{", "}")], ",") if part]
    elif tokens[0] == "struct" and len(tokens) == 2:
        pass  # names a type that another header defines
    elif tokens[-1] == ")":
        opening = tokens.index("(")
        name, result, _ = declarator(tokens[:opening])
        found.functions.append(Function(name, result, read_parameters(tokens[opening + 1:-1])))
    else:
        raise HeaderError(f"the guard has no rule for: {spaced(tokens)}")


def declarations(cc, include, names, own=None):
    """What the headers weir/<name> declare, with those that they include; or what is not in `own` (a Declarations), but for what the
    backend ABI borrows from there."""
    text = preprocess(cc, include, names, ["-P"])
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    tokens = [token for token in TOKEN.findall(text) if not token.isspace()]
    found = Declarations()
    part, depth = [], 0
    for token in tokens:
        depth += (token in "({[") - (token in ")}]")
        if token == ";" and depth == 0:
            read_declaration(part, found)
            part = []
        else:
            part.append(token)
    if part:
        raise HeaderError(f"the headers end within: {spaced(part)}")
    read_macros(preprocess(cc, include, names, ["-dM"]), found)
    if own is not None:
        subtract(found, own)
    return found


def read_macros(text, found):
    values = []
    for line in text.splitlines():
        defined = re.match(r"#define (WEIR_\w+)(\([^)]*\))?(.*)$", line)
        if not defined or PLUMBING.search(defined.group(1)):
            continue
        name, arguments, value = defined.group(1), defined.group(2), defined.group(3).strip()
        if arguments or value.startswith("{"):
            found.macros.append(name + (arguments or ""))
        elif value:
            values.append(name)
        else:
            raise HeaderError(f"the macro {name} has no value")
    found.macros.sort()
    found.constants += sorted(values)


# What backends are built against although the C ABI declares it: it is of both interfaces.
BORROWED = re.compile(r"WEIR_(SUCCESS|NOT_READY|ERROR_(?!INFO)\w+|CAP_\w+|LINK_(?!FIGURE|INFO)\w+|LOG_\w+|DEVICE_HOST)|"
                      r"weir_(result|device|log_callback|host_function|backend_query_fn)")


def subtract(found, own):
    """Takes away what is another interface's."""
    structs = {s.name for s in own.structs}
    functions = {f.name for f in own.functions}
    found.structs = [s for s in found.structs if s.name not in structs]
    found.functions = [f for f in found.functions if f.name not in functions]
    found.typedefs = {n: t for n, t in found.typedefs.items() if n not in own.typedefs or BORROWED.fullmatch(n)}
    found.constants = [c for c in found.constants if c not in set(own.constants) or BORROWED.fullmatch(c)]
    found.macros = [m for m in found.macros if m not in set(own.macros)]
