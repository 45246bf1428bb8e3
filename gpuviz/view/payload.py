"""A scene → the bytes that an output carries, and that the engine's columns.mjs reads.

Layout before compression: the header's length (uint32, little-endian), the header (JSON, UTF-8), zeros to a multiple
of 8, then the columns. A column is byte-split: all lowest bytes, then all second bytes, and so on, which lets gzip see
that high bytes hardly change; sorted columns hold differences. Measured on real traces: 2.9 to 4.4 bytes per event
after gzip and base64, against 8.7 for plain columns.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.model import Trace, schema
from gpuviz.view.geometry import Scene

PAYLOAD_VERSION = 1

_WIDTHS: Mapping[str, np.dtype[Any]] = {"i32": np.dtype("<i4"), "i64": np.dtype("<i8"), "u8": np.dtype("u1")}


def encode_payload(trace: Trace, scene: Scene, meta: Mapping[str, Any]) -> str:
    """Base64 text of the whole payload. `meta` is the header's `meta` (see `gpuviz.view.dashboard`)."""
    names = list(scene.names)
    frames = _frames(trace, names)
    boxes = scene.boxes
    copies = np.flatnonzero(boxes.copy_direction >= 0)
    copies = copies[np.argsort(boxes.start[copies], kind="stable")]
    columns = [
        ("node_parent", "i32", False, trace.callpaths["parent_id"].fill_null(-1).to_numpy()),
        ("node_last", "i32", False, trace.callpaths["last_id"].to_numpy()),
        ("node_frame", "i32", False, trace.callpaths["frame_id"].to_numpy()),
        ("row_offset", "i32", True, scene.row_offset),
        ("box_start", "i64", True, boxes.start),
        ("box_duration", "i64", False, boxes.end - boxes.start),
        ("box_node", "i32", False, boxes.node),
        ("box_name", "i32", False, boxes.name),
        ("box_launch", "i32", True, boxes.launch),
        ("open_box", "i32", True, np.flatnonzero(boxes.is_open)),
        ("copy_box", "i32", False, copies),
        ("copy_direction", "i32", False, boxes.copy_direction[copies]),
        ("copy_bytes", "i64", False, boxes.size_bytes[copies]),
    ]
    described, body = _encode_columns(columns)
    header = {
        "version": PAYLOAD_VERSION,
        "meta": meta,
        "layers": schema.FRAME_LAYERS,
        "names": names,
        "frames": frames,
        "lanes": [vars(lane) for lane in scene.lanes],
        "devices": [{"ordinal": ordinal, "label": label} for ordinal, label in scene.devices],
        "directions": [
            {"device": device, "kind": kind, "label": f"GPU {scene.devices[device][0]} · {kind}"}
            for device, kind in scene.directions
        ],
        "sources": _sources(trace),
        "columns": described,
    }
    # "surrogatepass" would make bytes that no browser decodes: lone surrogates become "?".
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    head = struct.pack("<I", len(text)) + text
    head += b"\0" * (-len(head) % 8)
    return base64.b64encode(gzip.compress(head + body, 9, mtime=0)).decode("ascii")


def _frames(trace: Trace, names: list[str]) -> dict[str, list[int]]:
    """The frames as lists of indices; texts that are new are appended to `names`."""
    index = {name: position for position, name in enumerate(names)}

    def number(text: str | None) -> int:
        if text is None:
            return -1
        position = index.setdefault(text, len(names))
        if position == len(names):
            names.append(text)
        return position

    frames = trace.frames
    return {
        "layer": frames["layer"].to_physical().to_list(),
        "name": [number(text) for text in frames["function"].cast(pl.String).to_list()],
        "file": [number(text) for text in frames["file"].cast(pl.String).to_list()],
        "line": frames["line"].fill_null(-1).to_list(),
        "cell": frames["cell_id"].fill_null(-1).to_list(),
    }


def _sources(trace: Trace) -> list[dict[str, Any]]:
    """The text of the notebook cells, in the order of `cell_id`."""
    return [
        {
            "label": "Cell" if row["execution_count"] is None else f"In [{row['execution_count']}]",
            "lines": row["source"].split("\n"),
        }
        for row in trace.cells.iter_rows(named=True)
    ]


def _encode_columns(
    columns: list[tuple[str, str, bool, npt.NDArray[np.integer]]],
) -> tuple[list[dict[str, Any]], bytes]:
    described: list[dict[str, Any]] = []
    parts: list[bytes] = []
    offset = 0
    for name, kind, delta, values in columns:
        typed = values.astype(_WIDTHS[kind])
        if delta:
            typed = np.diff(typed, prepend=typed.dtype.type(0))
        data = typed.view(np.uint8).reshape(len(typed), typed.dtype.itemsize).T.tobytes()
        described.append({"name": name, "type": kind, "delta": delta, "count": len(typed), "offset": offset})
        parts.append(data)
        offset += len(data)
    return described, b"".join(parts)
