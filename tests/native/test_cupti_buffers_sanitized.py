"""The pool under the sanitizers: threads that write, read, give back and trim at once, and a fork."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sanitize_cupti_buffers.sh")
NO_SANITIZER = 77


@pytest.mark.native
@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
def test_the_pool_is_clean(sanitizers: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler named cc")
    answer = subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path), sanitizers], capture_output=True, text=True, check=False, timeout=300
    )
    if answer.returncode == NO_SANITIZER:
        pytest.skip(answer.stdout.strip())
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.endswith("ok\n")
