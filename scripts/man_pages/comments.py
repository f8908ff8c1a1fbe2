# SPDX-License-Identifier: Apache-2.0
"""The public headers with their comments: what each function, struct, enum and constant says of itself. It reads the style that
the headers are written in (a comment before what it is about, or behind it on its line); scripts/docs makes sure that
everything has one."""

import re
from dataclasses import dataclass, field

COMMENT = r"/\*\*(?P<comment>(?:(?!\*/).)*?)\*/\s*"


@dataclass
class Item:
    """A field or a constant."""
    text: str      # as declared, or the constant's name and value
    name: str
    meaning: str


@dataclass
class Struct:
    name: str
    comment: str
    fields: list


@dataclass
class Enum:
    comment: str
    items: list


@dataclass
class Function:
    name: str
    prototype: str
    comment: str


@dataclass
class Header:
    name: str
    title: str
    head: str
    functions: list = field(default_factory=list)
    structs: dict = field(default_factory=dict)
    enums: list = field(default_factory=list)
    types: dict = field(default_factory=dict)  # callbacks and other types with a comment: name -> (declaration, comment)


def plain(comment):
    """A comment's words: without the stars, and with paragraphs and indentation kept."""
    lines = []
    for line in comment.split("\n"):
        line = re.sub(r"^\s*\*? ?", "", line, count=1) if lines or line.strip() else line.strip()
        line = re.sub(r"^ (?=\S)", "", line)  # continuation lines begin one further in
        lines.append(line.rstrip())
    return re.sub(r"@[{}]", "", "\n".join(lines)).strip()


def one_line(text):
    return " ".join(text.split())


def items(body):
    """Fields or constants, each with the comment before or behind it."""
    found, before = [], ""
    pattern = re.compile(r"/\*\*<(?P<behind>.*?)\*/|/\*\*(?!<)(?P<before>.*?)\*/|/\*.*?\*/|(?P<item>[^/;,]*(?:\([^)]*\))*[^/;,]*[;,]?)",
                         re.S)
    depth_safe = re.sub(r"\([^()]*\)", lambda m: m.group().replace(",", "\x00"), body)
    for match in pattern.finditer(depth_safe):
        if match.group("behind") is not None:
            if found:
                found[-1].meaning = one_line(plain(match.group("behind").replace("\x00", ",")))
        elif match.group("before") is not None:
            before = one_line(plain(match.group("before").replace("\x00", ",")))
        elif match.group("item") and match.group("item").strip(" \n;,"):
            text = one_line(match.group("item").replace("\x00", ",")).rstrip(";, ")
            if match.group("item").rstrip().endswith(";") and "WEIR" not in text and " " not in text and found:
                text = found[-1].text.rpartition(" ")[0] + " " + text  # `uint64_t offset, length;`
            names = re.search(r"\(\*(\w+)\)|(\w+)(?:\[[^\]]*\])*$", text.split(" = ")[0])
            found.append(Item(text, names.group(1) or names.group(2), before))
            before = ""
    return found


def constants(text):
    """Enums, and runs of macros that share their comment or a prefix."""
    enums = []
    for match in re.finditer(COMMENT + r"enum \{(?P<body>.*?)\};", text, re.S):
        enums.append(Enum(one_line(plain(match.group("comment"))), items(match.group("body"))))
    capabilities = re.findall(r"^#define (WEIR_\w+) UINT\d+_C\((\w+)\)\s+/\*\*<(.*?)\*/$", text, re.M)
    if capabilities:
        before = re.search(r"/\*\*((?:(?!\*/).)*)\*/\n#define " + capabilities[0][0], text, re.S)
        enums.append(Enum(one_line(plain(before.group(1))) if before else "",
                          [Item(f"{name} = {value}", name, meaning.strip()) for name, value, meaning in capabilities]))
    return enums


def read(path):
    text = path.read_text(encoding="utf-8")
    name = path.stem
    head = plain(re.match(r"/\*(.*?)\*/", text, re.S).group(1))
    head = re.sub(r"^SPDX[^\n]*\n+", "", head)
    title, _, rest = head.partition("\n\n")
    title = one_line(re.sub(rf"^weir/{name}\.h - ", "", title))
    header = Header(name, title, rest)
    header.enums = constants(text)
    counters = re.findall(r'^  X\((\w+), "(.*?)"\)', text, re.M)
    for match in re.finditer(COMMENT + r"typedef struct (?P<name>\w+) \{(?P<body>.*?)\n\} (?P=name);", text, re.S):
        body = re.sub(r"^#.*$", "", match.group("body"), flags=re.M)
        body = re.sub(r"^  WEIR_\w+\(WEIR_\w+_MEMBER\)$", lambda _: "\n".join(
            f"uint64_t {field_name}; /**< {meaning} */" for field_name, meaning in counters), body, flags=re.M)
        header.structs[match.group("name")] = Struct(match.group("name"), one_line(plain(match.group("comment"))), items(body))
    for match in re.finditer(COMMENT + r"WEIR_API (?P<prototype>[^;{]*);", text, re.S):
        prototype = one_line(match.group("prototype"))
        header.functions.append(Function(re.search(r"(weir_\w+)\(", prototype).group(1), prototype, plain(match.group("comment"))))
    for match in re.finditer(COMMENT + r"typedef (?P<text>[^;{]*\(\*(?P<name>\w+)\)\([^;{]*);", text, re.S):
        header.types[match.group("name")] = (one_line(match.group("text")), plain(match.group("comment")))
    return header
