"""The offset between two surveys, distinguished from a change of a part of the area.

More than half of the bottom is taken as unchanged, the rest as changed in patches, narrow or wide.
With y the differences of the surveys averaged over blocks of cells:

    y = b + sum_k w_k phi_k + e,  e ~ N(0, S)

b is the offset, phi_k a square patch of blocks, and S the covariance of the draws. Few patches
changed, by w_k ~ N(0, tau^2); the others have w_k = 0 (spike and slab, George and McCulloch 1993,
doi:10.1080/01621459.1993.10476353). Which ones, their share and tau are unknown as well, so that a
change too weak to be seen widens the intervals of the offset and of the net change.
"""

from __future__ import annotations

import numpy as np

from .volume import blocks

#: Maximum number of blocks; sides of the patches, in blocks; and the largest share of the area that
#: is one patch.
BLOCKS, SIDES, LARGEST = 100, (1, 2, 3, 4, 6), 0.35
#: Number of patches that are expected to have changed, and the range of tau, in median standard
#: deviations of a block.
EXPECTED, SIZES = 30.0, np.geomspace(0.5, 12.0, 12)
#: Rounds of sampling, after which a sample is taken as independent of its start; and the weight of
#: the variances alone in S, as few draws tell covariances of many blocks.
ROUNDS, SHRINKAGE = 60, 0.3


def sampled_offset(both: np.ndarray, difference: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Samples of the offset [draws], in m, each with the errors of its draw: the average over the
    cells that changed in no patch, which Gibbs sampling chooses anew for each draw.

    Args:
        both: the cells [rows, columns], boolean; N of them.
        difference: of the two predictive means there [N], in m.
        draws: joint deviations of the true difference from that [draws, N], in m.
    """
    rows, columns = np.nonzero(both)
    block, place = blocks(rows, columns, BLOCKS)
    size = np.bincount(block)
    drawn = _averages(difference + draws, block, size)
    common = draws.mean(1, keepdims=True)  # not distinguished from an offset, and part of it
    errors = _averages(draws - common, block, size)
    variance = np.maximum(errors.var(0), 1e-12)
    covariance = (1 - SHRINKAGE) * np.atleast_2d(np.cov(errors.T)) + SHRINKAGE * np.diag(variance)
    precision = np.linalg.inv(covariance)
    seen = precision.sum(0)
    precision -= np.outer(seen, seen) / seen.sum()  # of an unknown offset
    sizes = SIZES * float(np.sqrt(np.median(variance)))
    y = _averages(difference[None], block, size)[0]
    # A larger change is as sure, and tau has no place for it.
    y = np.clip(y - np.median(y), -sizes[-1], sizes[-1])
    weight = size * ~_changed(y, precision, _patches(place), sizes, len(draws))
    unchanged = weight.sum(1)
    half = 0.5 * size.sum()
    most = np.flatnonzero(unchanged > (half if unchanged.max() > half else 0.0))
    weight = weight[np.resize(most, len(weight))] if len(most) else np.tile(size, (len(draws), 1))
    offsets: np.ndarray = (weight * drawn).sum(1) / weight.sum(1)
    return offsets


def _averages(values: np.ndarray, block: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Averages of each row of values [K, N] over the blocks [K, B]."""
    return np.array([np.bincount(block, row) for row in values]) / size


def _patches(place: np.ndarray) -> np.ndarray:
    """Which blocks, at (row, column) [B, 2], each square patch has: [K, B], 0 or 1."""
    patches = set()
    low, high = place.min(0), place.max(0)
    for side in SIDES:
        starts = (
            range(first - side // 2, last + 1, max(1, side // 2))
            for first, last in zip(low.tolist(), high.tolist(), strict=True)
        )
        rows, columns = (
            [(axis >= start) & (axis < start + side) for start in tried]
            for axis, tried in zip(place.T, starts, strict=True)
        )
        for row in rows:
            for column in columns:
                inside = row & column
                if 0 < inside.sum() <= LARGEST * len(place):
                    patches.add(inside.tobytes())
    every = b"".join(sorted(patches))
    return np.frombuffer(every, dtype=bool).reshape(-1, len(place)).astype(float)


def _changed(
    y: np.ndarray, precision: np.ndarray, patch: np.ndarray, sizes: np.ndarray, chains: int
) -> np.ndarray:
    """Samples of which blocks lie in changed patches [chains, B], boolean, by Gibbs sampling in
    independent chains."""
    rng, count = np.random.default_rng(0), len(patch)
    seen = patch @ precision
    variance = 1 / (seen * patch).sum(1)  # of each patch's change, if all others were known
    tau, share = rng.choice(sizes, chains), np.full(chains, min(0.5, EXPECTED / max(count, 1)))
    change, rest = np.zeros((chains, count)), np.tile(y, (chains, 1))
    for _ in range(ROUNDS):
        for k in rng.permutation(count):
            own, prior = variance[k], tau**2
            seems = rest @ seen[k] * own + change[:, k]
            kept = prior / (prior + own)
            odds = share / (1 - share) * np.sqrt(1 - kept)
            evidence = np.minimum(0.5 * seems**2 / own * kept, 500.0)
            changed = rng.random(chains) < 1 - 1 / (1 + odds * np.exp(evidence))
            drawn = kept * seems + np.sqrt(kept * own) * rng.standard_normal(chains)
            new = np.where(changed, drawn, 0.0)
            moved = np.flatnonzero(new != change[:, k])
            rest[moved] -= (new - change[:, k])[moved, None] * patch[k]
            change[:, k] = new
        number = (change != 0).sum(1)
        share = rng.beta(1 + number, count / EXPECTED + count - number + 1e-9)
        tau = _size_of(rng, sizes, number, np.square(change).sum(1))
    changed_blocks: np.ndarray = (change != 0) @ patch > 0
    return changed_blocks


def _size_of(
    rng: np.random.Generator, sizes: np.ndarray, number: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """tau of each chain [chains], drawn from ``sizes``, given how many patches changed [chains] and
    the sum of the squares of their changes [chains]."""
    fit = -number[:, None] * np.log(sizes) - 0.5 * squares[:, None] / sizes**2
    likelihood = np.exp(fit - fit.max(1, keepdims=True)).cumsum(1)
    chosen = (rng.random(len(number))[:, None] * likelihood[:, -1:] > likelihood).sum(1)
    drawn: np.ndarray = sizes[chosen]
    return drawn
