"""Folders of finished sweeps, made up, for tests of the report."""

import numpy as np

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs.folder import (
    EPOCH_COLUMNS,
    RUN_COLUMNS,
    write_map,
    write_samples,
    write_table,
    write_truth,
)

WORKSPACE = Extent(-30, 30, -30, 30)


def elevation_at(xy, shift=0.0):
    """Hills that get rougher to the east, in m."""
    x, y = xy[:, 0] + shift, xy[:, 1]
    smooth = 90 * np.exp(-((x + 10) ** 2 + (y - 8) ** 2) / 300)
    rough = (0.5 + x / 60) * (np.sin(0.7 * x) + np.cos(0.9 * y + 0.3 * x))
    return 80 + smooth + 22 * rough


def write_run(folder, samples, values, shift=0.0, seed=0, resolution=6.0):
    """A run's folder; ``values``: columns of epochs.csv by name, each [epochs], others are 1."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    samples = np.asarray(samples)
    columns = {name: np.ones(len(samples)) for name in EPOCH_COLUMNS}
    columns.update(samples=samples, **{k: np.asarray(v, float) for k, v in values.items()})
    rows = np.column_stack([columns[name] for name in EPOCH_COLUMNS])
    write_table(folder / "epochs.csv", EPOCH_COLUMNS, rows)
    corners = WORKSPACE.sample(max(int(samples[-1]) // 100, 2), rng)
    at = np.linspace(0, len(corners) - 1, int(samples[-1]))
    path = np.column_stack([np.interp(at, range(len(corners)), c) for c in corners.T])
    write_samples(folder / "samples.csv", path, elevation_at(path, shift))
    grid = Grid.cells(WORKSPACE, resolution)
    truth = elevation_at(grid.points, shift)
    mean = truth + rng.normal(size=len(truth))
    lengthscale = 1.5 + 6 / (1 + np.exp((grid.points[:, 0] + shift) / 6))
    layers = (layer.reshape(grid.shape) for layer in (mean, np.ones_like(truth), lengthscale))
    mean, variance, lengthscale = layers
    write_map(
        folder / "map.npz",
        ElevationMap(
            grid, mean, variance, {"lengthscale": lengthscale}, WORKSPACE.sample(80, rng),
            int(samples[-1]),
        ),
    )  # fmt: skip
    write_truth(folder / "truth.npz", truth.reshape(grid.shape), WORKSPACE)


def made_run(environment, method, seed, smse, samples=(500, 1000, 3000, 5000), **other):
    """A run for ``write_sweep``, whose MSLL is its SMSE less 2, and whose updates take 0.5 s."""
    smse = np.broadcast_to(np.asarray(smse, float), len(samples))
    values = {"smse": smse, "msll": smse - 2, "update_s": np.full(len(samples), 0.5)}
    return {
        "environment": environment, "method": method, "seed": seed, "samples": samples,
        "values": values, **other,
    }  # fmt: skip


def write_sweep(folder, runs):
    """runs.csv and the runs' folders; ``runs``: dicts of environment, method, seed, samples,
    values and what else ``write_run`` takes, and maybe pilot and planner."""
    rows = []
    for run in runs:
        run = dict(run)
        pilot, planner = run.pop("pilot", "bezier"), run.pop("planner", "max-entropy")
        environment, method, seed = run.pop("environment"), run.pop("method"), run["seed"]
        kernel = method.partition(":")[2] or "attentive"
        name = method.replace(":", "-")
        path = f"runs/{environment}/{name}/{pilot}-{planner}/seed-{seed}"
        write_run(folder / path, **run)
        last = int(run["samples"][-1])
        rows.append((environment, method, kernel, pilot, planner, seed, last, 12.5, path))
    write_table(folder / "runs.csv", RUN_COLUMNS, rows)
    return folder
