"""Kineto and Chrome traces in JSON, exactly.

The order of the steps, one file each::

    text        bytes → events, one at a time; a bad event is repaired (repair) or costs itself
    events      events → raw rows, by the table of categories; begin and end events are joined (pairs)
    about       what the file says about itself
    hosts, gpus processes and threads, devices and streams (identity: ids as files write them)
    columns     raw rows → typed columns: exact times (numbers), kinds of copies (copies)
    times       which times are usable; time zero
    calls       how the calls of a thread nest
    links       which call launched which GPU work
    forward     which forward operator backward work belongs to
    calltree    all of it as one call tree
    tables      the tables of the model
    reader      the steps in their order

``docs/data-model.md`` describes the tables; the field reports behind the rules are cited where a rule is kept.
"""

from __future__ import annotations

from gpuviz.formats.kineto.reader import read

__all__ = ["read"]
