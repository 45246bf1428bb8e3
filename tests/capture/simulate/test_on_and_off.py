"""Turning the GPU on and off: everything that was exchanged is put back, whatever happened in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from gpuviz.capture import simulate
from gpuviz.capture.backend import CaptureRequest, choose_backend
from gpuviz.capture.simulate import Simulator
from gpuviz.errors import CaptureError, SessionActiveError
from tests.capture.simulate import programs

pytestmark = pytest.mark.torch


def state() -> dict[str, Any]:
    """Every attribute of every part of PyTorch that the simulator touches, by identity, and the modes."""
    import torch
    import torch._dynamo
    import torch.utils._device
    import torch.utils.data._utils.worker
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    owners = {
        "torch": torch,
        "cuda": torch.cuda,
        "accelerator": torch.accelerator,
        "C": torch._C,
        "memory": torch.cuda.memory,
        "random": torch.cuda.random,
        "streams": torch.cuda.streams,
        "graphs": torch.cuda.graphs,
        "Tensor": torch.Tensor,
        "autocast": torch.autocast,
        "autograd": torch.autograd,
        "graph": torch.autograd.graph,
        "cudnn": torch.backends.cudnn,
        "hooks": torch.autograd.graph.saved_tensors_hooks,
        "context": torch.utils._device.DeviceContext,
        "worker": torch.utils.data._utils.worker,
        "Module": torch.nn.Module,
        "thread": threading.Thread,
    }
    # Accessors of classes are made anew at each look; what the class itself holds is what counts.
    found: dict[str, Any] = {
        f"{name}.{key}": id(value) for name, owner in owners.items() for key, value in vars(owner).items()
    }
    found.update({f"dir {name}": dir(owner) for name, owner in owners.items()})
    found["packages"] = list(torch.serialization._package_registry)
    found["functions"] = _get_current_function_mode_stack()
    found["operators"] = _get_current_dispatch_mode_stack()
    found["stream hooks"] = len(torch.nn.modules.module._global_forward_hooks)
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]


@pytest.fixture(autouse=True)
def everything_is_restored(nothing_left: None) -> Any:
    import torch  # what PyTorch imports at first use is none of the simulator's business

    programs.sgd("cpu")
    with Simulator():
        torch.ones(1, device="cuda")
    before = state()
    yield
    assert differences(before, state()) == []


def test_off_restores_everything() -> None:
    import torch

    simulator = Simulator("H100")
    before = state()
    simulator.install()
    assert torch.cuda.is_available()
    assert len(differences(before, state())) > 50
    assert len(simulator.patched) > 50
    simulator.uninstall()
    assert differences(before, state()) == []
    assert not torch.cuda.is_available()
    assert simulator.patched == []


def test_again_and_again() -> None:
    for gpu in ("H100", "T4", "H100"):
        with Simulator(gpu) as simulator:
            programs.sgd("cuda")
            simulator.start(CaptureRequest())
            programs.sgd("cuda")
            simulator.stop()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("captured", [False, True])
def test_an_exception_leaves_nothing(error: type[BaseException], captured: bool) -> None:
    import torch

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, data: torch.Tensor) -> torch.Tensor:
            return data.clone()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            raise error("in the middle of backward")

    def body() -> None:
        with Simulator("H100") as simulator:
            if captured:
                simulator.start(CaptureRequest())
            Fails.apply(torch.ones(2, device="cuda", requires_grad=True)).sum().backward()

    with pytest.raises(error):
        body()
    assert simulate.active() is None


def test_an_operator_that_fails_is_recorded_and_the_capture_goes_on(capture: Callable[..., Any]) -> None:
    import torch

    def body() -> None:
        with pytest.raises(RuntimeError):
            torch.ones(2, 3, device="cuda") @ torch.ones(2, 3, device="cuda")
        torch.ones(2, device="cuda") + 1

    trace = capture(body)
    assert trace.host_calls.filter(timing="ok").height == trace.host_calls.height
    assert any("add" in name for name in trace.kernels["name"])


def test_other_modes_stay_where_they_are() -> None:
    import torch
    from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    functions, operators, simulator = Functions(), Operators(), Simulator()
    simulator.install()
    simulator.start(CaptureRequest())
    with functions, operators:
        torch.ones(1, device="cuda")
        simulator.stop()
        simulator.uninstall()
        assert _get_current_function_mode_stack() == [functions]
        assert _get_current_dispatch_mode_stack() == [operators]


def test_only_one_at_a_time() -> None:
    with Simulator("H100") as simulator:
        with pytest.raises(CaptureError, match="simulated H100 is on already"):
            Simulator("T4").install()
        simulator.start(CaptureRequest())
        with pytest.raises(SessionActiveError):
            simulator.start(CaptureRequest())
        simulator.stop()
        with pytest.raises(CaptureError, match="none had begun"):
            simulator.stop()
    simulator.uninstall()  # a second time does nothing


def test_another_thread_cannot_turn_it_off_and_gets_a_clear_message() -> None:
    import torch

    with Simulator("H100") as simulator:
        messages: list[str] = []

        def attempt() -> None:
            for action in (simulator.uninstall, lambda: torch.ones(1, device="cuda")):
                try:
                    action()
                except CaptureError as error:
                    messages.append(str(error))

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        assert len(messages) == 2
        assert "another thread" in messages[0]
        assert "a thread other than" in messages[1]
        assert torch.ones(1, device="cuda").is_cuda


def test_tensors_are_plain_afterwards() -> None:
    import torch

    with Simulator():
        layer = torch.nn.Linear(2, 2).to("cuda")
        assert layer.weight.is_cuda
    assert layer.weight.device == torch.device("cpu")
    assert not layer.weight.is_cuda
    assert "device" not in repr(layer.weight)


def test_backends_by_name() -> None:
    backend = choose_backend("simulate")
    assert backend.description == "simulate H100 (modelled)"
    with pytest.raises(CaptureError, match="known are H100, T4"):
        choose_backend("simulate:Voodoo2")
    with pytest.raises(CaptureError, match="simulate H100"):
        choose_backend("auto")
    with Simulator("T4") as simulator:
        assert choose_backend("auto") is simulator
        assert choose_backend("simulate") is simulator
        assert choose_backend("simulate:t4") is simulator
        with pytest.raises(CaptureError, match="a simulated T4 is on"):
            choose_backend("simulate:H100")


def test_on_for_one_capture_only() -> None:
    import torch

    simulator = Simulator("T4")
    simulator.start(CaptureRequest(label="one cell"))
    assert torch.cuda.get_device_name() == "Tesla T4"
    trace = simulator.stop()
    assert not torch.cuda.is_available()
    assert trace.meta.title == "one cell"
    assert trace.meta.source == "simulate T4 (modelled)"
    assert trace.meta.modelled


def test_without_gpu_work(capture: Callable[..., Any]) -> None:
    import torch

    trace = capture(lambda: torch.ones(3) + 1)
    assert not trace.kernels.height
    assert not trace.api_calls.height
    assert trace.host_calls["name"].to_list() == ["aten::ones", "aten::add"]


def test_an_empty_capture(capture: Callable[..., Any]) -> None:
    trace = capture(lambda: None)
    assert not trace.host_calls.height
