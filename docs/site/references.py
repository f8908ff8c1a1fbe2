# SPDX-License-Identifier: Apache-2.0
"""Pages of the site that the search box has to know, since it does not look into what other tools have made: each function and type
of the C headers with its first sentence and a link to Doxygen's page, and the Go package in `go doc`'s words. They are made from text
alone: nothing is compiled."""

import re
import subprocess

COMMENT = re.compile(r"/\*\*(?:(?!\*/).)*?\*/", re.S)


def first_sentence(comment):
    text = " ".join(re.sub(r"^\s*/?\*+/?", "", line).strip() for line in comment.split("\n")).replace("*/", "").strip()
    return re.split(r"(?<=[a-z0-9)])[.:;] ", text, maxsplit=1)[0].rstrip(".:; ") + "."


def declarations(text):
    """Name, declaration and comment of each function and struct of a header, in its order."""
    for match in re.finditer(r"^(?:WEIR_API [^;{]*?\b(weir_\w+)\((?:[^;]*?)\);|typedef struct (weir_\w+) \{)", text, re.M):
        before = text[:match.start()].rstrip()
        comments = [found for found in COMMENT.finditer(before) if found.end() == len(before)]
        name = match.group(1) or match.group(2)
        code = re.sub(r"\s+", " ", match.group().removeprefix("WEIR_API ")) if match.group(1) else f"struct {name}"
        yield name, code, first_sentence(comments[0].group()) if comments else ""


def cell(text):
    """A comment's words in a table: a name with stars or angle brackets is no markup."""
    return re.sub(r"([*<>|])", r"\\\1", text)


def of_c(headers, html):
    lines = ["# C reference", "", "Each name leads to its full text: ownership, threads, stream semantics, errors and units.", ""]
    for header in sorted(headers.glob("*.h")):
        found = list(declarations(header.read_text(encoding="utf-8")))
        if not found:
            continue
        lines += [f"## weir/{header.name}", "", "| | |", "|---|---|"]
        for name, code, words in found:
            struct = f"struct{name.replace('_', '__')}.html"
            page = struct if code.startswith("struct ") else f"group__{header.stem}.html"
            # types.h has no group of its own: its declarations stand on the page of the file.
            page = page if (html / page).exists() else f"{header.stem}_8h.html"
            lines.append(f"| [`{code}`](reference/c/{page}) | {cell(words)} |")
        lines.append("")
    return "\n".join(lines)


def of_go(package):
    text = subprocess.run(["go", "doc", "-all"], cwd=package, capture_output=True, text=True, check=True).stdout
    lines, code, about = ["# Go reference", "", "The guide is [Weir in Go](go.md).", ""], [], []

    def flush():
        """A declaration, then its words, which go doc sets to the right; the package's own words it does not."""
        if code:
            lines.extend(["```go", *code, "```", ""])
        lines.extend([*(line[4:] if code and line.startswith("    ") else line for line in about), ""])
        code.clear()
        about.clear()

    inside = False
    for line in text.split("\n"):
        if re.fullmatch(r"(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)", line):
            flush()
            lines.extend([f"## {line.capitalize()}", ""])
        elif inside:
            code.append(line)
            inside = line not in (")", "}")
        elif re.match(r"(func|type|const|var) ", line):
            flush()
            name = re.match(r"(?:func (?:\(\w+ \*?(\w+)\) )?|type |const |var )\(?(\w*)", line)
            title = ".".join(part for part in name.groups() if part)
            if title:
                lines.extend([f"### {title}", ""])
            code.append(line)
            inside = line.endswith(("{", "("))
        else:
            # Headings of the package's own words would be this page's.
            about.append(line.replace("# ", "**", 1) + "**" if line.startswith("# ") else line)
    flush()
    return "\n".join(lines)
