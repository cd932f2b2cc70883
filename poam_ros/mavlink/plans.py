"""Waypoints as files for ground stations: QGroundControl, ArduPilot, KML, GPX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from ..core.errors import InputError
from ..core.maps import ElevationMap
from ..mission.itinerary import GoalQueue
from ..planning.planners import GridView, MapView, Situation, thinned
from ..planning.routes import Routes
from .link import ARDUPILOT, ROVER

Place = tuple[float, float]  # latitude, longitude, degrees

#: MAV_CMD_NAV_WAYPOINT; MAV_FRAME_GLOBAL of home, MAV_FRAME_GLOBAL_RELATIVE_ALT of the others.
WAYPOINT, HOME_FRAME, FRAME = 16, 0, 3
XML = '<?xml version="1.0" encoding="utf-8"?>'
KML, GPX = "http://www.opengis.net/kml/2.2", "http://www.topografix.com/GPX/1/1"


@dataclass(frozen=True)
class Plan:
    """A survey for a ground station.

    Attributes:
        name: of the survey.
        waypoints: in driving order; the first is also home.
        area: corners of the area to stay in.
        keep_outs: corners of each keep-out.
        speed: of the vehicle, in m/s.
    """

    name: str
    waypoints: Sequence[Place]
    area: Sequence[Place] = ()
    keep_outs: Sequence[Sequence[Place]] = ()
    speed: float = 1.0


def routed(path: np.ndarray, routes: Routes, capture_radius: float) -> np.ndarray:
    """Waypoints [K, 2] moved into the navigable area, with the turns around keep-outs, [M, 2] in m.
    ``capture_radius``: of the mission, in m; about the vehicle's turning diameter.

    Waypoints without a route are left out.
    """
    queue, found = GoalQueue(routes, {"capture_radius": capture_radius}), list[np.ndarray]()
    queue.add(path)
    position = queue.queue[0]
    while True:
        queue.next(position)
        if queue.current is None:
            return np.array(found).reshape(-1, 2)
        position = queue.current
        found.append(position)


def planned_ahead(
    choose: Callable[[MapView, Situation], np.ndarray],
    drawn: ElevationMap,
    pings: np.ndarray,
    routes: Routes,
    turning_radius: float,
    length: float,
) -> np.ndarray:
    """Where a planner drives after the last ping, with the turns around keep-outs [K, 2], in m.

    Each leg counts as measured when the next one is chosen, as between two maps of a mission. The
    map's mean and lengthscales do not change.

    Args:
        choose: the planner: waypoints [K, 2] from a view of the map and a situation.
        drawn: the latest map.
        pings: in the map, oldest first [N, 2], in m.
        routes: where waypoints and legs may lie.
        turning_radius: of the vehicle, in m.
        length: of the path, in m.

    Raises:
        InputError: there are no pings, or the planner finds no waypoint with a route.
    """
    if not len(pings):
        raise InputError("expected a map with pings, got none")
    workspace, found = routes.areas.workspace, list[np.ndarray]()
    cell = float(drawn.grid.x[1] - drawn.grid.x[0])
    position, before, since = pings[-1], thinned(pings, workspace, cell), np.empty((0, 2))
    yaw, left = math.atan2(*(pings[-1] - pings[max(0, len(pings) - 2)])[::-1]), length
    while left > 0:
        known = np.vstack((before, since))
        situation = Situation(
            position, workspace, yaw, turning_radius=turning_radius, distance_left=left,
            visited=known, routes=routes,
        )  # fmt: skip
        begun = left
        for waypoint in choose(GridView(drawn, since, before), situation):
            for turn in () if (route := routes.route(position, waypoint)) is None else route:
                leg = turn - position
                distance = math.hypot(*leg)
                if left <= 0 or not distance:
                    continue
                leg *= min(1.0, left / distance)
                steps = np.linspace(0, 1, math.ceil(distance / cell) + 1)[1:, None]
                since = np.vstack((since, position + steps * leg))
                position, yaw, left = position + leg, math.atan2(leg[1], leg[0]), left - distance
                found.append(position)
        if left == begun:
            raise InputError("areas: no waypoint of the planner can be reached")
    return np.array(found)


def qgroundcontrol(plan: Plan) -> str:
    """A .plan: waypoints, and areas as geofence.

    Source: https://docs.qgroundcontrol.com/master/en/qgc-dev-guide/file_formats/plan.html
    """
    items = [
        {
            "type": "SimpleItem", "autoContinue": True, "command": WAYPOINT, "doJumpId": number,
            "frame": FRAME, "params": [0, 0, 0, None, *place, 0],
        }
        for number, place in enumerate(plan.waypoints, 1)
    ]  # fmt: skip
    fences = [(True, plan.area)] * bool(plan.area) + [(False, each) for each in plan.keep_outs]
    polygons = [
        {"inclusion": inside, "polygon": list(map(list, corners)), "version": 1}
        for inside, corners in fences
    ]
    mission = {
        "cruiseSpeed": plan.speed, "hoverSpeed": plan.speed, "firmwareType": ARDUPILOT,
        "vehicleType": ROVER, "items": items, "plannedHomePosition": [*plan.waypoints[0], 0],
        "version": 2,
    }  # fmt: skip
    content = {
        "fileType": "Plan", "groundStation": "QGroundControl", "version": 1, "mission": mission,
        "geoFence": {"circles": [], "polygons": polygons, "version": 2},
        "rallyPoints": {"points": [], "version": 2},
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def ardupilot(plan: Plan) -> str:
    """A .waypoints file for Mission Planner and MAVProxy; the first line is home.

    Source: https://mavlink.io/en/file_formats/#mission_plain_text_file
    """
    lines = ["QGC WPL 110"]
    for number, (latitude, longitude) in enumerate((plan.waypoints[0], *plan.waypoints)):
        frame = HOME_FRAME if number == 0 else FRAME
        head = number, int(number == 0), frame, WAYPOINT, 0, 0, 0, 0
        lines.append("\t".join([*map(str, head), f"{latitude:.9f}", f"{longitude:.9f}", "0", "1"]))
    return "\n".join(lines) + "\n"


def kml(plan: Plan) -> str:
    """A path and the areas, for a globe."""

    def line(places: Sequence[Place]) -> str:
        text = " ".join(f"{longitude:.9f},{latitude:.9f},0" for latitude, longitude in places)
        return f"<coordinates>{text}</coordinates>"

    def area(corners: Sequence[Place]) -> str:
        ring = f"<LinearRing>{line([*corners, corners[0]])}</LinearRing>"
        return f"<Polygon><outerBoundaryIs>{ring}</outerBoundaryIs></Polygon>"

    shapes = [(plan.name, f"<LineString>{line(plan.waypoints)}</LineString>")]
    shapes += [("workspace", area(plan.area))] if plan.area else []
    shapes += [(f"keep-out {n}", area(each)) for n, each in enumerate(plan.keep_outs, 1)]
    marks = [f"  <Placemark><name>{escape(name)}</name>{shape}</Placemark>"
             for name, shape in shapes]  # fmt: skip
    head = f'<kml xmlns="{KML}">\n<Document>\n  <name>{escape(plan.name)}</name>'
    return "\n".join([XML, head, *marks, "</Document>\n</kml>\n"])


def gpx(plan: Plan) -> str:
    """A route, for chart plotters."""
    points = [f'  <rtept lat="{latitude:.9f}" lon="{longitude:.9f}"><name>{number}</name></rtept>'
              for number, (latitude, longitude) in enumerate(plan.waypoints, 1)]  # fmt: skip
    head = f'<gpx xmlns="{GPX}" version="1.1" creator="poam_ros">'
    route = f"<rte>\n  <name>{escape(plan.name)}</name>"
    return "\n".join([XML, head, route, *points, "</rte>\n</gpx>\n"])


#: Writers by the ending of the file.
FORMATS: dict[str, Callable[[Plan], str]] = {
    ".plan": qgroundcontrol, ".waypoints": ardupilot, ".kml": kml, ".gpx": gpx,
}  # fmt: skip
