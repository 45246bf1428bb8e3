"""The build hook: compiles gpuviz/_native/*.c into one shared library where the machine has a C compiler.

The library only makes things faster, so an install never fails for want of a compiler: the wheel is then a
pure one. A wheel with the library inside is tagged for this platform and any Python, since the C knows none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

PACKAGE = Path("gpuviz") / "_native"
LIBRARY_NAME = "libgpuviz_native" + (".dylib" if sys.platform == "darwin" else ".so")
FLAGS = ["-O2", "-std=c11", "-fPIC", "-Wall", "-Wextra", "-shared"]


class NativeLibraryHook(BuildHookInterface):
    """Puts the compiled library into the wheel or, for an editable install, beside its sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        self.workshop = tempfile.TemporaryDirectory(prefix="gpuviz-build-")
        library = self.compiled(Path(self.workshop.name))
        if version == "editable":
            self.place_in_tree(library)
        elif library is not None:
            build_data["force_include"][str(library)] = str(PACKAGE / LIBRARY_NAME)
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name == "wheel":
            self.workshop.cleanup()

    def compiled(self, folder: Path) -> Path | None:
        """The library, built in `folder`; None, and one line that says why, where it cannot be built."""
        command = compiler()
        if command is None:
            self.app.display_info("gpuviz: no C compiler found ($CC, cc, gcc, clang); no library built.")
            return None
        library = folder / LIBRARY_NAME
        sources = sorted(str(path) for path in (Path(self.root) / PACKAGE).glob("*.c"))
        try:
            answer = subprocess.run(
                [*command, *FLAGS, "-o", str(library), *sources], capture_output=True, text=True, check=False
            )
        except OSError as error:
            self.app.display_warning(f"gpuviz: {command[0]} did not run ({error}); no library built.")
            return None
        if answer.returncode != 0:
            self.app.display_warning(f"gpuviz: {shlex.join(command)} failed; no library built.\n{answer.stderr}")
            return None
        return library

    def place_in_tree(self, library: Path | None) -> None:
        """Leave the library, or none at all: one of an earlier install may not fit the sources of today."""
        place = Path(self.root) / PACKAGE / LIBRARY_NAME
        place.unlink(missing_ok=True)
        if library is not None:
            shutil.copy2(library, place)


def compiler() -> list[str] | None:
    """The command of the first C compiler that exists here; $CC comes first and may hold arguments."""
    if sys.platform == "win32":
        return None
    for candidate in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return command
    return None


def platform_tag() -> str:
    """This machine's own tag: the library is linked with what lies here, so it claims no manylinux."""
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
