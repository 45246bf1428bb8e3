"""Monitoring callbacks that leave no trace in the traceback of an interrupted cell."""

from __future__ import annotations

import opcode
import os
from types import FunctionType

_PACKAGE = os.path.dirname(__file__)

_AT_FUNCTION_START = 0
_AFTER_YIELD_FROM = 2  # the interpreter does not look for signals there


def without_check_at_start[F](function: F) -> F:
    """Let the interpreter look for signals only after the function's first instruction.

    When a signal arrives during a long operation (``x = x @ w``), the next place where the interpreter looks for it
    is often the first instruction of the callback that stamps the next line: KeyboardInterrupt would be raised there,
    before any ``try`` can begin, and the user's traceback would end inside gpuviz. The argument of that instruction
    (RESUME) says whether to look; 2 is "not now" (CPython, Python/bytecodes.c). The next look is after the first call
    inside the callback's ``try``, which takes the callback's own entry out of the traceback.

    A function that does not begin as expected is left as it is; then only such a traceback has one entry more.
    """
    assert isinstance(function, FunctionType)
    code = function.__code__
    instructions = bytearray(code.co_code)
    resume = opcode.opmap["RESUME"]
    for offset in (0, 2, 4):  # a closure first copies its free variables
        if instructions[offset] == resume and instructions[offset + 1] == _AT_FUNCTION_START:
            instructions[offset + 1] = _AFTER_YIELD_FROM
            function.__code__ = code.replace(co_code=bytes(instructions))
            break
    return function


def leave_traceback(error: BaseException) -> None:
    """Take the entries of this package out of the beginning of the traceback of `error`, whose handler then does a
    bare ``raise``: that adds none again."""
    traceback = error.__traceback__
    while traceback is not None and os.path.dirname(traceback.tb_frame.f_code.co_filename) == _PACKAGE:
        traceback = traceback.tb_next
    error.__traceback__ = traceback
