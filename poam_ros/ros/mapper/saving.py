"""The mapper's service `~/save_map`: the present map as files, written beside the callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.task import Future
from std_srvs.srv import Trigger

from ...core.clock import Moment
from ...core.settings import instance
from ...learning.session import SurveySession
from ...outputs.saving import SaveSettings, save
from ..common.node import ManagedNode

BUSY = "a map is being saved already"


class SaveService:
    """Answers when the files are written; callbacks and model go on meanwhile. One at a time.

    Where they go is for parameters alone to say: a request names nothing.

    Args:
        node: its values say what is written, and where.
        session: whose map it is.
        now: both clocks.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(
        self, node: ManagedNode, session: SurveySession, now: Callable[[], Moment]
    ) -> None:
        self._node, self._session, self._now = node, session, now
        self._settings = instance(SaveSettings, vars(node.values))
        self._writing: threading.Thread | None = None
        # A group of its own: while it waits, the node's other callbacks are called.
        group = ReentrantCallbackGroup()
        service = node.create_service(Trigger, "~/save_map", self._answer, callback_group=group)
        send = service.send_response

        def send_where_one_can(*answer: Any) -> None:
            with suppress(InvalidHandle):  # the node was deactivated in the meantime
                send(*answer)

        service.send_response = send_where_one_can

    async def _answer(
        self, request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        if self._writing is not None and self._writing.is_alive():
            response.message = BUSY
            return response
        written: Future = Future()
        work = threading.Thread(target=self._work, args=(written,), name="save", daemon=True)
        self._writing = work
        work.start()
        response.success, response.message = await written
        if response.success:
            self._node.get_logger().info(f"save_map: {response.message}")
        else:
            self._node.get_logger().error(f"save_map: {response.message}")
        return response

    def _work(self, written: Future) -> None:
        try:
            answer = self._save()
        except OSError as error:
            answer = False, f"nothing is saved: cannot write ({error.strerror or error})"
        except Exception as error:  # whatever it is, the mission goes on
            answer = False, f"nothing is saved: {type(error).__name__}: {error}"
        written.set_result(answer)

    def _save(self) -> tuple[bool, str]:
        """Whether all was written, and in words what and where, or why not."""
        values, session = vars(self._node.values), self._session
        folder = values["output"] or str(session.journal.folder or "")
        if not folder:
            return False, "nothing is saved: expected the parameter output or mission_dir"
        drawn, samples = session.map, session.mapper.data
        if drawn is None or len(samples) < drawn.samples:  # fewer: it is being reset
            return False, "nothing is saved: there is no map yet"
        level = session.front_end.level(self._now())
        level = values["water.level"] if level is None else level
        config = {"nodes": {"mapper": {**values, "water.level": level}}}
        where = Path(folder).expanduser()
        place, names, failed = save(where, self._settings, drawn, samples, level, config)
        text = f"saved the map of {drawn.samples} pings in {place}: {', '.join(names)}"
        return not failed, "; not written: ".join([text, *([", ".join(failed)] if failed else [])])
