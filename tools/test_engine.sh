#!/bin/sh
# Runs the unit tests of the browser engine under Node, without a browser. Where they cannot run it says why, and
# fails only if GPUVIZ_REQUIRE (see tests/conftest.py) asks for them.

set -- tests/view/engine/*.test.mjs
if [ ! -e "$1" ]; then
    reason="no file tests/view/engine/*.test.mjs"
elif ! command -v node >/dev/null; then
    reason="node is not on PATH; install Node.js 20 or newer to run them"
else
    exec node --test "$@"
fi

case ",$GPUVIZ_REQUIRE," in
*,node,*)
    echo "FAILED engine tests: $reason" >&2
    exit 1
    ;;
esac
echo "SKIPPED engine tests: $reason"
