#!/bin/sh
# Prints the first Python that gpuviz can run on: $PYTHON, then python3.12 and newer and python3 on PATH, then
# pyenv's. The default python3 of a machine is often older. Each candidate is run, not only found: a pyenv shim
# exists on PATH and still answers "command not found".

probe='
import sys
try:
    import ensurepip, venv
    missing = ""
except ImportError:
    missing = " without venv (install its python3-venv package)"
print(sys.version.split()[0] + missing)
sys.exit(sys.version_info < (3, 12) or bool(missing))
'

found=""
for candidate in "$PYTHON" python3.12 python3.13 python3.14 python3.15 python3 \
    "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python; do
    path=$(command -v "$candidate" 2>/dev/null) || continue
    if version=$("$path" -c "$probe" 2>/dev/null); then
        echo "$path"
        exit 0
    fi
    found="${found:+$found, }$path is ${version:-not a Python that runs}"
done

echo "gpuviz needs Python 3.12 or newer: looked for \$PYTHON, python3.12 to python3.15 and python3 on PATH, and" \
    "~/.pyenv/versions/3.1[2-9]*; found ${found:-none}; install one, or name yours with PYTHON=/path/to/python" >&2
exit 1
