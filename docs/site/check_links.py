#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows every link of the site's own pages: the file must be there, and the heading in it. What Doxygen and rustdoc have made looks
after itself. Web addresses are not tried.

  check_links.py SITE        exit 1 and name every dead link
  check_links.py --self-test"""

import html.parser
import pathlib
import sys
import tempfile
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names.update(given[key] for key in ("id", "name") if given.get(key))
        self.targets += [given[key] for key in ("href", "src") if given.get(key)]


def dead_links(site):
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html") if path.name != "404.html"}
    for path, page in sorted(pages.items()):
        for target in page.targets:
            address = urllib.parse.urlsplit(target)
            if address.scheme or address.netloc:
                continue
            there = (path.parent / urllib.parse.unquote(address.path)).resolve() if address.path else path
            if not there.exists():
                yield f"{path.name}: the link to {target} leads nowhere"
            elif there in pages and address.fragment and urllib.parse.unquote(address.fragment) not in pages[there].names:
                yield f"{path.name}: {target}: there is no such heading"


def self_test():
    cases = [('<a href="b.html">', ""), ('<a href="b.html#x">', ""), ('<a href="#y" id="y">', ""), ('<a href="https://a.invalid/">', ""),
             ('<a href="c.html">', "leads nowhere"), ('<img src="images/p.svg">', "leads nowhere"), ('<a href="b.html#z">', "no such heading")]
    wrong = []
    for text, named in cases:
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            (site / "a.html").write_text(text, encoding="utf-8")
            (site / "b.html").write_text('<h2 id="x">x</h2>', encoding="utf-8")
            found = list(dead_links(site))
        if len(found) != bool(named) or not all(named in line for line in found):
            wrong.append(f"{text}: wanted '{named}', got {found}")
    print("\n".join([*wrong, f"check_links: self-test: {len(cases) - len(wrong)} of {len(cases)} cases right"]))
    return 1 if wrong else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = list(dead_links(pathlib.Path(sys.argv[1])))
    for line in found:
        print(f"docs: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
