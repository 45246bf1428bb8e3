"""A real JupyterLab on this machine, for the tests that look at outputs in a notebook."""

from __future__ import annotations

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
