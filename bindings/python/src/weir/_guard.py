# SPDX-License-Identifier: Apache-2.0
"""Refuses `import weir` where the project `weir` of PyPI, which is somebody else's, has been installed into the same folder.

The two have the folder `weir` in common, and pip writes the files of one over those of the other without a word: what is
left is a mixture that neither tests. `weir/__init__.*.so` (native/guard.c) calls `start` before any other file of the folder
runs. A `weir` elsewhere on sys.path is no trouble: the folders are not the same."""

from __future__ import annotations

import importlib.machinery
import os
import types

DISTRIBUTION = "weir-memory"
#: Stands in our __init__.py, and in no other package's.
MARK = b"#: The distribution that this package is of: weir-memory."


def other_distribution(folder: str) -> str | None:
    """The metadata of a distribution `weir` beside the package's folder: installed before us, or after."""
    for name in os.listdir(os.path.dirname(folder)):
        stem, end = os.path.splitext(name)
        if end in (".dist-info", ".egg-info") and stem.partition("-")[0].lower() == "weir":
            return name
    return None


def is_ours(source: str) -> bool:
    try:
        with open(source, "rb") as file:
            return MARK in file.read()
    except OSError:
        return False


def refusal(folder: str, source: str) -> str | None:
    """Why what lies in the folder must not be imported."""
    again = f"pip uninstall weir {DISTRIBUTION}, then pip install {DISTRIBUTION}"
    other = other_distribution(folder)
    if other is not None:
        return (
            f"the package 'weir' of PyPI is somebody else's and has been installed into the folder of {DISTRIBUTION} ({folder}; "
            f"{other} lies beside it): the two can't be installed together. {again}"
        )
    if not os.path.exists(source):
        return f"{source} is missing: the package 'weir' of PyPI, which is somebody else's, had this folder too. {again}"
    if not is_ours(source):
        return (
            f"{source} is not {DISTRIBUTION}'s: the package 'weir' of PyPI is somebody else's, and the two can't be installed "
            f"together. {again}"
        )
    return None


def start(module: types.ModuleType) -> None:
    """Makes of the extension's module what __init__.py makes of it, as if it had been found first."""
    spec = module.__spec__
    assert spec is not None and spec.origin is not None
    folder = os.path.dirname(spec.origin)
    source = os.path.join(folder, "__init__.py")
    why = refusal(folder, source)
    if why is not None:
        raise ImportError(why, name="weir", path=folder)
    loader = importlib.machinery.SourceFileLoader(module.__name__, source)
    code = loader.get_code(module.__name__)
    assert code is not None
    module.__file__ = spec.origin = source
    module.__loader__ = spec.loader = loader
    exec(code, module.__dict__)
