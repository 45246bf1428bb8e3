"""Nsight Systems: SQLite exports, and reports through the user's own ``nsys export``.

The order of the steps, one file each::

    export      a report (.nsys-rep) → an SQLite export, by the user's nsys
    header      is the file whole, is anybody writing it
    database    SQLite → columns, through one of two readers
    identify    is it an export at all; what does it look like
    layout      which tables and columns are read; what each cannot do without
    about       what the export says about itself
    hosts, gpus processes and threads, devices and streams (lookup: names, small tables)
    activities  GPU work and waits → typed columns
    calls       what ran on host threads, and how it nests
    times       which times are usable; time zero
    links       which call launched which GPU work
    calltree    all of it as one call tree
    waits, ranges, samples   the tables beside it
    reader      the steps in their order

``docs/nsys.md`` says which table of an export becomes what.
"""

from __future__ import annotations

from gpuviz.formats.nsys.export import is_report, read_report
from gpuviz.formats.nsys.reader import read

__all__ = ["is_report", "read", "read_report"]
