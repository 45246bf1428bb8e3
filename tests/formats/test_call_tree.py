"""What is one node of the call tree, and what is not."""

from __future__ import annotations

from pathlib import Path

from tests.formats.events import call, load_events


def test_the_address_of_an_object_makes_no_node_of_its_own(tmp_path: Path) -> None:
    names = [
        f"<built-in method append of list object at 0x{address:x}>" for address in (0x7F65C9F38B40, 0x7F65C9F38B80)
    ]
    trace = load_events(tmp_path, *(call(name, 10 * n, 5, cat="python_function") for n, name in enumerate(names)))
    assert trace.host_calls["name"].to_list() == names  # the table keeps what the source wrote
    assert trace.host_calls["callpath_id"].n_unique() == 1
    assert "<built-in method append of list object>" in trace.frames["function"].to_list()
