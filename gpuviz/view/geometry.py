"""Tables → lanes of boxes. No Bokeh in this file.

A `Scene` is what the views draw: every interval of the trace as a box in a row of a lane, the call tree, and the
dictionaries that name them. Rows hold boxes sorted by start that do not overlap; intervals that overlap on one stream
(programmatic dependent launch, graph branches) get rows of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.model import Trace
from gpuviz.model.nesting import nest, nesting_order
from gpuviz.view.wording import natural_key

type Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lane:
    """A labelled band of rows: a stream, the waits of a device, the ranges of a thread, or a thread's calls."""

    kind: str
    label: str
    device: int
    first_row: int
    row_count: int


@dataclass(frozen=True)
class Boxes:
    """One element per drawn interval, sorted by (row, start).

    `node`: its node in the call tree, or -1. `name`: text of a box without a node, as index into `Scene.names`, else
    -1. `launch`: for GPU activities the index of the launching API call's box, else -1. `is_open`: its end was never
    recorded. `copy_direction`: index into `Scene.directions`, -1 for anything that is not a copy. `size_bytes`: -1
    where unknown. Times are ns since t0.
    """

    start: Integers
    end: Integers
    node: Integers
    name: Integers
    launch: Integers
    is_open: npt.NDArray[np.bool_]
    copy_direction: Integers
    size_bytes: Integers


@dataclass(frozen=True)
class Scene:
    """Everything that the linked views draw."""

    lanes: tuple[Lane, ...]
    row_offset: Integers
    boxes: Boxes
    names: tuple[str, ...]
    devices: tuple[tuple[int, str], ...]
    directions: tuple[tuple[int, str], ...]


def build_scene(trace: Trace) -> Scene:
    """Lay out every interval of the trace."""
    return _SceneBuilder(trace).build()


_DRAWN_COLUMNS = (
    "start",
    "end",
    "node",
    "name",
    "api",
    "launched_by",
    "copy_direction",
    "size_bytes",
    "is_open",
)


class _SceneBuilder:
    """Collects lanes top to bottom: per device its annotations, streams and waits; then per thread ranges and calls."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.names: dict[str, int] = {}
        self.lanes: list[Lane] = []
        self.parts: list[dict[str, Integers]] = []
        self.rows = 0
        self.devices = trace.devices.select("device_id", "ordinal", "name").sort("ordinal", "device_id").rows()
        self.device_index = {device_id: index for index, (device_id, _, _) in enumerate(self.devices)}
        self.directions: dict[tuple[int, str], int] = {}

    def build(self) -> Scene:
        for device_id, _, _ in self.devices:
            self._add_streams(device_id)
            self._add_syncs(device_id)
        self._add_ranges(None)
        for thread_id, label in self._threads():
            self._add_ranges(thread_id, label)
            self._add_calls(thread_id, label)
        return self._assemble()

    def _add_streams(self, device_id: int) -> None:
        activities = self._activities()
        streams = self.trace.streams.filter(device_id=device_id).rows(named=True)
        for stream in sorted(streams, key=lambda row: natural_key(row["label"])):
            annotations = self.trace.ranges.filter(stream_id=stream["stream_id"])
            self._add_range_lane(
                annotations, f"{self._device(device_id)} annotations, stream {stream['label']}", device_id
            )
            work = activities.filter(stream_id=stream["stream_id"])
            self._add_lane("stream", f"{self._device(device_id)} stream {stream['label']}", device_id, work)

    def _activities(self) -> pl.DataFrame:
        usable = self.trace.activities().filter(pl.col("timing") != "invalid")
        copies = self.trace.memcpys.select("activity_id", pl.col("copy_kind").cast(pl.String), "size_bytes")
        joined = usable.join(copies, on="activity_id", how="left", maintain_order="left")
        kinds = joined.select("device_id", "copy_kind").drop_nulls().unique().sort("device_id", "copy_kind").rows()
        for place in kinds:
            self.directions.setdefault(place, len(self.directions))
        places = [*self.directions]
        numbers = pl.DataFrame(
            {
                "device_id": [place[0] for place in places],
                "copy_kind": [place[1] for place in places],
                "copy_direction": range(len(places)),
            },
            schema={"device_id": pl.Int32, "copy_kind": pl.String, "copy_direction": pl.Int64},
        )
        return joined.join(numbers, on=["device_id", "copy_kind"], how="left", maintain_order="left")

    def _add_syncs(self, device_id: int) -> None:
        syncs = self.trace.syncs.filter(pl.col("device_id") == device_id, pl.col("timing") != "invalid")
        self._add_lane("sync", f"{self._device(device_id)} waits", device_id, syncs)

    def _add_ranges(self, thread_id: int | None, thread: str = "") -> None:
        """Ranges of a thread, or those that lie on no thread and no stream."""
        if thread_id is None:
            placeless = pl.col("thread_id").is_null() & pl.col("stream_id").is_null()
            self._add_range_lane(self.trace.ranges.filter(placeless), "ranges", None)
        else:
            self._add_range_lane(self.trace.ranges.filter(thread_id=thread_id), f"{thread} · ranges", None)

    def _add_range_lane(self, ranges: pl.DataFrame, label: str, device_id: int | None) -> None:
        self._add_lane("range", label, device_id, ranges.filter(pl.col("timing") != "invalid"))

    def _threads(self) -> list[tuple[int, str]]:
        """Threads with the most calls first; a thread that never called anything has no lane."""
        calls = pl.concat([self.trace.host_calls["thread_id"], self.trace.api_calls["thread_id"]])
        counts = calls.value_counts().rename({"count": "calls"})
        ordered = self.trace.threads.join(counts, on="thread_id", how="left").sort(
            pl.col("calls").fill_null(0), "thread_id", descending=[True, False]
        )
        return [(row["thread_id"], row["name"]) for row in ordered.iter_rows(named=True)]

    def _add_calls(self, thread_id: int, label: str) -> None:
        common = ["start_ns", "end_ns", "timing", "depth", "callpath_id"]
        calls = pl.concat(
            [
                self.trace.host_calls.filter(thread_id=thread_id).select(*common, pl.lit(None, pl.Int32).alias("api")),
                self.trace.api_calls.filter(thread_id=thread_id).select(*common, pl.col("api_id").alias("api")),
            ]
        ).filter(pl.col("timing") != "invalid")
        self._add_lane("thread", label, None, calls)

    def _add_lane(self, kind: str, label: str, device_id: int | None, table: pl.DataFrame) -> None:
        """One lane from a table of intervals; its rows are the column `depth`, or found by nesting."""
        if not table.height:
            return
        part = self._columns(table)
        if "depth" in table.columns:
            depth = table["depth"].to_numpy().astype(np.int64)
            _, depth = np.unique(depth, return_inverse=True)
        else:
            depth = _rows_without_overlap(part["start"], part["end"])
        part["row"] = depth + self.rows
        count = int(depth.max()) + 1
        device = -1 if device_id is None else self.device_index[device_id]
        self.lanes.append(Lane(kind, label, device, self.rows, count))
        self.rows += count
        self.parts.append(part)

    def _columns(self, table: pl.DataFrame) -> dict[str, Integers]:
        def column(name: str, absent: int = -1) -> Integers:
            if name not in table.columns:
                return np.full(table.height, absent, dtype=np.int64)
            return table[name].cast(pl.Int64).fill_null(absent).to_numpy()

        node = column("callpath_id")
        start = column("start_ns")
        end = table["end_ns"].fill_null(self.trace.meta.end_ns).to_numpy()
        name = np.full(table.height, -1, dtype=np.int64)
        nameless = np.flatnonzero(node < 0)
        if "name" in table.columns and len(nameless):
            texts = table["name"].cast(pl.String).to_list()
            for index in nameless.tolist():
                name[index] = self.names.setdefault(texts[index], len(self.names))
        return {
            "start": start,
            "end": np.maximum(end, start),
            "node": node,
            "name": name,
            "api": column("api"),
            "launched_by": column("api_id") if "activity_id" in table.columns else np.full(table.height, -1),
            "copy_direction": column("copy_direction"),
            "size_bytes": column("size_bytes"),
            "is_open": (table["timing"] == "open").to_numpy().astype(np.int64),
        }

    def _assemble(self) -> Scene:
        columns = {
            name: np.concatenate([part[name] for part in self.parts]) if self.parts else np.empty(0, dtype=np.int64)
            for name in (*_DRAWN_COLUMNS, "row")
        }
        order = np.lexsort((columns["start"], columns["row"]))
        columns = {name: values[order] for name, values in columns.items()}
        boxes = Boxes(
            start=columns["start"],
            end=columns["end"],
            node=columns["node"],
            name=columns["name"],
            launch=self._launch_boxes(columns),
            is_open=columns["is_open"].astype(np.bool_),
            copy_direction=columns["copy_direction"],
            size_bytes=columns["size_bytes"],
        )
        return Scene(
            lanes=tuple(self.lanes),
            row_offset=np.searchsorted(columns["row"], np.arange(self.rows + 1)),
            boxes=boxes,
            names=tuple(self.names),
            devices=tuple((ordinal, self._device_label(ordinal, name)) for _, ordinal, name in self.devices),
            directions=tuple((self.device_index[device], kind) for device, kind in self.directions),
        )

    def _launch_boxes(self, columns: dict[str, Integers]) -> Integers:
        """Box of the launching API call, for each box that was launched; index -1 reads the last entry, which is -1."""
        last_api = int(columns["api"].max(initial=-1))
        box_of_api = np.full(max(last_api, int(columns["launched_by"].max(initial=-1))) + 2, -1)
        is_api = columns["api"] >= 0
        box_of_api[columns["api"][is_api]] = np.flatnonzero(is_api)
        return box_of_api[columns["launched_by"]]

    def _device(self, device_id: int) -> str:
        return f"GPU {self.devices[self.device_index[device_id]][1]}"

    @staticmethod
    def _device_label(ordinal: int, name: str | None) -> str:
        return f"GPU {ordinal}" if name is None else f"GPU {ordinal} · {name}"


def _rows_without_overlap(start: Integers, end: Integers) -> Integers:
    """A row per interval so that no two of a row overlap; all in row 0 where none overlap (the usual stream)."""
    order = nesting_order(np.zeros_like(start), start, end)
    sorted_end = end[order]
    if (start[order][1:] >= np.maximum.accumulate(sorted_end)[:-1]).all():
        return np.zeros(len(start), dtype=np.int64)
    rows = np.empty(len(start), dtype=np.int64)
    rows[order] = nest(np.zeros_like(start), start[order], sorted_end, 0).depth
    return rows
