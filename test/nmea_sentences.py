"""Sentences of NMEA 0183 for files of tests."""

from __future__ import annotations

import functools
import operator


def sentence(body: str) -> str:
    """A body with $, checksum and line end."""
    return f"${body}*{functools.reduce(operator.xor, body.encode()):02X}\r\n"


def spelt(degrees: float, sides: str) -> str:
    """Degrees as degrees and minutes with a side of ``sides``: NS or EW."""
    size = abs(degrees)
    text = f"{int(size):0{2 if 'N' in sides else 3}d}{60 * (size % 1):08.5f}"
    return f"{text},{sides[int(degrees < 0)]}"
