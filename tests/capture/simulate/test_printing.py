"""Printed tensors: on the host exactly those of PyTorch, on the device the same with the device's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.simulate import Simulator

pytestmark = pytest.mark.torch

DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
]
SHAPES = {"0-d": (), "1-d": (3,), "2-d": (2, 3), "empty": (0,), "empty rows": (3, 0), "large": (30, 50)}
WAYS: dict[str, Callable[[Any], str]] = {
    "repr": repr,
    "str": str,
    "format": format,
    "f-string": lambda tensor: f"{tensor}",
    "in a list": lambda tensor: str([tensor]),
}


def made(dtype: str, shape: tuple[int, ...], device: str, grad: bool) -> Any:
    import torch

    count = 1
    for length in shape:
        count *= length
    plain = (torch.arange(count) % 7).reshape(shape).to(getattr(torch, dtype)).to(device)
    return plain.requires_grad_() if grad else plain


def texts(device: str, grad: bool) -> dict[str, str]:
    found = {}
    for dtype in DTYPES:
        if grad and not dtype.startswith(("float", "bfloat", "complex")):
            continue
        for shape_name, shape in SHAPES.items():
            tensor = made(dtype, shape, device, grad)
            found.update({f"{dtype} {shape_name} {way}": write(tensor) for way, write in WAYS.items()})
    return found


def plain_of(text: str) -> str:
    """Without the device, and without how lines were broken to make room for it."""
    return re.sub(r"\s+", " ", re.sub(r",\s+device='cuda:0'", "", text))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_as_without_a_simulator(grad: bool, captured: bool) -> None:
    expected = texts("cpu", grad)
    with Simulator("T4", deterministic=True) as simulator:
        if captured:
            simulator.start(CaptureRequest())
        host, device = texts("cpu", grad), texts("cuda", grad)
        if captured:
            simulator.stop().validate()
    assert host == expected
    assert {key: plain_of(text) for key, text in device.items()} == {
        key: plain_of(text) for key, text in expected.items()
    }
    for key, text in device.items():
        single = " 0-d " in key and not key.endswith(("repr", "str", "in a list"))
        assert ("device='cuda:0'" in text) != single, key


@pytest.mark.parametrize("captured", [False, True])
def test_parameters_numbers_and_data_loaders(captured: bool) -> None:
    import torch

    def all_texts() -> list[str]:
        labels = torch.arange(8)
        parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        return [
            f"{torch.tensor(3):05d} {torch.tensor(2.5):.3f} {labels.max()}",
            f"{parameter} {parameter!r} {labels == 3}",
            str(list(torch.utils.data.DataLoader(labels))),
            str({"labels": labels}),
        ]

    expected = all_texts()
    with Simulator("T4", deterministic=True) as simulator:
        if captured:
            simulator.start(CaptureRequest())
        assert all_texts() == expected
        parameter = torch.nn.Parameter(torch.ones(2, device="cuda"))
        assert f"{parameter}" == str(parameter)
        assert str(parameter).startswith("Parameter containing:\ntensor([1., 1.], device='cuda:0'")
        assert f"{torch.tensor(3, device='cuda'):05d}" == "00003"
        for device in ("cpu", "cuda"):
            with pytest.raises(TypeError, match="unsupported format string"):
                format(torch.ones(2, device=device), ".2f")
        if captured:
            simulator.stop().validate()
