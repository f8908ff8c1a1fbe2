# SPDX-License-Identifier: Apache-2.0
"""Names of operations by their callers: the function that acquires, and the place in it.

A place is a call in a code object. It is named once in a pool, by module, qualified name and the line counted from the function's
first, such as "app.train.Step.forward+3": so what is changed above a function changes none of its names. What is found again costs
a look-up.
"""

from __future__ import annotations

from types import CodeType, FrameType
from typing import TYPE_CHECKING

from .errors import WeirError

if TYPE_CHECKING:
    from .pool import Pool

#: Places of a pool that get names. Code that is made anew again and again has no end of them, and each is kept alive.
MOST_PLACES = 4096
LONGEST_NAME = 1023  # bytes


def place_name(frame: FrameType) -> str:
    """What is too long loses its beginning."""
    code = frame.f_code
    module = frame.f_globals.get("__name__") or "?"
    function = getattr(code, "co_qualname", code.co_name)  # before Python 3.11 without the class
    line = (frame.f_lineno or code.co_firstlineno) - code.co_firstlineno
    name = f"{module}.{function}+{line}".replace("\0", "?").encode("utf-8", "replace")
    return name[-LONGEST_NAME:].decode("utf-8", "ignore")


class Callers:
    """The numbers of places, for one pool. Any thread: two that name one place at once are given the same number."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        # By the identity of the code, which is kept alive with it: code objects compare by what is in them, which takes longer.
        self._places: dict[tuple[int, int], tuple[int, CodeType]] = {}

    def number_of(self, frame: FrameType, pool: Pool) -> int:
        """Of the place where the frame is now; 0: there are too many, or the pool gives none."""
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        known = self._places.get(key)
        if known is not None:
            return known[0]
        if len(self._places) >= MOST_PLACES:
            return 0
        try:
            number = pool.operation_id(place_name(frame))
        except WeirError:  # a name is a hint: what the pool can't do is the acquire's to tell
            return 0
        self._places[key] = (number, code)
        return number
