"""The names of what a mission does, and of who decides it."""

#: The states, as they are published.
WAITING, PILOT, EXPLORING, PAUSED, DONE = "waiting", "pilot", "exploring", "paused", "done"
STATES = (WAITING, PILOT, EXPLORING, PAUSED, DONE)
#: What a vehicle does when its mission is done.
HOLD, HOME = "hold", "home"
ON_DONE = (HOLD, HOME)
#: Who paused it: a person, who alone may let it go on, or what watches over it.
OPERATOR, WATCHDOG, GEOFENCE = "operator", "watchdog", "geofence"
