"""What the name of a copy says about its direction and its memory. What it does not say stays unknown."""

from __future__ import annotations

import re

import polars as pl

from gpuviz.model import schema

# "Memcpy HtoD (Pinned -> Device)": CUPTI's words in Kineto. Arrays lie in device memory, so HtoA is a direction HtoD.
_KINETO = re.compile(r"(?:Memcpy\s+)?(?P<kind>[HDAP]to[HDAP])\b(?:\s*\((?P<src>[\w ]+?)\s*->\s*(?P<dst>[\w ]+?)\))?")
_MEMORY_ONLY = re.compile(r"\((?P<src>[\w ]+?)\s*->\s*(?P<dst>[\w ]+?)\)")
# "CopyHostToDevice": AMD's activity names; "Host" does not say whether it is pinned.
_SPELT_OUT = re.compile(r"(?P<src>Host|Device)To(?P<dst>Host|Device)")
_KINDS = {
    **{kind: kind for kind in schema.COPY_KINDS},
    "HtoA": "HtoD",
    "AtoH": "DtoH",
    "AtoA": "DtoD",
    "AtoD": "DtoD",
    "DtoA": "DtoD",
}
_MEMORY = {
    "pageable": "pageable",
    "pinned": "pinned",
    "device": "device",
    "device static": "device",
    "array": "array",
    "managed": "managed",
    "managed static": "managed",
}

type CopyFacts = tuple[str, str, str]
"""copy_kind, src_kind, dst_kind."""


def copy_facts(name: str, kind: str | None = None) -> CopyFacts:
    """Direction and memories of the copy of this name; `kind` is what the event says beside it, as AMD does."""
    if spelt := _SPELT_OUT.search(name):
        src, dst = spelt["src"], spelt["dst"]
        return f"{src[0]}to{dst[0]}", _memory(src), _memory(dst)
    match = _KINETO.match(name)
    direction = match["kind"] if match else kind
    memory = match if match and match["src"] else _MEMORY_ONLY.search(name)
    src, dst = (memory["src"], memory["dst"]) if memory else ("", "")
    return _KINDS.get(direction or "", "other"), _memory(src), _memory(dst)


def _memory(word: str) -> str:
    return _MEMORY.get(word.strip().lower(), "unknown")


def copy_columns(names: pl.Series, kinds: pl.Series) -> pl.DataFrame:
    """The columns copy_kind, src_kind and dst_kind for copies of these names."""
    known: dict[tuple[str, str | None], CopyFacts] = {}
    rows = []
    for pair in zip(names, kinds, strict=True):
        if pair not in known:
            known[pair] = copy_facts(*pair)
        rows.append(known[pair])
    columns = schema.TABLES["memcpys"].polars_schema
    wanted = ("copy_kind", "src_kind", "dst_kind")
    return pl.DataFrame(rows, schema={name: columns[name] for name in wanted}, orient="row")
