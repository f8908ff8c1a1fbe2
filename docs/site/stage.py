#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays out what mkdocs makes the site of: the pages with links that hold there, the references of all languages, and the order of
reading, which is that of docs/README.md. A page that docs/README.md does not list is not on the site. It needs no network, and
leaves out the reference of a language whose tool is not here, by saying so.

  stage.py --out FOLDER --reference HTML [--rust HTML] --version V    FOLDER/pages and FOLDER/mkdocs.yml, which make FOLDER/site"""

import argparse
import json
import pathlib
import re
import shutil

import python_reference
import references as written

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Pages of the root, by the names that they have on the site.
ROOT_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
C_REFERENCE = "reference-c.md"
LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")


def place(path):
    """Where a file of the repository is on the site, or None."""
    if path.parent == ROOT and path.name in ROOT_PAGES:
        return ROOT_PAGES[path.name]
    if path == ROOT / "docs/README.md":
        return "guide.md"
    if path.parent == ROOT / "docs" and path.suffix == ".md":
        return path.name
    if path.parent == ROOT / "docs/images":
        return f"images/{path.name}"
    if path in (ROOT / "api/include/weir", ROOT / "api/include/weir/weir.h"):
        return C_REFERENCE
    return None


def page(path):
    """The page's text; links to what is not on the site become their words alone."""
    def link(match):
        mark, words, target = match.groups()
        file, sharp, part = target.partition("#")
        if "://" in target or not file:
            return match.group()
        there = place((path.parent / file).resolve())
        return f"{mark}[{words}]({there}{sharp}{part})" if there else words
    lines, code = [], False
    for line in path.read_text(encoding="utf-8").split("\n"):
        code ^= line.lstrip().startswith("```")
        # What a forge takes for a list behind a paragraph, or within another list, Markdown as it was first takes for text.
        if not code and re.match(r"(\* |- |\d+\. )", line) and lines and lines[-1].strip() and not re.match(r"\s*(\* |- |\d+\. |  )", lines[-1]):
            lines.append("")
        lines.append(line if code else LINK.sub(link, line))
    return "\n".join(lines)


def reading_order():
    """Sections of docs/README.md: a line that ends in a colon begins one, its links are the pages."""
    sections, seen = [("Start", [("Weir", "index.md"), ("What to read", "guide.md")])], {"README.md"}
    for line in (ROOT / "docs/README.md").read_text(encoding="utf-8").split("\n"):
        if re.fullmatch(r"[A-Z][^\[\]]*:", line):
            sections.append((line.rstrip(":").removesuffix(", in reading order"), []))
        for words, target in re.findall(r"\[([^\]]*)\]\(([a-z-]+\.md)\)", line):
            if target not in seen:
                seen.add(target)
                sections[-1][1].append((words[0].upper() + words[1:], target))
    return sections


def references(source, arguments):
    shutil.copytree(arguments.reference, source / "reference/c")
    def put(name, text):
        (source / name).write_text(text, encoding="utf-8")

    put(C_REFERENCE, written.of_c(ROOT / "api/include/weir", arguments.reference))
    put("reference-python.md", python_reference.text(ROOT / "bindings/python/src/weir"))
    found = [("C", C_REFERENCE), ("Python", "reference-python.md")]
    if arguments.rust:
        shutil.copytree(arguments.rust, source / "reference/rust")
        found.append(("Rust", "reference/rust/weir/index.html"))
    if shutil.which("go"):
        put("reference-go.md", written.of_go(ROOT / "bindings/go"))
        found.append(("Go", "reference-go.md"))
    else:
        print("docs: Go's reference is not on the site: there is no go here")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--reference", type=pathlib.Path, required=True)
    parser.add_argument("--rust", type=pathlib.Path)
    parser.add_argument("--version", required=True)
    arguments = parser.parse_args()
    source = arguments.out / "pages"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    shutil.copytree(ROOT / "docs/images", source / "images")
    shutil.copy(ROOT / "docs/site/site.css", source)
    sections = reading_order()
    for name in [*ROOT_PAGES, "docs/README.md", *(f"docs/{target}" for _, pages in sections for _, target in pages)]:
        path = ROOT / name
        if path.exists():
            (source / place(path)).write_text(page(path), encoding="utf-8")
    sections.append(("Reference", references(source, arguments)))
    sections.append(("Project", [("Changelog", "changelog.md"), ("Contributing", "contributing.md"), ("Security", "security.md")]))
    nav = [{title: [{words: target} for words, target in pages]} for title, pages in sections if pages]
    text = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8")
    for name, value in {"VERSION": arguments.version, "SOURCE": str(source), "OUT": str(arguments.out / "site"), "NAV": json.dumps(nav)}.items():
        text = text.replace(f"@{name}@", value)
    (arguments.out / "mkdocs.yml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
