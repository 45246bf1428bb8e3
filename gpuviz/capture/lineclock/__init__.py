"""Which line of which cell or file was running, in which thread, at any time.

`LineClock` stamps the lines of the user's own code while a capture runs; `LineRecord` answers afterwards: (thread,
time) → call stack. A CUPTI record needs no Python on its way for that: it brings its thread and its time.
"""

from gpuviz.capture.lineclock.clock import LineClock
from gpuviz.capture.lineclock.record import LineIntervals, LineRecord, ShortPlace

__all__ = ["LineClock", "LineIntervals", "LineRecord", "ShortPlace"]
