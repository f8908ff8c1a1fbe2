# SPDX-License-Identifier: Apache-2.0
"""What a share such as "80%" is of, where a device is meant, and the budgets that pools are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import enums
from ._arguments import device_number
from ._sizes import MACHINE, Whole, size_in_bytes
from .errors import WeirError

if TYPE_CHECKING:
    from .context import Context
    from .pool import Pool


def device_whole(context: Context, device: int) -> Whole:
    """What a share is of where a pool is given a device of the context."""
    return Whole("the device's memory", lambda: context.device(device_number(device)).memory_total)


def budgets_of(context: Context, devices: Any) -> dict[int, int]:
    """What a pool may hold on each device."""
    if isinstance(devices, (list, tuple, set)):
        what = type(devices).__name__
        raise TypeError(f'the budgets of several devices are a mapping, such as {{0: "8G", 1: "8G"}}, not a {what}')
    given = devices if isinstance(devices, Mapping) else {0: devices}
    name = "the budget of device {}" if isinstance(devices, Mapping) else "devices"
    return {
        device_number(device): size_in_bytes(budget, name.format(device_number(device)), device_whole(context, device))
        for device, budget in given.items()
    }


def whole_of(pool: Pool, device: int) -> Whole | None:
    """What a share is of where a device of a pool is meant."""
    if device == enums.HOST:
        return MACHINE
    if device == enums.ALL:
        return None
    return Whole("the device's memory", lambda: pool.device_stats(device).memory_total)


def smallest_of(pool: Pool) -> Whole:
    """What a share is of where something holds for each device of a pool."""

    def smallest() -> int:
        totals = []
        for device in range(pool.context.device_count):
            try:
                totals.append(pool.device_stats(device).memory_total)
            except WeirError:  # none of the pool's, or it has left
                continue
        return min(totals, default=0)

    return Whole("the memory of the pool's smallest device", smallest)
