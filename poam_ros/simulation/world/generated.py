"""Terrain that is made up: the same for the same seed, in m, row 0 south, column 0 west."""

from __future__ import annotations

import numpy as np

from .preparation import scaled

#: Cells a side.
SIDE = 360
#: What ``lake`` is drawn for: half the side of the paper's environment, m.
HALF = 31.0


def seamounts(seed: int) -> np.ndarray:
    """A smooth plain in the west that turns into rough ridges and seamounts in the east."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    plain = 0.25 * np.sin(1.5 * x + rng.uniform(0, 6)) * np.cos(1.2 * y + rng.uniform(0, 6))
    border = 0.25 * np.sin(3 * y + rng.uniform(0, 6))
    roughness = 1 / (1 + np.exp(-14 * (x - border)))
    hills = np.zeros_like(x)
    for _ in range(70):
        cx, cy = rng.uniform(-0.3, 1.1), rng.uniform(-1.1, 1.1)
        width, height = rng.uniform(0.04, 0.16), rng.uniform(0.2, 1.0)
        hills += height * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * width**2))
    ridges = 1 - np.abs(np.sin(9 * x + 4 * y + 2 * np.sin(3 * y) + rng.uniform(0, 6)))
    return scaled("seamounts", plain + roughness * (hills + 0.5 * ridges), (0.0, 255.0))


def corner(seed: int) -> np.ndarray:
    """A gentle swell, and one small rugged corner of which it says nothing."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    swell = 0.5 * np.sin(1.3 * x + rng.uniform(0, 6)) * np.cos(1.1 * y + rng.uniform(0, 6))
    rugged = _fractal(rng, 4, 1.8)  # no wave longer than 15 m
    far = np.hypot(x - rng.choice([-0.7, 0.7]), y - rng.choice([-0.7, 0.7]))
    inside = 1 / (1 + np.exp(30 * (far - 0.28)))
    return scaled("corner", swell + 0.5 * inside * rugged, (0.0, 255.0))


def lake(seed: int) -> np.ndarray:
    """A drowned valley under a water level of 0: ground from -30 to -3 m, drawn for 62 m a side.

    A shallow shelf with shoals, which an old stream has cut; it winds down a slope of loose rock
    to a flat of mud, where a hollow is the deepest place and a wreck 14 m long lies.
    """
    rng = np.random.default_rng(seed)
    middles = HALF * (2 * np.arange(SIDE) + 1 - SIDE) / SIDE
    x, y = np.meshgrid(middles, middles)
    facing = np.pi / 4 + rng.uniform(-0.25, 0.25) + np.pi / 2 * rng.integers(4)
    phases = rng.uniform(0, 2 * np.pi, 4)
    down, along = _turned(x, y, facing)
    rugged, crooked = _fractal(rng, 3, 2.6), _fractal(rng, 2, 2.8)
    side = rng.choice([-1, 1])

    def course(down: np.ndarray | float) -> np.ndarray | float:
        """Where the stream is, along the shore."""
        return 5 * np.sin(down / 8 + phases[2]) + 1.5 * np.sin(down / 4.1 + phases[3])

    shore = 3 * np.sin(along / 9 + phases[0]) + 1.5 * np.sin(along / 4.3 + phases[1])
    out = down + shore
    z = -23 * _ramp((out + 19) / 42) - 0.06 * np.clip(out + 20, -20, 0)
    z += rugged * (0.12 + 0.45 * np.exp(-((out / 14) ** 2)))

    beside = np.abs(along - course(down))
    bed, levees = np.exp(-((beside / 2.2) ** 4)), np.exp(-(((beside - 4) / 1.6) ** 2))
    z += (1 - _ramp((out - 10) / 12)) * (0.5 * levees - 2.6 * bed)
    z += np.exp(-(((down - 20) / 5) ** 2) - (beside / 7) ** 2)  # what it has carried down

    for depth, across, height, width in ((-24, 11, 2.2, 4), (-12, -14, 3.5, 3.2), (-2, 13, 3, 2.6)):
        far = (down - depth) ** 2 + 1.7 * (along - side * across) ** 2
        z += height * np.exp(-((far / width**2 * np.exp(0.5 * crooked)) ** 1.2))

    free = -np.sign(course(22.0))  # on this side of the stream's mouth there is more room
    far = (down - 24) ** 2 + 0.4 * (along - course(24.0) + 12 * free) ** 2
    z -= 1.8 * np.exp(-far / 25 * np.exp(0.4 * crooked))
    hull = down - 22, along - course(22.0) - 9 * free
    return scaled("lake", z, (-30.0, -3.0)) + _wreck(*_turned(*hull, rng.uniform(0, np.pi)))


def _wreck(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Height of a barge of 14 m by 4 m over the ground: hull, hold and wheelhouse, a along it."""
    beam = 2 * np.sqrt(np.clip(1 - np.abs(a / 7) ** 2.5, 0, None))
    hull, hold = np.abs(b) < beam, (np.abs(b) < 0.65 * beam) & (a > -1.5) & (a < 4)
    house = (np.abs(b) < 0.6 * beam) & (a > -5.5) & (a < -2.5)
    return 2.0 * hull - 0.8 * hold + 1.4 * house


def _turned(x: np.ndarray, y: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """x, y in axes that are turned by an angle."""
    cos, sin = np.cos(angle), np.sin(angle)
    return x * cos + y * sin, y * cos - x * sin


def _ramp(share: np.ndarray) -> np.ndarray:
    """From 0 to 1, smooth at both ends."""
    share = np.clip(share, 0, 1)
    return share**2 * (3 - 2 * share)


def _fractal(rng: np.random.Generator, longest: float, fall: float) -> np.ndarray:
    """Fractal ground of deviation 1: a spectrum that falls with the wave number, without the waves
    that go less than ``longest`` times into the side."""
    waves = np.hypot(*np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE)))
    spectrum = np.where(waves < longest / SIDE, 0.0, np.maximum(waves, 1 / SIDE) ** -fall)
    ground = np.fft.ifft2(np.fft.fft2(rng.standard_normal((SIDE, SIDE))) * spectrum).real
    return ground / ground.std()
