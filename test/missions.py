"""Missions with a planner and a map target, as ``Guidance`` drives them."""

from poam_ros.mission.mission import Mission


class PlannedMission(Mission):
    """Asks ``choose`` (a function of the position [2] to a path [K, 2] or None) for waypoints."""

    choose = None

    def set_planner(self, choose):
        self.choose = choose
        self.ask()

    def ask(self):
        if self.choose is not None and self.needs_goal and self.position is not None:
            path = self.choose(self.position)
            if path is not None:
                self.drive(*(path if isinstance(path, tuple) else (path,)))

    def update_position(self, *given, **named):
        arrival = super().update_position(*given, **named)
        self.ask()
        return arrival
