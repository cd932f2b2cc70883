"""A planner: the most uncertain place within reach."""

from dataclasses import dataclass

import numpy as np

from poam_ros import InputError, MapView, PlannerEntry, Situation, check, setting


@dataclass(frozen=True)
class NearOptions:
    """Options of ``near``: near.reach and near.candidates, also parameters of the planner."""

    prefix = "near"

    reach: float = setting(100.0, "Longest way to a waypoint", "m", minimum=1.0, maximum=1e5)
    candidates: int = setting(200, "Random places to choose from", minimum=1, maximum=10_000)

    def __post_init__(self) -> None:
        check(self)


def plan(
    view: MapView, situation: Situation, options: NearOptions, rng: np.random.Generator
) -> np.ndarray:
    """One waypoint [1, 2], in m. Draws only from ``rng``: the same seed flies the same mission."""
    places = situation.workspace.sample(options.candidates, rng)
    places = places[situation.routes.reachable(situation.position, places)]
    if not len(places):
        raise InputError("near: expected a place that can be reached, got none")
    variance = np.nan_to_num(view.predict(places).variance, nan=-1.0)
    distance = np.hypot(*(places - situation.position).T)
    variance[distance > max(options.reach, distance.min())] = -1.0
    return places[[variance.argmax()]]


NEAR = PlannerEntry(plan, NearOptions)
