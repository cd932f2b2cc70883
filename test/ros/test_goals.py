"""Goals by an action: one at a time, cancelled to hold, sent again where they did not get through.

No wheel holds an action's type, so the server here is a plain object with the interface of
``rclpy.action.ActionClient``; futures are rclpy's own. Where nav2_msgs is installed, the last tests
have rclpy's action server.
"""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus, GoalStatusArray
from geometry_msgs.msg import PoseStamped
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

from poam_ros.core.errors import InputError, LogThrottle
from poam_ros.ros import messages
from poam_ros.ros.planner import RETRY_S, ActionGoals, open_goals

EXECUTING, SUCCEEDED, CANCELED, ABORTED = 2, 4, 5, 6


class Answer:
    """The result of a goal."""

    def __init__(self, status: int) -> None:
        self.status = status


class Handle:
    """A goal that a server has."""

    def __init__(self, server: Server, goal: str, accepted: bool) -> None:
        self.server, self.goal, self.accepted = server, goal, accepted
        self.result = Future()

    def get_result_async(self) -> Future:
        return self.result

    def cancel_goal_async(self) -> Future:
        self.server.cancels.append(self.goal)
        return Future()

    def end(self, status: int) -> None:
        self.result.set_result(Answer(status))


class Server:
    """Takes goals, and answers when a test says so."""

    def __init__(self) -> None:
        self.ready = True
        self.sent: list[tuple[str, Future]] = []
        self.handles: list[Handle] = []
        self.cancels: list[str] = []
        self.identities: list[UUID] = []

    def server_is_ready(self) -> bool:
        return self.ready

    def send_goal_async(self, goal: str, goal_uuid: UUID) -> Future:
        self.sent.append((goal, Future()))
        self.identities.append(goal_uuid)
        return self.sent[-1][1]

    def answer(self, which: int = -1, accepted: bool = True) -> Handle:
        goal, future = self.sent[which]
        handle = Handle(self, goal, accepted)
        self.handles.append(handle)
        future.set_result(handle)
        return handle


class Scene:
    """Goals, their server, a clock and what was refused."""

    def __init__(self) -> None:
        self.server, self.now = Server(), 0.0
        self.warnings, self.taken = LogThrottle(lambda text: None), []
        self.goals = ActionGoals(
            self.server,
            lambda pose: f"{pose.pose.position.x:g}",
            self.warnings,
            self.taken.append,
            clock=lambda: self.now,
        )

    def go(self, x: float) -> None:
        self.goals.go(pose(x))

    @property
    def sent(self) -> list[str]:
        return [goal for goal, _ in self.server.sent]

    def later(self, seconds: float = RETRY_S) -> None:
        self.now += seconds
        self.goals.poll()


def pose(x: float) -> PoseStamped:
    return messages.write_pose((x, 0.0), 1, "map")


@pytest.fixture
def scene():
    """Nothing was sent."""
    return Scene()


@pytest.fixture
def first(scene):
    """The scene's first goal, on its way."""
    scene.go(1)
    return scene.server.answer()


def test_each_goal_is_sent_once_and_replaces_the_one_before(scene, first):
    scene.goals.repeat(pose(1))
    scene.later()
    scene.go(2)
    first.end(ABORTED)  # what a preempted goal ends with
    scene.server.answer()
    scene.later()
    assert scene.sent == ["1", "2"] and not scene.server.cancels
    assert not scene.warnings.counts


def test_to_hold_cancels_until_the_goal_has_ended(scene, first):
    scene.goals.hold(pose(0))
    assert scene.server.cancels == ["1"]
    scene.later(1.0)  # the first may have been lost
    assert scene.server.cancels == ["1", "1"]
    first.end(CANCELED)
    scene.later()
    assert scene.server.cancels == ["1", "1"] and scene.sent == ["1"]
    assert not scene.warnings.counts


def test_a_goal_that_is_accepted_after_the_hold_is_cancelled(scene):
    scene.go(1)
    scene.goals.hold(pose(0))
    assert not scene.server.cancels
    scene.server.answer()
    assert scene.server.cancels == ["1"]


def test_after_a_hold_the_next_goal_is_sent_and_not_cancelled(scene, first):
    scene.goals.hold(pose(0))
    scene.go(2)
    first.end(CANCELED)
    scene.server.answer()
    scene.later()
    assert scene.sent == ["1", "2"] and scene.server.cancels == ["1"]


def test_rejected_and_aborted_goals_are_sent_again_later(scene, first):
    first.end(SUCCEEDED)
    scene.go(2)
    scene.server.answer(accepted=False)
    scene.later(RETRY_S / 2)
    assert scene.sent == ["1", "2"]
    scene.later()
    assert scene.sent == ["1", "2", "2"]
    scene.server.answer().end(ABORTED)
    scene.later()
    assert scene.sent == ["1", "2", "2", "2"]
    assert scene.warnings.counts == {"goal_rejected": 1, "goal_aborted": 1}


def test_the_previous_goal_is_cancelled_when_the_new_one_is_rejected(scene, first):
    scene.go(2)
    scene.server.answer(accepted=False)
    assert scene.server.cancels == ["1"]


def test_a_goal_is_sent_once_the_server_appears(scene):
    scene.server.ready = False
    scene.go(1)
    scene.later()
    scene.server.ready = True
    scene.later()
    assert scene.sent == ["1"]
    assert scene.warnings.counts == {"action_missing": 2}
    scene.server.ready = False
    scene.go(2)
    scene.goals.hold(pose(0))
    scene.server.ready = True
    scene.later()
    assert scene.sent == ["1"]


def states(*goals: tuple[UUID, int]) -> GoalStatusArray:
    found = []
    for identity, status in goals:
        each = GoalStatus(status=status)
        each.goal_info.goal_id = identity
        found.append(each)
    return GoalStatusArray(status_list=found)


def test_a_goal_that_somebody_else_cancelled_is_not_sent_again(scene, first):
    first.end(CANCELED)
    assert scene.taken == ["goals.action: somebody else has cancelled the goal"]
    scene.goals.hold(pose(0))  # as the mission is paused
    scene.later(10 * RETRY_S)
    assert scene.sent == ["1"]


def test_a_cancel_of_our_own_is_nobody_elses(scene, first):
    scene.goals.hold(pose(0))
    first.end(CANCELED)
    scene.go(2)
    scene.server.answer()
    mine = [(identity, EXECUTING) for identity in scene.server.identities]
    scene.goals.listen(states(*mine))
    assert not scene.taken


def test_a_goal_that_somebody_else_sent_replaces_ours(scene, first):
    foreign = UUID(uuid=[7] * 16)
    scene.goals.listen(states((foreign, SUCCEEDED)))  # an old one
    assert not scene.taken
    scene.goals.listen(states((scene.server.identities[0], ABORTED), (foreign, EXECUTING)))
    assert scene.taken == ["goals.action: somebody else has sent a goal"]
    scene.goals.hold(pose(0))
    first.end(ABORTED)
    scene.goals.listen(states((foreign, EXECUTING)))  # while it holds, it is theirs
    scene.later(10 * RETRY_S)
    assert len(scene.taken) == 1 and scene.sent == ["1"]


def test_an_action_without_nav2_msgs_ends_with_one_line_and_status_2(refusal):
    try:
        import nav2_msgs.action  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("nav2_msgs is installed")
    with pytest.raises(InputError, match="expected nav2_msgs to be installed for 'go'"):
        open_goals(None, "go", print)
    from poam_ros.ros.planner import main

    assert "goals.action" in refusal(main, "-p", "goals.action:=go")


@pytest.fixture
def nav2(ros, eventually):
    """Goals to an action server of rclpy's, which carries each out until it is cancelled; another
    client; and what was sent, how it ended, and who interrupted."""
    kind = pytest.importorskip("nav2_msgs.action").NavigateToPose
    from rclpy.action import ActionClient, ActionServer, CancelResponse
    from rclpy.node import Node

    from poam_ros.ros.planner import PlannerNode

    class Nav2(Node):
        def __init__(self):
            super().__init__("nav2")
            self.sent, self.ended, self.interrupted = [], [], []
            self.newest, self.pulse = None, Future()
            self.server = ActionServer(
                self, kind, "navigate", self.execute,
                cancel_callback=lambda handle: CancelResponse.ACCEPT,
            )  # fmt: skip
            self.client = ActionClient(self, kind, "navigate")
            self.create_timer(0.02, self.beat)

        def beat(self):
            pulse, self.pulse = self.pulse, Future()
            pulse.set_result(None)

        async def execute(self, handle):
            x, self.newest = handle.request.pose.pose.position.x, handle
            self.sent.append(x)
            while handle is self.newest and not handle.is_cancel_requested:
                await self.pulse
            ends = handle.canceled if handle.is_cancel_requested else handle.abort
            ends()
            self.ended.append((x, handle.status))
            return kind.Result()

    server = ros(Nav2)
    goals = open_goals(ros(PlannerNode), "navigate", server.interrupted.append)
    eventually(lambda: goals._client.server_is_ready() and server.client.server_is_ready())
    return kind, server, goals


def test_nav2_gets_each_goal_and_a_hold_cancels_it(nav2, eventually):
    _, server, goals = nav2
    goals.go(pose(3.0))
    eventually(lambda: server.sent == [3.0])
    goals.go(pose(4.0))
    eventually(lambda: server.sent == [3.0, 4.0] and server.ended == [(3.0, ABORTED)])
    goals.hold(pose(0.0))
    eventually(lambda: goals.poll() or server.ended[1:] == [(4.0, CANCELED)])
    assert not server.interrupted


def test_nav2_takes_a_goal_of_somebody_else(nav2, eventually):
    kind, server, goals = nav2
    goals.go(pose(3.0))
    eventually(lambda: server.sent == [3.0])
    server.client.send_goal_async(kind.Goal(pose=pose(8.0)))
    eventually(lambda: server.interrupted == ["goals.action: somebody else has sent a goal"])


def test_nav2s_goal_is_cancelled_by_somebody_else(nav2, eventually):
    from action_msgs.srv import CancelGoal

    _, server, goals = nav2
    goals.go(pose(3.0))
    eventually(lambda: server.sent == [3.0])
    everything = server.create_client(CancelGoal, "navigate/_action/cancel_goal")
    eventually(everything.service_is_ready)
    everything.call_async(CancelGoal.Request())
    eventually(lambda: server.interrupted)
    assert server.interrupted == ["goals.action: somebody else has cancelled the goal"]
    assert server.ended == [(3.0, CANCELED)]
