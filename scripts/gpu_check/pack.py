# SPDX-License-Identifier: Apache-2.0
"""Makes one folder of a build tree, to be taken to a machine that has a GPU and nothing else.

Programs and libraries are copied and stripped. Every library they are linked with comes along, but for glibc's. They find each
other by LD_LIBRARY_PATH, which gpu-check sets (and `run`, for a person), so that no file has to be changed. libstdc++ and libgcc_s
lie apart: they are used where the machine's own are too old or missing. What is not built is a complaint. In the end each file is
asked what the loader would find for it: that must be in the folder or of glibc.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from gpu_check import tree as trees

LIMIT = 60 << 20
# Of the system that the folder goes to.
SYSTEM = ("linux-vdso.so", "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so",
          "libresolv.so")
APART = ("libstdc++.so", "libgcc_s.so")
FOLDERS = ("bin", "lib", "lib/weir/1", "lib/drivers")
TOOLS = ("strip", "ldd")
RUN = """#!/bin/sh
# Runs a program of this folder: run bin/weir devices
here="$(cd "$(dirname "$0")" && pwd)"
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/$@"
"""


def needed(file, *folders):
    """Name -> path, as the loader finds them with these folders in the environment; None for what it does not find."""
    # A program's path has a slash, and no shell or locale is in between.
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    text = subprocess.run(["ldd", str(file)], env=environment, check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow:
            found[name] = None if rest.startswith("not found") else rest.split(" (")[0]
    return found


def of_system(name):
    return pathlib.PurePath(name).name.startswith(SYSTEM)


def ours(tree):
    """Folder -> files of the build tree that go into it, there or not."""
    names = trees.PROGRAMS + tree.about["abi_tests"]
    if tree.has_backend("vulkan"):
        names = sorted(set(names + trees.VULKAN_PROGRAMS + tree.about["vulkan_tests"]))
    files = {"bin": [tree.program(name) for name in names]}
    for folder in FOLDERS[1:]:
        files[folder] = sorted(path for path in (tree.root / folder).glob("*.so*") if path.is_file())
    return files


def not_built(tree):
    files = ours(tree)
    drivers = trees.DRIVERS + (trees.VULKAN_DRIVERS if tree.has_backend("vulkan") else [])
    for path in files["bin"] + [tree.driver(name) for name in drivers] + [tree.script(name) for name in trees.SCRIPTS]:
        if not path.is_file():
            yield f"{path.relative_to(path.parent.parent)} is not built"
    for folder in ("lib", "lib/weir/1"):
        if not files[folder]:
            yield f"{folder} is empty"
    if not tree.has_backend("cuda"):
        yield "the CUDA backend is not built"


def copy_file(source, destination):
    shutil.copy(source, destination)
    destination.chmod(0o755)
    subprocess.run(["strip", "--strip-unneeded", str(destination)], check=True)


def copy_binaries(tree, goal):
    """The tree's own files, then what they are linked with and is not of the tree."""
    borrowed = {}
    for folder, files in ours(tree).items():
        (goal / folder).mkdir(parents=True)
        for file in files:
            if file.is_symlink():  # libweir.so, libweir.so.0: names of one file
                (goal / folder / file.name).symlink_to(os.readlink(file))
                continue
            copy_file(file, goal / folder / file.name)
            borrowed |= {name: path for name, path in needed(file).items()
                         if path and not of_system(name) and not pathlib.Path(path).resolve().is_relative_to(tree.root)}
    (goal / trees.RUNTIME).mkdir()
    for name, path in sorted(borrowed.items()):
        folder = trees.RUNTIME if name.startswith(APART) else "lib"
        copy_file(pathlib.Path(path).resolve(), goal / folder / name)


def copy_scripts(tree, goal):
    for name in ("gpu-check", "gpu_check"):
        source = trees.REPOSITORY / "scripts" / name
        (goal / "scripts").mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, goal / "scripts" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, goal / "scripts" / name)
    (goal / "bench").mkdir()
    for name in trees.SCRIPTS:
        shutil.copy(tree.script(name), goal / "bench")
    (goal / "conformance").mkdir()
    for name in trees.WAIVERS:
        shutil.copy(trees.REPOSITORY / "tests/conformance" / name, goal / "conformance")
    (goal / "run").write_text(RUN, encoding="utf-8")
    (goal / "run").chmod(0o755)
    shutil.copy(trees.REPOSITORY / "LICENSE", goal)
    (goal / trees.MANIFEST).write_text(json.dumps(tree.about, indent=1) + "\n", encoding="utf-8")


def complaints(goal):
    """What would not load on the other machine, and what is too large to be taken there."""
    goal = goal.resolve()
    files = [path for folder in (*FOLDERS, trees.RUNTIME) for path in (goal / folder).iterdir()
             if path.is_file() and not path.is_symlink()]
    for file in files:
        for name, path in needed(file, goal / "lib", goal / trees.RUNTIME).items():
            if of_system(name):
                continue
            if path is None or not pathlib.Path(path).resolve().is_relative_to(goal):
                yield f"{file.relative_to(goal)} needs {name}, which is {path or 'nowhere'}"
    size = sum(path.stat().st_size for path in goal.rglob("*") if path.is_file() and not path.is_symlink())
    if size > LIMIT:
        yield f"the folder has {size >> 20} MiB; at most {LIMIT >> 20} may be taken"
    print(f"gpu-check: {goal.name}: {len(files)} programs and libraries, {size / (1 << 20):.1f} MiB", file=sys.stderr)


def pack(tree, goal):
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"gpu-check: --pack needs {', '.join(missing)}", file=sys.stderr)
        return 2
    if tree.packed or goal.exists():
        print(f"gpu-check: --pack makes a new folder of a build tree; {goal} "
              + ("exists" if goal.exists() else "would be of a packed one"), file=sys.stderr)
        return 2
    bad = list(not_built(tree))
    if not bad:
        copy_binaries(tree, goal)
        copy_scripts(tree, goal)
        bad = list(complaints(goal))
    for line in bad:
        print("gpu-check: " + line, file=sys.stderr)
    return 1 if bad else 0
