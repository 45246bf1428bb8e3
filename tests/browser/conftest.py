"""A real JupyterLab on this machine, for the tests that look at outputs in a notebook."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Lab:
    """A running server: its address, the folder it serves, and the environment that signs its notebooks."""

    address: str
    folder: Path
    environment: dict[str, str]

    def write(self, name: str, notebook: NotebookNode, *, trusted: bool) -> str:
        """Put a notebook into the folder, signed or not; its address in JupyterLab."""
        path = self.folder / name
        nbformat.write(notebook, path)
        if trusted:
            subprocess.run(
                [sys.executable, "-m", "jupyter", "trust", str(path)],
                env=self.environment,
                check=True,
                capture_output=True,
            )
        return f"{self.address}/lab/tree/{name}?reset"

    def open_with_kernel(self, page: Page, name: str, notebook: NotebookNode) -> None:
        """Open a notebook in JupyterLab and wait until its kernel is there and idle, the first cell in focus."""
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        page.goto(self.write(name, notebook, trusted=True))
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        for _ in range(240):
            if self._kernel_state(name) == "idle":
                break
            page.wait_for_timeout(250)
        page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]", timeout=60_000)
        page.locator(".jp-Cell .cm-content").first.click()

    def _kernel_state(self, name: str) -> str | None:
        """What the server says: JupyterLab shows "idle" for a kernel that it does not have yet."""
        with urllib.request.urlopen(f"{self.address}/api/sessions", timeout=10) as answer:
            sessions = json.load(answer)
        states = [session["kernel"]["execution_state"] for session in sessions if session["path"] == name]
        return states[0] if states else None


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab on a free port of the loopback, with folders of its own, ended after the run."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(ROOT),
    }
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--notebook-dir={folder}"]
    command += ["--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    log = (home / "server.log").open("wb")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/api", server, home / "server.log")
        yield Lab(address, folder, environment)
    finally:
        server.terminate()
        server.wait(20)
        log.close()


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server answers; with its log when it does not."""
    for _ in range(240):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.25)
    pytest.fail("JupyterLab did not start:\n" + log.read_text(errors="replace")[-3000:])
