"""A real kernel that tests run cells in, and what a cell left behind."""

from __future__ import annotations

import ast
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any, Self

from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[2]
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Ran:
    """What a cell did: its reply, and its outputs in the order in which a front end gets them.

    An output is ("stdout" | "stderr", text), ("display" | "result", data by MIME type) or ("error", traceback).
    """

    status: str
    execution_count: int | None
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    error_name: str | None = None

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.outputs]

    @property
    def views(self) -> list[str]:
        """The HTML of the outputs that hold linked views."""
        found = [data.get("text/html", "") for kind, data in self.outputs if kind == "display"]
        return [text for text in found if 'class="gpuviz"' in text]

    @property
    def sentences(self) -> list[str]:
        """What gpuviz said below the cell."""
        shown = [data for kind, data in self.outputs if kind == "display"]
        return [data["text/plain"] for data in shown if data.keys() == {"text/plain"}]

    @property
    def result(self) -> str | None:
        """The displayed value of the last expression, as text."""
        return next((data["text/plain"] for kind, data in self.outputs if kind == "result"), None)

    @property
    def text(self) -> str:
        """All that was printed."""
        return "".join(data for kind, data in self.outputs if kind in ("stdout", "stderr"))

    @property
    def traceback(self) -> str:
        return "".join(data for kind, data in self.outputs if kind == "error")


class Kernel:
    """One kernel with gpuviz on its path; a context manager, so that none is left running."""

    def __init__(self, folder: Path) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._folder = folder

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
        self._manager.start_kernel(cwd=str(self._folder), env=environment)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def run(
        self, code: str, *, cell_id: str | None = None, once_printed: tuple[str, Callable[[], None]] | None = None
    ) -> Ran:
        """Run a cell. `once_printed`: a text, and what to do when the cell has printed it."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        message = self._client.session.msg("execute_request", content)
        if cell_id is not None:
            message["metadata"]["cellId"] = cell_id
        self._client.shell_channel.send(message)
        request = message["header"]["msg_id"]
        ran = Ran("", None)
        deadline = time.monotonic() + 120
        while True:
            arrived = self._client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.1))
            if arrived["parent_header"].get("msg_id") != request:
                continue
            kind, body = arrived["msg_type"], arrived["content"]
            if kind == "status" and body["execution_state"] == "idle":
                break
            output = _output(kind, body)
            if output is None:
                continue
            if ran.outputs and ran.outputs[-1][0] == output[0] in ("stdout", "stderr"):
                ran.outputs[-1] = (output[0], ran.outputs[-1][1] + output[1])
            else:
                ran.outputs.append(output)
            if once_printed is not None and once_printed[0] in ran.text:
                once_printed[1]()
                once_printed = None
        reply = self._reply(request)
        ran.status, ran.execution_count = reply["status"], reply.get("execution_count")
        ran.error_name = reply.get("ename")
        return ran

    def value(self, expression: str) -> Any:
        """The value of an expression in the kernel, from its repr."""
        ran = self.run(f"print(repr(({expression})))")
        assert ran.status == "ok", ran.traceback or ran.text
        return ast.literal_eval(ran.text)

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def is_complete(self, code: str) -> str:
        """What a front end learns before it runs a line of a console."""
        request = self._client.is_complete(code)
        return str(self._reply(request)["status"])

    def help(self, code: str) -> str:
        """The text of the pager that a cell such as `name?` opens."""
        request = self._client.execute(code)
        payload = self._reply(request)["payload"]
        return _COLOURS.sub("", "".join(page["data"]["text/plain"] for page in payload))

    def _reply(self, request: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                reply = self._client.get_shell_msg(timeout=1)
            except Empty:
                continue
            if reply["parent_header"].get("msg_id") == request:
                content: dict[str, Any] = reply["content"]
                return content
        raise TimeoutError(f"the kernel did not answer {request}")


def _output(kind: str, content: dict[str, Any]) -> tuple[str, Any] | None:
    if kind == "stream":
        return content["name"], content["text"]
    if kind == "display_data":
        return "display", content["data"]
    if kind == "execute_result":
        return "result", content["data"]
    if kind == "error":
        return "error", _COLOURS.sub("", "\n".join(content["traceback"]))
    return None
