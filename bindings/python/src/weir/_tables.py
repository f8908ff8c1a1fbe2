# SPDX-License-Identifier: Apache-2.0
"""What `print(pool.stats)` and notebooks show: the figures that one looks at first, in units for people.

A table is a title and sections, a section is rows of text cells. Two writers turn one table into plain text and into HTML without
any script; HTML escapes every cell, whatever it is. The exact numbers stay with the attributes and `repr`."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ._sizes import bytes_text

if TYPE_CHECKING:
    from .records import ClientStats, PoolDeviceStats, PoolStats


class Section(NamedTuple):
    """Rows under a head; the first cell of each row names it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Table(NamedTuple):
    title: str
    sections: Sequence[Section]


# ---- writers ----


def text_of(table: Table) -> str:
    """Columns of plain text; figures end below each other, also of sections with as many columns. No line ends in spaces."""
    blocks = [_rectangle(section) for section in table.sections]
    widths: dict[int, list[int]] = {}
    for block in blocks:
        own = [max(map(len, column)) for column in zip(*block)]
        widths[len(own)] = list(map(max, own, widths.get(len(own), own)))
    lines = [table.title]
    for block in blocks:
        left = [column == 0 or head == _ATTRIBUTE for column, head in enumerate(block[0])]
        lines.append("")
        for row in block:
            cells = zip(row, widths[len(row)], left)
            lines.append("  ".join(cell.ljust(width) if to_left else cell.rjust(width) for cell, width, to_left in cells).rstrip())
    return "\n".join(lines)


def _rectangle(section: Section) -> list[list[str]]:
    """The head and the rows, filled up to as many cells each."""
    rows = [section.head, *section.rows]
    count = max(map(len, rows))
    return [[*row, *[""] * (count - len(row))] for row in rows]


def html_of(table: Table) -> str:
    """A fragment for a notebook."""
    count = max(len(row) for section in table.sections for row in (section.head, *section.rows))
    parts = [f"<table><caption>{html.escape(table.title)}</caption>"]
    for section in table.sections:
        parts.append("<tbody>")
        parts.append(_html_row("th", section.head, count))
        parts.extend(_html_row("td", row, count) for row in section.rows)
        parts.append("</tbody>")
    parts.append("</table>")
    return "".join(parts)


def _html_row(tag: str, row: Sequence[str], count: int) -> str:
    cells = [*row, *[""] * (count - len(row))]
    first = f'<th style="text-align:left">{html.escape(cells[0])}</th>'
    return f"<tr>{first}{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells[1:])}</tr>"


# ---- figures ----


def count_text(count: int) -> str:
    return f"{count:,}"


def share_text(part: int, whole: int) -> str:
    """"12 %" of the whole; nothing where there is no whole."""
    return f"{100 * part / whole:.0f} %" if whole > 0 else ""


def time_text(nanoseconds: int) -> str:
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds} ns"


def _budget(budget: int) -> str:
    return bytes_text(budget) if budget else "-"


# ---- tables ----

_ATTRIBUTE = "attribute"  # the head of the column that names them
_TROUBLES = (
    ("over_budget", "over budget"),
    ("would_block", "would have waited, or timed out"),
    ("lease_conflicts", "lease conflicts"),
    ("device_oom", "no memory inside the budget"),
    ("eviction_failures", "evictions given up"),
    ("checksum_failures", "pages with wrong bytes"),
    ("io_errors", "reads and writes of spill files"),
)


def pool_table(stats: PoolStats) -> Table:
    """Budgets, what was moved, and what went wrong, with the attribute that has the exact number."""
    tiers = [
        ("device", stats.device_bytes, stats.device_budget, stats.device_free_bytes),
        ("host", stats.host_bytes, stats.host_budget, stats.host_bytes - stats.host_used_bytes),
        ("compressed", stats.compressed_bytes, stats.compressed_budget, None),
        ("storage", stats.storage_bytes, stats.storage_budget, None),
    ]
    memory = [
        (name, bytes_text(held), _budget(budget), share_text(held, budget), "" if idle is None else bytes_text(max(0, idle)))
        for name, held, budget, idle in tiers
    ]
    uses, brought = stats.hits + stats.misses, stats.promoted_bytes + stats.peer_bytes
    moved = [
        _moved(stats, "up to devices", "promoted_bytes"),
        _moved(stats, "  prefetched", "prefetched_bytes", brought),
        _moved(stats, "  refaulted", "refaulted_bytes", stats.promoted_bytes),
        _moved(stats, "down from devices", "demoted_bytes"),
        _moved(stats, "  in the background", "background_demoted_bytes", stats.demoted_bytes),
        _moved(stats, "dropped: a copy is below", "dropped_clean_bytes"),
        _moved(stats, "between devices", "peer_bytes"),
        _moved(stats, "written to storage", "storage_written_bytes"),
        _moved(stats, "read from storage", "storage_read_bytes"),
    ]
    work = [
        ("uses that found all there", count_text(stats.hits), share_text(stats.hits, uses), "hits"),
        ("uses that brought pages in", count_text(stats.misses), share_text(stats.misses, uses), "misses"),
        ("waited for other leases", time_text(stats.wait_ns), "", "wait_ns"),
    ]
    foreseen = share_text(stats.planned_operations, stats.learned_operations)
    plans = [
        ("operations learned", count_text(stats.learned_operations), "", "learned_operations"),
        ("  foreseen by a plan", count_text(stats.planned_operations), foreseen, "planned_operations"),
        ("uses lost to learning", count_text(stats.lost_uses), "", "lost_uses"),
        ("plans made", count_text(stats.plans_made), "", "plans_made"),
        _moved(stats, "fetched for a plan", "plan_fetched_bytes", brought),
        _moved(stats, "cleaned for a plan", "plan_cleaned_bytes", stats.demoted_bytes),
    ]
    troubles = [(words, count_text(getattr(stats, name)), "", name) for name, words in _TROUBLES if getattr(stats, name)]
    return Table(
        f"Pool: {count_text(stats.buffers)} buffers, {bytes_text(stats.buffer_bytes)} in {count_text(stats.pages)} pages",
        [
            Section(("memory", "held", "budget", "", "idle"), memory),
            Section(("moved", "", "", _ATTRIBUTE), moved),
            Section(("leases", "", "", _ATTRIBUTE), work),
            *([Section(("plans", "", "", _ATTRIBUTE), plans)] if stats.learned_operations or stats.plans_made else []),
            *([Section(("refused or failed", "", "", _ATTRIBUTE), troubles)] if troubles else []),
        ],
    )


def _moved(stats: PoolStats, words: str, name: str, whole: int = 0) -> Sequence[str]:
    count: int = getattr(stats, name)
    return words, bytes_text(count), share_text(count, whole), name


def device_table(stats: PoolDeviceStats) -> Table:
    rows = [
        ("held", bytes_text(stats.bytes), share_text(stats.bytes, stats.budget)),
        ("  idle", bytes_text(stats.free_bytes)),
        ("  by holds and malloc", bytes_text(stats.held_bytes)),
        ("budget", bytes_text(stats.budget), share_text(stats.budget, stats.memory_total)),
        ("peak", bytes_text(stats.peak_bytes)),
        ("the device has", bytes_text(stats.memory_total) if stats.memory_total else "not known"),
        ("a page", bytes_text(stats.page_size)),
        ("a large page", bytes_text(stats.large_page_size)),
    ]
    state = getattr(stats.state, "name", str(stats.state)).lower()
    return Table(f"Pool, device {stats.device}: {state}", [Section(("memory", "", ""), rows)])


def client_table(stats: ClientStats) -> Table:
    tiers = ("device", "host", "compressed", "storage")
    rows = [(tier, bytes_text(getattr(stats, f"{tier}_bytes"))) for tier in tiers]
    return Table(f"Client: {count_text(stats.buffers)} buffers", [Section(("memory", "charged"), rows)])
