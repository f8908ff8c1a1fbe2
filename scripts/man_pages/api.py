# SPDX-License-Identifier: Apache-2.0
"""Pages of the C API, from the headers: section 3 has one for each function, with the structs, callbacks and constants that its
declaration and its comment name; section 7 one for each header, and weir(7) over all."""

import re

from . import comments, troff

ORDER = ["types", "context", "topology", "pool", "buffer", "lease", "observe", "arena", "codec"]
MANUAL = "Weir Programmer's Manual"


def field_list(struct, known):
    lines = []
    for item in struct.fields:
        meaning = item.meaning
        if item.name == "struct_size":
            meaning = f"set by `{struct.name.upper()}_INIT`" if struct.name.endswith(("_desc", "_options", "_report", "_info", "_stats")) \
                else "the size of the struct"
        elif re.match(r"reserved\d*$", item.name):
            continue
        kind, _, _ = item.text.rpartition(item.name)
        bold = troff.escape(item.text).replace(item.name, f"\\fB{item.name}\\fP", 1) if kind else troff.escape(item.text)
        lines += [".TP", bold, *troff.filled(meaning[:1].upper() + meaning[1:] + ("" if meaning.endswith(".") else "."), known)]
    return lines


def constant_list(enum, known):
    lines = [".PP", *troff.filled(enum.comment, known)] if enum.comment else []
    for item in enum.items:
        name, _, value = item.text.partition(" = ")
        lines += [".TP", f"\\fB{troff.escape(name)}\\fP" + (f" ({troff.escape(value)})" if value else "")]
        lines += troff.filled(item.meaning[:1].upper() + item.meaning[1:] + ("" if item.meaning.endswith(".") else "."), known) \
            if item.meaning else ["\\&"]
    return lines


def synopsis(prototype):
    """The declaration, as the compiler wants it, over as many lines as it takes."""
    text = re.sub(r"\s+", " ", prototype)
    head, _, inside = text.partition("(")
    parts = inside.rstrip(")").split(", ")
    lines, line = [], f"{head}("
    for number, part in enumerate(parts):
        part += ");" if number == len(parts) - 1 else ","
        if len(line) + len(part) > 70 and not line.endswith("("):
            lines.append(line.rstrip())
            line = "    "
        line += part + " "
    lines.append(line.rstrip())
    return [f"\\fB{troff.escape(entry)}\\fP" for entry in lines]


class Api:
    """All headers, and which page has what."""

    def __init__(self, include, version, date):
        self.headers = [comments.read(include / f"{name}.h") for name in ORDER]
        self.backend = comments.read(include / "backend.h")
        self.source, self.date = f"Weir {version}", date
        self.structs = {name: struct for header in self.headers for name, struct in header.structs.items()}
        self.types = {name: kind for header in self.headers for name, kind in header.types.items()}
        self.enums = [enum for header in self.headers for enum in header.enums]
        self.known = {function.name: 3 for header in self.headers for function in header.functions}

    def reachable(self, text):
        """Structs and callbacks that a declaration names, and those that these name."""
        found, queue = [], re.findall(r"\bweir_\w+", text)
        while queue:
            name = queue.pop(0)
            if name in found or name not in self.structs and name not in self.types:
                continue
            found.append(name)
            inside = " ".join(item.text for item in self.structs[name].fields) if name in self.structs else self.types[name][0]
            queue += re.findall(r"\bweir_\w+", inside)
        return found

    def constants_of(self, text):
        """Enums whose members the text names one by one, or all together as WEIR_PREFIX_*."""
        prefixes = set(re.findall(r"\b(WEIR_[A-Z0-9_]+_)\*", text))
        names = set(re.findall(r"\bWEIR_[A-Z0-9_]+\b", text))
        found = []
        for enum in self.enums:
            members = [item.name for item in enum.items]
            if any(member.startswith(prefix) and "ERROR" not in prefix for prefix in prefixes for member in members) or \
                    names & (set(members) - {"WEIR_SUCCESS", "WEIR_NOT_READY"} - {m for m in members if m.startswith("WEIR_ERROR_")}):
                found.append(enum)
        return found

    def function_page(self, header, function):
        description = troff.body(function.comment, self.known)
        text = f"{function.prototype} {function.comment}"
        types = []
        for name in self.reachable(function.prototype):
            if name in self.structs:
                struct = self.structs[name]
                text += " ".join(f"{item.text} {item.meaning}" for item in struct.fields)
                types += [f".SS struct {name}", *troff.filled(struct.comment, self.known), *field_list(struct, self.known)]
            else:
                declaration, comment = self.types[name]
                types += [f".SS {name}", ".EX", *synopsis(f"typedef {declaration}"), ".EE", *troff.body(comment, self.known)]
        constants = []
        for enum in self.constants_of(text):
            constants += constant_list(enum, self.known)
        brief = re.split(r"(?<=[.:;]) |\n\n|[.:;]$", " ".join(function.comment.split()))[0].rstrip(".:;").replace("`", "")
        if len(brief) > 90:
            brief = f"{brief[:87].rsplit(' ', 1)[0]} ..."
        returns = ["A", "\\fBweir_result\\fP:", "\\fBWEIR_SUCCESS\\fP (0), or an error, which is negative, or an answer that is none, which is positive.",
                   "\\fBweir_last_error\\fP(3) has the thread's last error in words, and \\fBweir_last_error_info\\fP(3) its numbers.",
                   "What every function may answer is in \\fBweir_types\\fP(7)."]
        related = [other.name for other in header.functions if other.name != function.name]
        see = [f"\\fB{name}\\fP(3)" for name in related[:12]]
        see = ["\\fBweir\\fP(7)", f"\\fBweir_{header.name}\\fP(7)", *see]
        return troff.page(function.name, 3, self.date, self.source, MANUAL, [
            ("NAME", [f"{function.name} \\- {troff.escape(brief)}"]),
            ("LIBRARY", ["Weir (\\fIlibweir\\fP, \\fI\\-lweir\\fP)"]),
            ("SYNOPSIS", [".nf", f"\\fB#include <weir/{header.name}.h>\\fP", ".PP", *synopsis(function.prototype), ".fi"]),
            ("DESCRIPTION", description),
            ("RETURN VALUE", [" ".join(returns[:2]), *returns[2:]] if function.prototype.startswith("weir_result ") else []),
            ("TYPES", types),
            ("CONSTANTS", constants),
            ("SEE ALSO", [f"{entry}," if number < len(see) - 1 else entry for number, entry in enumerate(see)]),
        ])

    def header_page(self, header):
        functions = []
        for function in header.functions:
            brief = re.split(r"(?<=[.:;]) |\n\n", " ".join(function.comment.split()))[0].rstrip(":;")
            functions += [".TP", f"\\fB{function.name}\\fP(3)", *troff.filled(brief, self.known)]
        others = [f"\\fBweir_{other.name}\\fP(7)" for other in [*self.headers, self.backend] if other is not header]
        types = []
        if header is self.backend:
            for struct in header.structs.values():
                types += [f".SS struct {struct.name}", *troff.filled(struct.comment, self.known), *field_list(struct, self.known)]
        constants = []
        if header.name == "types":
            for enum in header.enums:
                constants += constant_list(enum, self.known)
        return troff.page(f"weir_{header.name}", 7, self.date, self.source, MANUAL, [
            ("NAME", [f"weir_{header.name} \\- {troff.escape(header.title.rstrip('.').replace('`', ''))}"]),
            ("SYNOPSIS", [f"\\fB#include <weir/{header.name}.h>\\fP"]),
            ("DESCRIPTION", troff.body(header.head, self.known)),
            ("FUNCTIONS", functions),
            ("TYPES", types),
            ("CONSTANTS", constants),
            ("SEE ALSO", ["\\fBweir\\fP(7),", *(f"{entry}," for entry in others[:-1]), others[-1]]),
        ])

    def overview(self, text):
        """weir(7): the text of docs/man, and what there is by header."""
        sections = [(heading, troff.body(words, self.known)) for heading, words in text]
        headers = []
        for header in [*self.headers, self.backend]:
            headers += [".TP", f"\\fBweir_{header.name}\\fP(7)", *troff.filled(header.title, self.known)]
        return troff.page("weir", 7, self.date, self.source, MANUAL, [*sections[:-1], ("HEADERS", headers), sections[-1]])

    def pages(self, overview):
        yield "man7/weir.7", self.overview(overview)
        for header in [*self.headers, self.backend]:
            yield f"man7/weir_{header.name}.7", self.header_page(header)
        for header in self.headers:
            for function in header.functions:
                yield f"man3/{function.name}.3", self.function_page(header, function)
