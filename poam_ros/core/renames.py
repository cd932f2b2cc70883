"""Old names of settings: refused as input, and understood in old records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InputError


def _grouped(group: str, names: str) -> dict[str, tuple[str, ...]]:
    return {name: (f"{group}.{name}",) for name in names.split()}


def _moved(group: str, **names: str) -> dict[str, tuple[str, ...]]:
    """Settings with new names; the old names are refused with and without the group."""
    return {
        old: (f"{group}.{new}",) for own, new in names.items() for old in (own, f"{group}.{own}")
    }


#: The old names with the new ones; two if it depends on the model or the node.
RENAMED: dict[str, tuple[str, ...]] = {
    **_grouped(
        "sparse", "kernel num_inducing minibatch steps num_lengthscales amplitude noise_variance "
        "jitter tolerance learning_rate network_learning_rate",
    ),
    **_grouped(
        "nngp", "tail neighbours left_out first_steps early_steps early_samples update_steps "
        "global_rate network_rate averaging least_share gap_share hidden lattice weight_penalty "
        "field_penalty anisotropy_penalty shared_anisotropy mean_precision initial_noise "
        "initial_lengthscale",
    ),
    **_moved("nngp", pool="candidate_neighbours", apart="neighbour_spacing"),
    **{
        f"{which}_lengthscale_m": (f"sparse.{which}_lengthscale", f"nngp.{which}_lengthscale")
        for which in ("shortest", "longest")
    },
    "initial_lengthscale_m": ("nngp.initial_lengthscale",),
    "min_lengthscale": ("sparse.shortest_lengthscale",),
    "max_lengthscale": ("sparse.longest_lengthscale",),
    "shortest_lengthscale": ("nngp.shortest_lengthscale",),
    "longest_lengthscale": ("nngp.longest_lengthscale",),
    **_grouped("max_entropy", "candidates distance_weight"),
    **_grouped("path_entropy", "exploration"),
    **_moved(
        "path_entropy", ways="candidates", leg="max_leg", reach="exploration_distance",
        cells="grid_cells",
    ),
    **_grouped(
        "sonar", "min_range max_range repeat_window min_confidence beam_width base_frame noise_std "
        "clearance latency dropout outlier nan inf false_echo field_of_view",
    ),
    "range_time_offset": ("sonar.time_offset",),
    "sonar_offset": ("sonar.offset",),
    "sonar_tilt": ("sonar.tilt",),
    "sound_speed_assumed": ("sonar.sound_speed",),
    "odometry_timeout": ("odometry.timeout",),
    "odometry_wait": ("odometry.wait",),
    "max_vehicle_speed": ("odometry.max_speed",),
    "max_jump": ("odometry.max_jump", "watchdog.max_jump"),
    "pings_at_place": ("sonar.pings_at_place",),
    "max_position_std": ("odometry.max_std", "watchdog.max_position_std"),
    "sound_speed": ("water.sound_speed",),
    "water_level": ("water.level",),
    "water_level_timeout": ("water.level_timeout",),
    "await_water_level": ("water.await_level",),
    "ping_noise": ("noise.enabled",),
    "range_noise_std": ("noise.range_std",),
    "range_noise_share": ("noise.range_share",),
    "slope": ("noise.slope",),
    "max_noise_std": ("noise.max_std",),
    "batch_size": ("batch.size",),
    "batch_period": ("batch.period",),
    "first_batch": ("batch.first",),
    "update_budget": ("training.budget",),
    "training_duty": ("training.duty",),
    "training_rate": ("training.rate",),
    "screening": ("screening.enabled",),
    **_grouped("screening", "echo_ratio confirm_pings"),
    **_moved("screening", echo_deviations="map_sigmas"),
    "workspace_polygon": ("areas.polygon",),
    "keep_outs": ("areas.keep_outs",),
    "areas": ("areas.file",),
    "areas_in": ("areas.coordinates",),
    "area_margin": ("areas.margin",),
    "target_tvu": ("target.tvu",),
    "target_share": ("target.share",),
    "target_distance": ("target.distance",),
    "target_depths": ("target.depth_factor",),
    "target.depths": ("target.depth_factor",),
    **_moved(
        "watchdog", odometry_patience="odometry_timeout", sonar_patience="sonar_timeout",
        map_patience="map_timeout", progress_patience="progress_timeout",
    ),
    "geofence_margin": ("watchdog.geofence_margin",),
    "watchdog_resumes": ("watchdog.auto_resume",),
    "watchdog.resumes": ("watchdog.auto_resume",),
    "autoresume": ("watchdog.resume_after_restart",),
    "margin": ("odometry.max_outside",),
    "goals": ("goals.metres",),
    "goals_degrees": ("goals.degrees",),
    "goals_file": ("goals.file",),
    "goal_action": ("goals.action",),
    "save_formats": ("save.formats",),
    "vertical_datum": ("save.vertical_datum",),
}  # fmt: skip

#: Old lengthscales in units of half the workspace's longer side: default share, and the setting in
#: m that took precedence unless it was 0.
_SHARES = {
    "min_lengthscale": (0.05, "shortest_lengthscale_m"),
    "max_lengthscale": (0.5, "longest_lengthscale_m"),
    "initial_lengthscale": (0.5, "initial_lengthscale_m"),
    "shortest_lengthscale": (0.02, "shortest_lengthscale_m"),
    "longest_lengthscale": (3.0, "longest_lengthscale_m"),
}


def refuse_old(given: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Refuse old names of settings, and name the new ones.

    Args:
        given: names.
        known: the names that are valid here.
        where: prefix of the message.

    Raises:
        InputError: one is an old name.
    """
    known = set(known)
    for name in given:
        if name not in known and name in RENAMED:
            now = [new for new in RENAMED[name] if new in known] or RENAMED[name]
            raise InputError(f"{where}{name} is now {' or '.join(now)}")


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded values by the present names of their settings.

    Lengthscales are in m now. Recorded ones in units of half the workspace's longer side are
    multiplied by it; the former defaults become 0, which stands for the same lengths.

    Raises:
        InputError: a model is recorded that no longer exists, or a value has both its old and its
            new name.
    """
    found: dict[str, Any] = {}
    if values.get("neighbour_kernel", "paciorek") != "paciorek":
        raise InputError("neighbour_kernel: nngp has one kernel now; others cannot be read")
    for name, value in values.items():
        if name in ("neighbour_kernel", "attentive_bases"):
            continue
        if name in _SHARES:
            share, in_metres = _SHARES[name]
            if values.get(in_metres):
                continue
            value = 0.0 if value == share else value * _unit(values)
        elif name.endswith("_lengthscale_m") and not value:
            continue
        for new in RENAMED.get(name, (name,)):
            if new != name and new in values:
                raise InputError(f"{name} and {new}: expected only {new}, the new name of {name}")
            found[new] = value
    return found


def _unit(values: Mapping[str, Any]) -> float:
    """Half the longer side of the recorded workspace, in m."""
    xmin, xmax, ymin, ymax = values["workspace"]
    return max(xmax - xmin, ymax - ymin) / 2
