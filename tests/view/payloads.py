"""A second reader of the payload, so that writer and engine are not the only two that know its layout."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from typing import Any

import numpy as np

_DTYPES = {"i32": "<i4", "i64": "<i8", "u8": "u1"}


def decode_payload(text: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the columns."""
    data = gzip.decompress(base64.b64decode(text))
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    body = data[-(-(4 + length) // 8) * 8 :]
    columns = {}
    for column in header["columns"]:
        dtype = np.dtype(_DTYPES[column["type"]])
        size = column["count"] * dtype.itemsize
        planes = np.frombuffer(body, np.uint8, size, column["offset"]).reshape(dtype.itemsize, column["count"])
        values = np.ascontiguousarray(planes.T).view(dtype).ravel()
        columns[column["name"]] = np.cumsum(values, dtype=dtype) if column["delta"] else values
    return header, columns
