#!python
# SPDX-License-Identifier: Apache-2.0
"""The `weir` command of a wheel: becomes the program that is packed with the package. It does not import the package, which
takes longer than most of what the command is asked."""

import importlib.util
import os
import sys

found = importlib.util.find_spec("weir")
folder = os.path.dirname(found.origin) if found and found.origin else ""
program = os.path.join(folder, "bin", "weir")
if not os.access(program, os.X_OK):
    sys.exit("weir: the program is not in the package: " + (program if folder else "there is no package weir"))
os.execv(program, ["weir", *sys.argv[1:]])
