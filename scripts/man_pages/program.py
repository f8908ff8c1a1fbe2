# SPDX-License-Identifier: Apache-2.0
"""Pages of the programs: their options are what the programs themselves print under --help, so a page can't know others; the
words around them stand in docs/man/NAME.txt."""

import re
import subprocess
from dataclasses import dataclass

from . import troff

MANUAL = "Weir Manual"


@dataclass
class Option:
    names: str     # "-h, --help", "trace"
    value: str     # "TEXT", "TEXT ...", or ""
    default: str
    meaning: str


@dataclass
class Help:
    title: str
    usage: list
    groups: dict   # heading -> [Option]


def ask(program, *arguments):
    return subprocess.run([program, *arguments, "--help"], capture_output=True, text=True, check=True).stdout


def split_option(text):
    """The left column: names, value, default. What excludes what is left out: the program says so when it matters."""
    text = re.sub(r"\s+(?:Excludes|Needs):.*", "", text)
    text = re.sub(r"\s+REQUIRED\b", "", text)
    names, _, value = text.partition(" ")
    value, _, default = value.partition("=")
    inline, _, rest = default.partition(" ")
    return names.replace(",", ", "), f"{value.strip()} {rest}".strip(), inline


def read_help(text):
    lines = text.splitlines()
    usage = [line.partition(": ")[2] if ": " in line else line.strip() for line in lines if re.match(r"\s*(?:usage|Usage):", line)]
    title = lines[0] if lines and not re.match(r"\s*[uU]sage:", lines[0]) else ""
    groups, heading = {}, "Options"
    for line in lines:
        if re.match(r"[A-Z]\w*:$", line):
            heading = line[:-1].capitalize()  # newer CLI11 writes them in capitals
            continue
        entry = re.match(r"  (\S.*?)(?: {2,}(\S.*))?$", line)
        if entry and not line.startswith("   "):
            groups.setdefault(heading, []).append(Option(*split_option(entry.group(1)), entry.group(2) or ""))
        elif line.startswith("          ") and groups.get(heading):
            last = groups[heading][-1]
            last.meaning = f"{last.meaning} {line.strip()}".strip()
    return Help(title, usage, groups)


def option_list(options):
    lines = []
    for option in options:
        names = ", ".join(f"\\fB{troff.escape(name)}\\fP" for name in option.names.split(", "))
        value = f" \\fI{troff.escape(option.value.replace(' ...', ''))}\\fP" + (" ..." if "..." in option.value else "") if option.value else ""
        meaning = option.meaning[:1].upper() + option.meaning[1:]
        if option.default:
            meaning += f" [default: {option.default}]"
        lines += [".TP", names + value, *troff.filled(meaning + ("" if meaning.endswith((".", "]")) else "."))]
    return lines


def read_words(path):
    """(heading, text) of docs/man/NAME.txt, whose headings begin with '# '."""
    sections = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            sections.append((line[2:], []))
        elif sections:
            sections[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in sections]


def page(name, title, usage, help_text, words, known, source, date):
    words = dict(words)
    options = []
    for heading, entries in help_text.groups.items():
        if heading == "Subcommands":
            options += [".SS Commands"]
            for entry in entries:
                options += [".TP", f"\\fB{entry.names}\\fP", *troff.filled(f"{entry.meaning[:1].upper()}{entry.meaning[1:]}."),
                            f"See \\fB{name}\\-{entry.names}\\fP(1)."]
            continue
        options += ([f".SS {'Arguments' if heading == 'Positionals' else heading}"] if len(help_text.groups) > 1 else []) + option_list(entries)
    sections = [("NAME", [f"{troff.escape(name)} \\- {troff.escape(title)}"]),
                ("SYNOPSIS", [".nf", *(f"\\fB{troff.escape(line)}\\fP" for line in usage), ".fi"]),
                ("DESCRIPTION", troff.body(words.pop("DESCRIPTION"), known)), ("OPTIONS", options)]
    see = words.pop("SEE ALSO")
    sections += [(heading, troff.body(text, known)) for heading, text in words.items()]
    references = [f"\\fB{troff.escape(page_name)}\\fP({section})" for page_name, section in re.findall(r"([\w-]+)\((\d)\)", see)]
    sections.append(("SEE ALSO", [f"{entry}," if number < len(references) - 1 else entry for number, entry in enumerate(references)]))
    return troff.page(name, 1, date, source, MANUAL, sections)


def weir_pages(program, folder, known, source, date):
    """weir(1) and a page for each of its commands."""
    main = read_help(ask(program))
    yield "man1/weir.1", page("weir", "look at devices, and replay and draw traces of memory", ["weir [OPTIONS] COMMAND ..."], main,
                              read_words(folder / "weir.1.txt"), known, source, date)
    for command in main.groups["Subcommands"]:
        own = read_help(ask(program, command.names))
        yield f"man1/weir-{command.names}.1", page(f"weir-{command.names}", own.title, own.usage, own,
                                                  read_words(folder / f"weir-{command.names}.1.txt"), known, source, date)


def conformance_page(program, folder, known, source, date):
    own = read_help(ask(program))
    return page("weir-conformance", "prove a backend against the backend ABI",
                ["weir-conformance BACKEND.so [argument...]", "weir-conformance --list"], own,
                read_words(folder / "weir-conformance.1.txt"), known, source, date)
