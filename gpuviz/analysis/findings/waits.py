"""Host code that keeps the GPU waiting: synchronisation, ``.item()``, data loaders."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import eq

import numpy as np
import polars as pl

from gpuviz.analysis.findings.facts import Facts, each_device, of_span, spans_of
from gpuviz.analysis.findings.rule import Abstain, Hit, Rule
from gpuviz.analysis.intervals import clip, union
from gpuviz.analysis.selection import ints, usable
from gpuviz.analysis.text import count_text, duration_text
from gpuviz.analysis.work import by_name

WAIT_SHARE = 0.05
LOADER_SHARE = 0.02
ITEM_SHARE = 0.01
ITEMS = 10
ITEM_NAMES = ("aten::item", "aten::_local_scalar_dense")
LOADER = "dataloader"


def _host_waits(facts: Facts) -> Iterator[Hit]:
    calls = usable(facts.trace.api_calls)
    is_wait = pl.Series(by_name(calls["name"], lambda name: "synchronize" in name))
    waits = calls.filter(is_wait & calls["parent_api_id"].is_null())
    for device in each_device(facts):
        rows = waits.filter((pl.col("start_ns") < device.span[1]) & (pl.col("end_ns") > device.span[0]))
        time_ns = facts.idle_during(device, *spans_of(rows))
        if time_ns > WAIT_SHARE * device.span_ns:
            whole = union(*clip(*spans_of(rows), device.span)).length
            sentence = (
                f"{device.name} was idle for {of_span(time_ns, device)} while the host stood in "
                f"{count_text(rows.height, 'wait')} for it ({duration_text(whole)} in all)"
            )
            yield facts.hit(device, sentence, time_ns, rows, "api_calls")


def _items(facts: Facts) -> Iterator[Hit]:
    calls = usable(facts.trace.host_calls)
    of_name = [calls.filter(pl.Series(by_name(calls["name"], partial(eq, wanted)))) for wanted in ITEM_NAMES]
    items = of_name[0] if of_name[0].height else of_name[1]
    if not items.height:
        return
    line, own = facts.nodes(items), ints(items["callpath_id"])
    items = items.with_columns(place=np.where(line >= 0, line, own))
    for device in each_device(facts):
        for (_,), rows in items.group_by("place", maintain_order=True):
            inside = rows.filter((pl.col("start_ns") < device.span[1]) & (pl.col("end_ns") > device.span[0]))
            time_ns = union(*clip(*spans_of(inside), device.span)).length
            if inside.height >= ITEMS and time_ns > ITEM_SHARE * device.span_ns:
                sentence = (
                    f"{count_text(inside.height, 'call')} of .item() from one place stopped the host for "
                    f"{of_span(time_ns, device)}: each waits until {device.name} has done everything before it"
                )
                yield facts.hit(device, sentence, time_ns, inside, "host_calls")


def _loaders(facts: Facts, workers: bool) -> Iterator[Hit]:
    wanted = "_multiprocessingdataloaderiter" if workers else "_singleprocessdataloaderiter"
    says = "waited for the workers of a DataLoader" if workers else "loaded data in the training process"
    for table in ("ranges", "host_calls"):
        rows = usable(facts.trace.table(table))
        loads = rows.filter(pl.Series(by_name(rows["name"], lambda name: LOADER in name and wanted in name)))
        if not loads.height:
            continue
        if table == "ranges":
            loads = loads.with_columns(callpath_id=pl.lit(None, dtype=pl.Int32))
        for device in each_device(facts):
            time_ns = facts.idle_during(device, *spans_of(loads))
            if time_ns > LOADER_SHARE * device.span_ns:
                sentence = f"{device.name} was idle for {of_span(time_ns, device)} while the host {says}"
                yield facts.hit(device, sentence, time_ns, loads, table)
        return
    if not facts.trace.host_calls.height and not facts.trace.ranges.height:
        raise Abstain("neither ranges nor host calls were recorded")


RULES = (
    Rule(
        "host_waits",
        "waits of the host with an idle GPU",
        "idle time of the device ∩ union of …Synchronize calls; reported above 5 % of the window",
        "Wait for an event instead of the device, later, or not at all: work of one stream is in order without waits.",
        "Which result the host needed; a wait at the end of a measurement is there on purpose.",
        _host_waits,
        needs=("gpu", "complete", "api_calls"),
    ),
    Rule(
        "item_in_a_loop",
        "synchronous .item() in a loop",
        "union of aten::item calls of one line in the window; reported from 10 calls and above 1 % of the window",
        "Keep numbers on the GPU (sum losses as tensors, torch.where instead of if); read them once in many steps.",
        "How much of the time the host would have had to wait anyway.",
        _items,
        needs=("gpu", "complete", "operators"),
    ),
    Rule(
        "data_loader_without_workers",
        "a DataLoader without workers while the GPU waits",
        "idle time of the device ∩ union of _SingleProcessDataLoaderIter calls; reported above 2 % of the window",
        "Give the DataLoader workers (num_workers) and pin_memory=True: batches are then ready before they are needed.",
        "How fast the workers would be, and whether the disk or the transforms are the limit.",
        lambda facts: _loaders(facts, workers=False),
    ),
    Rule(
        "data_loader_too_slow",
        "workers of a DataLoader that the GPU waits for",
        "idle time of the device ∩ union of _MultiProcessingDataLoaderIter calls; reported above 2 % of the window",
        "More workers, a larger prefetch_factor, cheaper transforms, or transforms on the GPU.",
        "What the workers did: they are other processes.",
        lambda facts: _loaders(facts, workers=True),
    ),
)
