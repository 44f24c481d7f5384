"""This machine's clocks, as its kernel judges them."""

from __future__ import annotations

import ctypes
from pathlib import Path

_UNSYNCHRONISED = 0x40
"""STA_UNSYNC of <linux/timex.h>: nobody disciplines the clock."""
_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


class _Timex(ctypes.Structure):
    # The head of struct timex (adjtimex(2)); the tail is only room for what the kernel writes.
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def synchronised() -> bool | None:
    """Whether somebody (NTP, PTP) disciplines the wall clock; None: the kernel does not say. Reads only (modes 0)."""
    state = _Timex()
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state))
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else not state.status & _UNSYNCHRONISED


def source() -> str:
    """What the kernel reads the time from: ``tsc``, ``kvm-clock``, ``hpet``, …; ``unknown`` where it hides it."""
    try:
        return _SOURCE.read_text().strip()
    except OSError:
        return "unknown"
