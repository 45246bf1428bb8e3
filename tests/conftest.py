"""What tests may need beyond gpuviz itself, and what happens where it is absent.

A test names its needs by marker (`@pytest.mark.torch`) or by fixture (`page`); where one is not met, the
test is skipped and says why. GPUVIZ_REQUIRE holds the needs that this machine must meet, as in
"browser,torch": there a skip becomes a failure, so that CI cannot stay green by testing less. ("node" is for
tools/test_engine.sh.)
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Shared machines stall for longer than any deadline that would be worth setting.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=100, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def shared_folder() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("GPUVIZ_SHARED", beside))


def chromium_path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


@cache
def lack_of_browser() -> str | None:
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (pip install gpuviz[dev])"
    return None if chromium_path() else "no Chromium on PATH (Debian: apt-get install chromium)"


@cache
def lack_of_cupti() -> str | None:
    for distribution in ("cupti-python", "nvidia-cuda-cupti"):
        try:
            importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            return f"{distribution} is not installed (pip install gpuviz[dev])"
    return None


@cache
def lack_of_gpu() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU: nvidia-smi is not on PATH"
    answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return None if "GPU 0" in answer.stdout else "no NVIDIA GPU: nvidia-smi -L lists none"


@cache
def lack_of_native() -> str | None:
    from gpuviz._native import library

    return None if library() else "the compiled library is not built: no C compiler when gpuviz was installed"


@cache
def lack_of_shared() -> str | None:
    folder = shared_folder() / "traces"
    return None if folder.is_dir() else f"no recorded traces at {folder} (GPUVIZ_SHARED names another place)"


@cache
def lack_of_torch() -> str | None:
    found = importlib.util.find_spec("torch")
    return None if found else "PyTorch is not installed (pip install gpuviz[torch])"


LACKS: dict[str, Callable[[], str | None]] = {
    "browser": lack_of_browser,
    "cupti": lack_of_cupti,
    "gpu": lack_of_gpu,
    "native": lack_of_native,
    "shared": lack_of_shared,
    "torch": lack_of_torch,
}
NEEDED_BY_FIXTURE = {
    "browser": "browser",
    "chromium": "browser",
    "libcupti": "cupti",
    "page": "browser",
    "shared_traces": "shared",
}


def required() -> set[str]:
    return {need.strip() for need in os.environ.get("GPUVIZ_REQUIRE", "").split(",") if need.strip()}


def pytest_configure() -> None:
    unknown = required() - {*LACKS, "node"}
    if unknown:
        known = ", ".join([*LACKS, "node"])
        raise pytest.UsageError(f"GPUVIZ_REQUIRE names {', '.join(sorted(unknown))}; known are {known}.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in NEEDED_BY_FIXTURE:
                item.add_marker(NEEDED_BY_FIXTURE[fixture])
    # Playwright keeps an event loop running in this thread, which other tests could not start theirs beside.
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for need, lack in LACKS.items():
        if item.get_closest_marker(need) is None:
            continue
        reason = lack()
        if reason is not None and need in required():
            pytest.fail(f"GPUVIZ_REQUIRE asks for {need}: {reason}", pytrace=False)
        if reason is not None:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of recorded traces from real GPUs."""
    return shared_folder() / "traces"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the Chromium that is installed here."""
    path = chromium_path()
    assert path is not None
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One headless Chromium for the whole run."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page; the test fails at its end if the page has logged an error or thrown one.

    `page.errors` holds what came so far; a test that provokes an error on purpose clears it.
    """
    context = browser.new_context()
    opened = context.new_page()
    errors: list[str] = []
    opened.errors = errors
    opened.on("console", lambda message: message.type == "error" and errors.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: errors.append(f"thrown: {error}"))
    yield opened
    context.close()
    if errors:
        pytest.fail("the page reported errors:\n" + "\n".join(errors), pytrace=False)
