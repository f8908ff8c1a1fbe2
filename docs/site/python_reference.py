# SPDX-License-Identifier: Apache-2.0
"""The Python package's reference as one Markdown page, from its source: what `weir/__init__.py` and `weir/torch.py` offer, with
signatures and docstrings. It reads the text and imports nothing, so that no libweir is needed."""

import ast
import textwrap


def said(node):
    """The docstring as text: examples in it, which are set to the right, become blocks of code by themselves."""
    return textwrap.dedent(ast.get_docstring(node) or "")


def signature(node, within=""):
    arguments = node.args
    if within and not any(getattr(each, "id", "") == "staticmethod" for each in node.decorator_list):
        arguments = ast.arguments(**{**{field: getattr(arguments, field) for field in arguments._fields}, "args": arguments.args[1:]})
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{within}{node.name}({ast.unparse(arguments)}){returns}"


def is_property(node):
    return any(getattr(each, "id", "") == "property" for each in node.decorator_list)


def members(node):
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            yield each


def entry(code, words, level):
    return [f"{'#' * level} `{code.split('(')[0].split(' ->')[0]}`", "", "```python", code, "```", "", words, ""]


def of_class(node):
    init = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    code = f"class {node.name}({ast.unparse(init.args).partition(', ')[2] if init else ', '.join(map(ast.unparse, node.bases))})"
    lines = [f"### `{node.name}`", "", "```python", code, "```", "", said(node), ""]
    values = [f"`{ast.unparse(each.target)}: {ast.unparse(each.annotation)}`" if isinstance(each, ast.AnnAssign)
              else f"`{ast.unparse(each.targets[0])}`" for each in node.body if isinstance(each, (ast.AnnAssign, ast.Assign))]
    values = [each for each in values if not each.startswith("`_")]
    if values:
        lines += ["Fields: " + ", ".join(values) + ".", ""]
    for each in members(node):
        if is_property(each):
            code = f"{node.name}.{each.name}" + (f": {ast.unparse(each.returns)}" if each.returns else "")
            lines += [f"#### `{node.name}.{each.name}`", "", "```python", code, "```", "", said(each), ""]
        else:
            lines += entry(signature(each, f"{node.name}."), said(each), 4)
    return lines


def of_module(path, names=None):
    lines = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        name = getattr(node, "name", "_")
        if name.startswith("_") or (names is not None and name not in names):
            continue
        lines += of_class(node) if isinstance(node, ast.ClassDef) else entry(signature(node), said(node), 3)
    return lines


def text(package):
    first = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    lines = ["# Python reference", "", "The guide is [Weir in Python](python.md). What a call promises stands in the C reference, at the function of its name.", ""]
    for node in first.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module and not node.module.startswith("_"):
            entries = of_module(package / f"{node.module}.py", {alias.name for alias in node.names})
            if entries:
                lines += [f"## weir.{node.module}", "", *entries]
    lines += ["## weir.torch", "", *of_module(package / "torch.py")]
    return "\n".join(lines)
