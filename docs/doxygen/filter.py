#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's input filter: a public header, or a page of docs/, on standard output as Doxygen wants it. The headers are written to be
read as C, and the pages to be read on a forge; what Doxygen needs beyond that is put in here. No line moves, so that Doxygen's
warnings name the file's own lines.

  filter.py FILE"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def head(text, name):
    """The comment at the top describes the file, and the group that its declarations go to."""
    text = text.replace("/* SPDX-License-Identifier: Apache-2.0\n", f"/** \\file weir/{name}.h\n", 1)
    title = re.search(rf"^ \* weir/{name}\.h - (.*?[.:;,]|.*$)", text, re.M).group(1).rstrip(".:;,")
    text = text.replace(f" * weir/{name}.h - ", " * ", 1)
    begin = f"WEIR_BEGIN_DECLS /** \\defgroup {name} weir/{name}.h: {title}\n"
    body = text.partition("\nWEIR_BEGIN_DECLS\n")
    if not body[1]:
        return text
    # The group's comment takes the line of the declaration and the blank one after it.
    rest = body[2]
    assert rest.startswith("\n"), f"{name}.h: no blank line after WEIR_BEGIN_DECLS"
    rest = " * \\{ */\n" + rest[1:]
    rest = rest.replace("\nWEIR_END_DECLS\n#endif", "\n/** \\} */\n#endif", 1)
    return body[0] + "\n" + begin + rest


def known_fields(text):
    """Fields that mean the same everywhere."""
    text = re.sub(r"^(  uint32_t struct_size;)$", r"\1 /**< the struct's size as the program knows it, set by its initialiser */",
                  text, flags=re.M)
    return re.sub(r"^(  uint(?:32|64)_t reserved\w*(?:\[\d+\])?;)(?: +/\*\*< 0 \*/)?$", r"\1 /**< must be 0 */", text, flags=re.M)


def initialisers(text):
    def named(match):
        return f"/** Initialises a {match.group(1).lower()}. */ {match.group()}"
    return re.sub(r"^#define (WEIR_\w+)_INIT\b", named, text, flags=re.M)


def counters(text):
    """The fields that a list of X(name, meaning) stands for."""
    fields = re.findall(r'^  X\((\w+), "(.*?)"\)', text, flags=re.M)
    for macro in re.findall(r"^#define (WEIR_\w+_MEMBER)\(", text, flags=re.M):
        text = re.sub(rf"^#(?:define|undef) {macro}\b.*$", "", text, flags=re.M)
        written = " ".join(f"uint64_t {name}; /**< {meaning} */" for name, meaning in fields)
        text = re.sub(rf"^  WEIR_\w+\({macro}\)$", lambda _, w=written: w, text, flags=re.M)
    return text


def anchor(page, heading):
    """A forge's name of a heading, made its page's own."""
    slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
    return f"{page}_{slug}"


def prose(text):
    """Where a comment names a heading of a page."""
    return re.sub(r"(docs/[\w-]+\.md)#([\w-]+)", r'\1, "\2"', text)


def page_text(text, path):
    """Headings get names, links to them take those; links to what is no page become their words alone."""
    lines, code = [], False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        heading = re.match(r"(##+ )(.*\S)\s*$", line)
        if heading and not code:
            line = f"{heading.group(1)}{heading.group(2)} {{#{anchor(path.stem, heading.group(2))}}}"
        lines.append(line)

    def link(match):
        words, target = match.group(1), match.group(2)
        file, _, part = target.partition("#")
        if "://" in target:
            return match.group()
        if file and not file.endswith(".md"):
            return words
        other = (path.parent / file).resolve() if file else path.resolve()
        if other.parent.name == "docs" or file == "" or other.parent == ROOT:
            return f"[{words}](#{anchor(other.stem, part)})" if part else match.group()
        return words

    text = re.sub(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)", link, "\n".join(lines))
    # scripts/docs puts the pictures of docs/ beside the pages.
    return text.replace("](docs/images/", "](images/")


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".h":
        text = prose(counters(initialisers(known_fields(head(text, path.stem)))))
    else:
        text = page_text(text, path)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
