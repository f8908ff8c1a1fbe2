#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the reference has everything public: each function, type, constant and macro of the records in api/abi has an entry of
its own in the HTML, and so has each field. Doxygen leaves out in silence what it finds no words for, such as the numbers of an enum
without a comment. Pictures that a page shows must be there too: Doxygen does not look for them.

  complete.py HTML_FOLDER"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from abi_guard import record  # noqa: E402


def main():
    html = pathlib.Path(sys.argv[1])
    text = "".join(file.read_text(encoding="utf-8") for file in sorted(html.glob("group__*.html")))
    text += (html / "types_8h.html").read_text(encoding="utf-8")
    # The rows of the summaries, without their links and words.
    rows = re.findall(r'<tr class="memitem:.*?</tr>', text, re.S)
    listed = set(re.findall(r"\w+", re.sub(r"<[^>]*>", "", "\n".join(rows))))
    missing = []
    for interface in record.INTERFACES:
        file = ROOT / f"api/abi/{interface}.abi"
        now = record.read(file.read_text(encoding="utf-8"), file)
        names = [*now.functions, *now.typedefs, *now.structs, *now.constants, *(m.split("(")[0] for m in now.macros)]
        missing += [name for name in names if name not in listed]
        for name in now.structs:
            page = html / f"struct{name.replace('_', '__')}.html"
            fields = set(re.findall(r"\w+", page.read_text(encoding="utf-8"))) if page.exists() else set()
            missing += [f"{name}.{m.name}" for m in now.structs[name].members if m.name not in fields]
    for header in sorted((ROOT / "api/include/weir").glob("*.h")):
        for before, first in re.findall(r"(.*)\nenum \{\s*(?:/\*.*?\*/\s*)?(\w+)", header.read_text(encoding="utf-8")):
            if not before.endswith("*/"):
                missing.append(f"the enum of {first} (it has no comment)")
    for page in sorted(html.glob("*.html")):
        for picture in re.findall(r'<(?:img|object)[^>]* (?:src|data)="([^"]*images/[^"]*)"', page.read_text(encoding="utf-8")):
            if not (html / picture).exists():
                missing.append(f"{picture} (on {page.name})")
    for name in missing:
        print(f"docs: {name} is not in the reference", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
