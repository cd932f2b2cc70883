"""The mapper's service `~/save_map`: writes the present map into files, on a thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_srvs.srv import Trigger

from ...core.errors import quantity
from ...learning.session import SurveySession
from ...outputs.run import read_settings
from ...outputs.saving import save
from ..common.node import BaseNode

BUSY = "another map is being saved"


class SaveService:
    """Answers when the files are written, while callbacks and model continue. One at a time.

    Only parameters determine the folder: a request has no fields.

    Args:
        node: with the parameters.
        session: with the map.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, node: BaseNode, session: SurveySession) -> None:
        self._node, self._session = node, session
        self._writing: threading.Thread | None = None
        # A group of its own, so that other callbacks run while it waits.
        group = ReentrantCallbackGroup()
        node.create_service(Trigger, "~/save_map", self._answer, callback_group=group)

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
        except Exception as error:  # no error may end the mission
            answer = False, f"nothing is saved: {type(error).__name__}: {error}"
        written.set_result(answer)

    def _save(self) -> tuple[bool, str]:
        """Whether all was written, and a text: what and where, or why not."""
        values, session = vars(self._node.values), self._session
        folder = values["output"] or str(session.journal.folder or "")
        if not folder:
            return False, "nothing is saved: set the parameter output or mission_dir"
        drawn, samples = session.map, session.mapper.data
        if drawn is None or len(samples) < drawn.samples:  # fewer during a reset
            return False, "nothing is saved: there is no map yet"
        level = session.front_end.level(self._node.moment)
        level = values["water.level"] if level is None else level
        config: dict[str, Any] = {"nodes": {"mapper": {**values, "water.level": level}}}
        where = Path(folder).expanduser()
        # What was simulated stays so after a restart.
        if values["simulated"] or read_settings(where).get("simulated"):
            config["simulated"] = True
        place, names = save(where, drawn, samples, config)
        text = f"saved the map of {quantity(drawn.samples, 'ping')} in {place}: {', '.join(names)}"
        return True, text
