"""Sampled values: GPU metrics, device memory in use, threads on CPUs, CPU samples → `counters`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from gpuviz.formats.kineto.tables import conform
from gpuviz.formats.nsys import layout
from gpuviz.formats.nsys.activities import Kinds
from gpuviz.formats.nsys.database import Database
from gpuviz.formats.nsys.gpus import Gpus
from gpuviz.formats.nsys.hosts import Hosts
from gpuviz.formats.nsys.layout import column
from gpuviz.model import schema

# The lowest byte of typeId is the index of the GPU, as Nsight's own reports take it.
_GPU_BITS = 256
_ALLOCATED, _FREED = 0, 1
"""ENUM_CUDA_DEV_MEM_EVENT_OPER."""


def counter_table(
    database: Database, raw: Mapping[str, pl.DataFrame], hosts: Hosts, gpus: Gpus, kinds: Kinds, t0_ns: int
) -> pl.DataFrame:
    """The table `counters`. A sample without a time tells nothing and is left out."""
    parts = []
    if layout.GPU_METRICS in raw:
        parts.append(_gpu_metrics(database, raw[layout.GPU_METRICS], gpus))
    if layout.MEMORY_USE in raw:
        parts.append(_memory_in_use(raw[layout.MEMORY_USE], hosts, gpus, kinds))
    if layout.SCHEDULING in raw:
        parts.append(_threads_on_cpus(raw[layout.SCHEDULING], hosts))
    if layout.SAMPLES in raw:
        parts.append(_cpu_samples(raw[layout.SAMPLES], hosts))
    if not parts:
        return schema.empty("counters")
    rows = pl.concat([conform("counters", part) for part in parts]).drop_nulls("time_ns")
    return rows.with_columns(pl.col("time_ns") - t0_ns).sort("time_ns", maintain_order=True)


def _gpu_metrics(database: Database, table: pl.DataFrame, gpus: Gpus) -> pl.DataFrame:
    """Each metric is a series, in the unit that its name says in brackets: ``SMs Active [Throughput %]``."""
    rows = database.small_table("TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName"))
    names = pl.DataFrame(
        [(row["typeId"], row["metricId"], str(row["metricName"])) for row in rows if row["metricName"]],
        schema={"typeId": pl.Int64, "metricId": pl.Int64, "series": pl.String},
        orient="row",
        strict=False,
    ).unique(["typeId", "metricId"], keep="first", maintain_order=True)
    series = pl.col("series").fill_null(pl.format("metric {}", "metricId"))
    devices = gpus.devices.select(pl.col("ordinal").cast(pl.Int64), "device_id").unique("ordinal", keep="first")
    joined = (
        table.with_columns(ordinal=pl.col("typeId") % _GPU_BITS)
        .join(names, on=["typeId", "metricId"], how="left", maintain_order="left")
        .join(devices, on="ordinal", how="left", maintain_order="left")
    )
    return joined.select(
        series=series,
        unit=series.str.extract(r"\[([^\]]+)\]\s*$").fill_null("as recorded"),
        time_ns="timestamp",
        value="value",
        device_id="device_id",
    )


def _memory_in_use(table: pl.DataFrame, hosts: Hosts, gpus: Gpus, kinds: Kinds) -> pl.DataFrame:
    """Bytes allocated minus bytes freed since the recording began, per process, device and kind of memory."""
    process_id = hosts.process_of(column(table, "globalPid"))
    numbers = column(table, "memKind")
    shown = {
        number: f"{kinds.memory(number)} memory allocated since the start" for number in numbers.unique().to_list()
    }
    operation = pl.col("memoryOperationType")
    signed = pl.when(operation == _ALLOCATED).then("bytes").when(operation == _FREED).then(-pl.col("bytes"))
    lane = ["series", "process_id", "device_id"]
    return (
        table.select(
            pl.col("start").alias("time_ns"),
            signed.fill_null(0).alias("change"),
            process_id.alias("process_id"),
            gpus.devices_of(process_id, table["deviceId"]).alias("device_id"),
            pl.Series("series", [shown[number] for number in numbers.to_list()], dtype=pl.String),
        )
        .sort("time_ns", maintain_order=True)
        .with_columns(value=pl.col("change").cum_sum().over(lane), unit=pl.lit("bytes"))
    )


def _threads_on_cpus(table: pl.DataFrame, hosts: Hosts) -> pl.DataFrame:
    """How many threads of a process the system has on a CPU.

    A thread whose first event takes it off its CPU was on one before.
    """
    rows = (
        table.with_columns(process_id=hosts.process_of(table["globalTid"]), is_in=pl.col("isSchedIn") != 0)
        .sort("start", maintain_order=True)
        .with_columns(was_in=pl.col("is_in").shift(1).over("globalTid"))
    )
    begun = (~pl.col("is_in") & pl.col("was_in").is_null()).cast(pl.Int64).sum().over("process_id")
    change = pl.col("is_in").cast(pl.Int64) - pl.col("was_in").fill_null(~pl.col("is_in")).cast(pl.Int64)
    return rows.select(
        time_ns="start",
        series=pl.lit("threads on a CPU"),
        unit=pl.lit("threads"),
        value=begun + change.cum_sum().over("process_id"),
        process_id="process_id",
    )


def _cpu_samples(table: pl.DataFrame, hosts: Hosts) -> pl.DataFrame:
    """How many samples of a process there were so far: the steeper, the more CPU time it took."""
    process_id = hosts.process_of(column(table, "globalTid"))
    return (
        table.select(time_ns="start", process_id=process_id)
        .sort("time_ns", maintain_order=True)
        .with_columns(
            series=pl.lit("CPU samples so far"),
            unit=pl.lit("samples"),
            value=pl.int_range(1, pl.len() + 1).over("process_id"),
        )
    )
