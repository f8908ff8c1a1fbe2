#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that weir.hpp compiles as it is promised, with one compiler: C++17, 20 and 23, with exceptions, with results, and without
exceptions and RTTI, each with every function used, and every header by itself; under warnings that are errors. Only the syntax
is checked, nothing is written. That a warning would be seen is tried on one that is planted.

  check_headers.py COMPILER
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "api/include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef", "-Werror"]
STANDARDS = ["17", "20", "2b"]
CHOICES = {
    "throws": [],
    "results, no exceptions, no RTTI": ["-fno-exceptions", "-fno-rtti"],
}
ONCE = {
    "C++17, results": ["-std=c++17", "-DWEIR_CPP_EXCEPTIONS=0"],
    "C++20, throws, no RTTI": ["-std=c++20", "-fno-rtti"],
    "C++20, own span": ["-std=c++20", "-DWEIR_CPP_STD_SPAN=0"],
}


def compile_one(compiler, arguments, source=None):
    """What the compiler says, or "" where it has nothing to say."""
    command = [compiler, "-x", "c++", "-fsyntax-only", f"-I{INCLUDE}", *WARNINGS, *arguments]
    done = subprocess.run([*command, "-" if source is not None else str(ROOT / "tests/cpp/header_all.cpp")], input=source,
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    return "" if done.returncode == 0 else "\n".join(done.stderr.splitlines()[:12]) or "it failed"


def main():
    compiler = sys.argv[1]
    wrong = []
    count = 0

    def expect(name, arguments, source=None, refused=None):
        nonlocal count
        count += 1
        said = compile_one(compiler, arguments, source)
        if refused is None and said:
            wrong.append(f"{name}:\n{said}")
        if refused is not None and refused not in said:
            wrong.append(f"{name}: expected a refusal with '{refused}', got {said or 'none'}")

    for standard in STANDARDS:
        for choice, arguments in CHOICES.items():
            expect(f"C++{standard}, {choice}", [f"-std=c++{standard}", *arguments])
    for name, arguments in ONCE.items():
        expect(name, arguments)
    for header in sorted([INCLUDE / "weir/weir.hpp", *(INCLUDE / "weir/cpp").glob("*.hpp")]):
        name = header.relative_to(INCLUDE).as_posix()
        expect(f"<{name}> alone", ["-std=c++17"], f"#include <{name}>\nextern int alone;\n")

    all_of_it = "#include <weir/weir.hpp>\n"
    expect("C++14", ["-std=c++14"], "#include <weir/cpp/config.hpp>\n", "needs C++17")
    expect("exceptions that are off", ["-fno-exceptions", "-DWEIR_CPP_EXCEPTIONS=1"], all_of_it, "to have no exceptions")
    expect("std::span of C++17", ["-std=c++17", "-DWEIR_CPP_STD_SPAN=1"], all_of_it, "comes with C++20")
    expect("a copied handle", ["-std=c++17"], all_of_it + "weir::buffer f(const weir::buffer &b) { return b; }\n", "buffer")
    expect("a span of objects", ["-std=c++17"], all_of_it + "#include <string>\nauto f(weir::lease &l) { return l.span<std::string>(0); }\n",
           "memory that moves holds bytes")
    expect("a result that is dropped", ["-std=c++17", "-fno-exceptions"],
           all_of_it + "void f(weir::stream &s) { s.synchronize(); }\n", "nodiscard")
    planted = {"conversion": "char f(long x) { return x; }", "shadow": "int f(int x) { { int x = 1; return x; } }"}
    for warning, line in planted.items():
        expect(f"planted -W{warning}", ["-std=c++17"], f"{all_of_it}{line}\n", "-W")
    for line in wrong:
        print(f"check_headers: {line}", file=sys.stderr)
    print(f"check_headers: {compiler}: {count} compilations, {len(wrong)} not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
