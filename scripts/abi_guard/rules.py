# SPDX-License-Identifier: Apache-2.0
"""The rules: what may change between two records of one interface without breaking a program or a plugin that was built with
the older. docs/abi.md has them in words.

What is found is sorted into breaks (a program that was built before would go wrong) and growth (new things that it does not
know). A change that is in neither list must be one that no program can see: names of parameters, and other names for the
same integer type."""

import re
from dataclasses import dataclass, field


@dataclass
class Changes:
    breaks: list = field(default_factory=list)
    growth: list = field(default_factory=list)
    longer: set = field(default_factory=set)  # structs that grew at their end
    recut: set = field(default_factory=set)   # structs whose reserved words were put to use


def resolved(kind, record):
    """A type without the names that stand for integers: weir_device and uint32_t are one type to a linker."""
    plain = {name: text for name, text in record.typedefs.items() if re.fullmatch(r"\w+", text)}
    while True:
        before = kind
        kind = re.sub(r"\b\w+\b", lambda word: plain.get(word.group(), word.group()), kind)
        if kind == before:
            return kind


def signature(kind, record):
    """A type for comparing: of a function's type the parameters' names are left out."""
    text = resolved(kind, record)
    opening = text.find("(*)(")
    if opening < 0:
        return text
    inside = text[opening + len("(*)("):-1]
    bare = []
    for parameter in inside.split(","):
        parameter = parameter.strip()
        bare.append(re.sub(r"(?<=[\s*])\w+$", "", parameter).strip())
    return f"{text[:opening].strip()} (*)({', '.join(bare)})"


def compare_constants(old, new, changes):
    for name, value in old.constants.items():
        now = new.constants.get(name)
        if now is None:
            changes.breaks.append(f"{name} (= {value}) is gone")
        elif now != value:
            changes.breaks.append(f"{name} was {value}, is {now}")
    changes.growth += [f"{name} = {value} is new" for name, value in new.constants.items() if name not in old.constants]
    for macro in old.macros:
        if macro not in new.macros:
            changes.breaks.append(f"the macro {macro} is gone")
    changes.growth += [f"the macro {macro} is new" for macro in new.macros if macro not in old.macros]


def compare_functions(old, new, changes):
    for name, (result, parameters) in old.functions.items():
        if name not in new.functions:
            changes.breaks.append(f"the function {name} is gone")
            continue
        now_result, now_parameters = new.functions[name]
        if signature(now_result, new) != signature(result, old):
            changes.breaks.append(f"{name} returned {result}, returns {now_result}")
        if len(parameters) != len(now_parameters):
            changes.breaks.append(f"{name} took {len(parameters)} parameters, takes {len(now_parameters)}")
            continue
        for number, ((kind, _), (now, parameter)) in enumerate(zip(parameters, now_parameters), 1):
            if signature(now, new) != signature(kind, old):
                changes.breaks.append(f"parameter {number} ({parameter}) of {name} was {kind}, is {now}")
    changes.growth += [f"the function {name} is new" for name in new.functions if name not in old.functions]


def compare_typedefs(old, new, changes):
    for name, kind in old.typedefs.items():
        now = new.typedefs.get(name)
        if now is None:
            changes.breaks.append(f"the type {name} is gone")
        elif signature(now, new) != signature(kind, old):
            changes.breaks.append(f"the type {name} was {kind}, is {now}")
    changes.growth += [f"the type {name} is new" for name in new.typedefs if name not in old.typedefs]


def compare_member(name, member, now, records, changes):
    """One field of an older struct, and what has become of it."""
    old, new = records
    where = f"{name}.{member.name}"
    if now is None:
        changes.breaks.append(f"the field {where} is gone")
    elif now.offset != member.offset:
        changes.breaks.append(f"the field {where} was at byte {member.offset}, is at {now.offset}")
    elif signature(now.type, new) != signature(member.type, old):
        changes.breaks.append(f"the field {where} was {member.type}, is {now.type}")
    elif now.size != member.size:
        changes.breaks.append(f"the field {where} had {member.size} bytes, has {now.size}")


def compare_struct(name, before, after, old, new, changes):
    """Fields stay where they are; new ones come behind the older struct's end or into words that were reserved. The room
    between fields and at the end of the older struct is nobody's: older programs leave garbage there."""
    is_reserved = lambda member: member.name.startswith("reserved")
    kept = {member.name: member for member in after.members}
    for member in before.members:
        if not is_reserved(member):
            compare_member(name, member, kept.get(member.name), (old, new), changes)
    known = {member.name for member in before.members if not is_reserved(member)}
    room = [(m.offset, m.offset + m.size) for m in before.members if is_reserved(m)]
    for member in after.members:
        if member.name in known:
            continue
        begin, end = member.offset, member.offset + member.size
        in_reserved = any(low <= begin and end <= high for low, high in room)
        if in_reserved and not is_reserved(member):
            changes.growth.append(f"the field {name}.{member.name} uses words that were reserved")
            changes.recut.add(name)
        elif not in_reserved and begin >= before.size and before.grows:
            changes.growth.append(f"the field {name}.{member.name} is new, at the end")
            changes.longer.add(name)
        elif not in_reserved and begin < before.size:
            changes.breaks.append(f"the field {name}.{member.name} is new, within the first {before.size} bytes, and neither behind "
                                  "the older struct's end nor in reserved words")
    if after.size < before.size:
        changes.breaks.append(f"{name} had {before.size} bytes, has {after.size}")
    elif after.size > before.size and not before.grows:
        changes.breaks.append(f"{name} has a fixed size of {before.size} bytes, and now has {after.size}")
    if after.align != before.align:
        changes.breaks.append(f"{name} was aligned to {before.align}, is to {after.align}")
    if before.grows and not after.grows:
        changes.breaks.append(f"{name} no longer begins with struct_size")


def compare(old, new):
    """What has changed from the record `old` to the record `new`."""
    changes = Changes()
    compare_constants(old, new, changes)
    compare_typedefs(old, new, changes)
    for name, before in old.structs.items():
        if name not in new.structs:
            changes.breaks.append(f"struct {name} is gone")
        else:
            compare_struct(name, before, new.structs[name], old, new, changes)
    changes.growth += [f"struct {name} is new" for name in new.structs if name not in old.structs]
    compare_functions(old, new, changes)
    return changes
