# SPDX-License-Identifier: Apache-2.0
"""Records as tables: for a terminal, for a notebook, and as exact as ever by attribute and repr."""

from __future__ import annotations

import dataclasses
import html.parser
import re

import pytest

import weir
from tests_support import PAGE
from weir import _tables


def stats_of(**fields: int) -> weir.PoolStats:
    return weir.PoolStats(**{**{field.name: 0 for field in dataclasses.fields(weir.PoolStats)}, **fields})


def test_the_pool_in_print() -> None:
    stats = stats_of(
        device_budget=32 << 20, device_bytes=24 << 20, device_free_bytes=2 << 20, host_budget=64 << 20, host_bytes=64 << 20,
        host_used_bytes=54 << 20, storage_budget=1 << 40, buffers=1200, buffer_bytes=80 << 20, pages=40, hits=3, misses=1,
        promoted_bytes=50 << 20, prefetched_bytes=25 << 20, demoted_bytes=1536, wait_ns=12_345_678, lease_conflicts=2,
    )  # fmt: skip
    assert str(stats) == """\
Pool: 1,200 buffers, 80.0 MiB in 40 pages

memory          held    budget             idle
device      24.0 MiB  32.0 MiB   75 %  2.00 MiB
host        64.0 MiB  64.0 MiB  100 %  10.0 MiB
compressed       0 B         -
storage          0 B  1.00 TiB    0 %

moved                                       attribute
up to devices               50.0 MiB        promoted_bytes
  prefetched                25.0 MiB  50 %  prefetched_bytes
  refaulted                      0 B   0 %  refaulted_bytes
down from devices           1.50 KiB        demoted_bytes
  in the background              0 B   0 %  background_demoted_bytes
dropped: a copy is below         0 B        dropped_clean_bytes
between devices                  0 B        peer_bytes
written to storage               0 B        storage_written_bytes
read from storage                0 B        storage_read_bytes

leases                                      attribute
uses that found all there          3  75 %  hits
uses that brought pages in         1  25 %  misses
waited for other leases      12.3 ms        wait_ns

refused or failed                           attribute
lease conflicts                    2        lease_conflicts"""


def test_plans_have_a_section_where_there_are_some() -> None:
    stats = stats_of(learned_operations=2000, planned_operations=1500, lost_uses=7, plans_made=3, promoted_bytes=4 << 20,
                     plan_fetched_bytes=3 << 20, demoted_bytes=2 << 20, plan_cleaned_bytes=1 << 20)  # fmt: skip
    assert "plans" not in str(stats_of(hits=1))
    text = str(stats)
    assert text[text.index("plans") :] == """\
plans                                       attribute
operations learned             2,000        learned_operations
  foreseen by a plan           1,500  75 %  planned_operations
uses lost to learning              7        lost_uses
plans made                         3        plans_made
fetched for a plan          3.00 MiB  75 %  plan_fetched_bytes
cleaned for a plan          1.00 MiB  50 %  plan_cleaned_bytes"""


def test_numbers_stay_numbers(pool: weir.Pool, stream: weir.Stream) -> None:
    with pool.acquire(stream, weir.overwrite(pool.buffer(PAGE))):
        stats, device = pool.stats, pool.device_stats()
    client = pool.client("one").stats
    for record in (stats, device, client):
        assert repr(record) == re.sub(r"\n", "", repr(record))
        for field in dataclasses.fields(record):
            assert f"{field.name}=" in repr(record)
            assert isinstance(getattr(record, field.name), int)
        assert "\n" in f"{record}"
        assert not any(line.endswith(" ") for line in str(record).splitlines())
    assert f"device_budget={4 * PAGE}, device_bytes={stats.device_bytes}, " in repr(stats)
    assert "Pool, device 0: present" in str(device)
    assert "the device has         64.0 MiB" in str(device)
    assert str(client).startswith("Client: 0 buffers\n")


def test_every_attribute_that_is_named_is_there() -> None:
    names = {name for name, _ in _tables._TROUBLES} | set(re.findall(r"(?m)^.* ([a-z_]+)$", str(stats_of())))
    assert {"hits", "refaulted_bytes", "io_errors"} <= names
    fields = {field.name for field in dataclasses.fields(weir.PoolStats)}
    assert {name for name in names - fields if name not in ("attribute", "idle", "pages")} == set()


class Tags(html.parser.HTMLParser):
    """The tags and texts of a fragment; unclosed ones fail."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.texts: list[str] = []
        self.feed(fragment)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_pool_in_a_notebook() -> None:
    tags = Tags(stats_of(device_budget=32 << 20, device_bytes=24 << 20, io_errors=3)._repr_html_())
    assert tags.seen == {"table", "caption", "tbody", "tr", "th", "td"}
    assert {"Pool: 0 buffers, 0 B in 0 pages", "24.0 MiB", "75 %", "io_errors"} <= set(tags.texts)


def test_html_is_escaped_and_has_no_script() -> None:
    nasty = "<script>alert('x')</script>&\"<img src=x onerror=alert(1)>"
    tags = Tags(_tables.html_of(_tables.Table(nasty, [_tables.Section((nasty, nasty), [(nasty, nasty), (nasty,)])])))
    assert tags.seen == {"table", "caption", "tbody", "tr", "th", "td"}
    assert tags.texts == [nasty] * 6


TIMES = [(0, "0 ns"), (999, "999 ns"), (1500, "1.5 us"), (2 * 10**6, "2 ms"), (75 * 10**9, "75 s")]


@pytest.mark.parametrize(("time", "text"), TIMES)
def test_times_for_people(time: int, text: str) -> None:
    assert _tables.time_text(time) == text


def test_budgets_that_are_words() -> None:
    text = str(stats_of(device_budget=weir.UNLIMITED, host_budget=weir.NONE))
    assert re.search(r"(?m)^device +0 B +unlimited", text)
    assert re.search(r"(?m)^host +0 B +none", text)
