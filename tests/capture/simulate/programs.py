"""Small programs as people write them, for any device. Each returns what it computed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


def classifier() -> torch.nn.Module:
    import torch.nn as nn

    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 7 * 7, 10)
    )


def _train(device: str, optimizer: Callable[..., Any], steps: int = 3, **options: Any) -> list[Any]:
    import torch
    import torch.nn.functional as functional

    torch.manual_seed(0)
    model = classifier().to(device)
    updates = optimizer(model.parameters(), lr=0.01, **options)
    images, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 3])
    losses = []
    for _ in range(steps):
        loss = functional.cross_entropy(model(images.to(device)), labels.to(device))
        updates.zero_grad()
        loss.backward()
        updates.step()
        losses.append(loss.item())
    return [losses, *(parameter.detach().cpu() for parameter in model.parameters())]


def sgd(device: str) -> Any:
    import torch

    return _train(device, torch.optim.SGD, momentum=0.9, foreach=False)


def sgd_foreach(device: str) -> Any:
    import torch

    return _train(device, torch.optim.SGD, momentum=0.9, foreach=True)


def adam(device: str) -> Any:
    import torch

    return _train(device, torch.optim.Adam, foreach=False)


def adam_foreach(device: str) -> Any:
    import torch

    return _train(device, torch.optim.Adam, foreach=True)


def adam_fused(device: str) -> Any:
    import torch

    return _train(device, torch.optim.AdamW, fused=True)


def clipping(device: str) -> Any:
    import torch

    torch.manual_seed(1)
    layer = torch.nn.Linear(5, 5).to(device)
    (layer(torch.randn(3, 5, device=device)) ** 2).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.1, foreach=True)
    return [norm.item(), layer.weight.grad.cpu()]


def transformer(device: str) -> Any:
    import torch
    import torch.nn as nn

    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    tokens = torch.randn(2, 7, 32, device=device, requires_grad=True)
    out = model(tokens)
    out.square().mean().backward()
    torch.backends.mha.set_fastpath_enabled(False)  # PyTorch leaves it out where a hook could see what it does
    try:
        with torch.no_grad():
            evaluated = model.eval()(tokens)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    return [out.detach().cpu(), tokens.grad.cpu(), evaluated.cpu()]


def attention(device: str) -> Any:
    import torch
    import torch.nn.functional as functional

    torch.manual_seed(3)
    query, key, value = (torch.randn(1, 2, 9, 16, device=device, requires_grad=True) for _ in range(3))
    out = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    out.sum().backward()
    return [out.detach().cpu(), query.grad.cpu(), value.grad.cpu()]


def recurrent(device: str) -> Any:
    import torch
    import torch.nn as nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.manual_seed(4)
    model = nn.LSTM(6, 5, batch_first=True).to(device)
    packed = pack_padded_sequence(torch.randn(3, 4, 6).to(device), torch.tensor([4, 2, 1]), batch_first=True)
    out, lengths = pad_packed_sequence(model(packed)[0], batch_first=True)
    out.sum().backward()
    return [out.detach().cpu(), lengths, model.weight_ih_l0.grad.cpu()]


def autocast(device: str) -> Any:
    import torch
    import torch.nn.functional as functional

    torch.manual_seed(5)
    model = classifier().to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = model(torch.randn(2, 3, 16, 16, device=device))
        loss = functional.cross_entropy(out, torch.tensor([1, 2], device=device))
    loss.backward()
    return [str(out.dtype), out.detach().float().cpu(), model[0].weight.grad.cpu()]


def grad_scaler(device: str) -> Any:
    import torch

    torch.manual_seed(6)
    model = torch.nn.Linear(4, 4).to(device)
    updates = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    scaler = torch.amp.GradScaler(device)
    for _ in range(2):
        updates.zero_grad()
        scaler.scale(model(torch.ones(2, 4, device=device)).sum()).backward()
        scaler.unscale_(updates)
        scaler.step(updates)
        scaler.update()
    return [scaler.get_scale(), model.weight.detach().cpu()]


def checkpointed(device: str) -> Any:
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Tanh()).to(device)
    result = []
    for reentrant in (False, True):
        data = torch.randn(3, 4, device=device, requires_grad=True)
        checkpoint(model, data, use_reentrant=reentrant).sum().backward()
        result.append(data.grad.cpu())
    return result


def dropout(device: str) -> Any:
    import torch
    import torch.nn.functional as functional

    torch.manual_seed(8)
    return functional.dropout(torch.ones(64, device=device), 0.3).cpu()


def random_numbers(device: str) -> Any:
    import torch

    torch.manual_seed(9)
    generator = torch.Generator(device).manual_seed(3)
    drawn = [torch.rand(3, device=device), torch.randn(3, generator=generator, device=device)]
    drawn += [torch.randint(0, 9, (3,), device=device), torch.empty(3, device=device).normal_(generator=generator)]
    return [tensor.cpu() for tensor in drawn]


def data_loader(device: str, workers: int = 0, pin_memory: bool = False) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(10)
    data = TensorDataset(torch.arange(24.0).reshape(12, 2), torch.arange(12))
    loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=workers, pin_memory=pin_memory)
    batches = [(x.to(device, non_blocking=True), y.to(device, non_blocking=True)) for x, y in loader]
    return [(x * 2).cpu() for x, _ in batches] + [y.cpu() for _, y in batches]


def loader_with_workers(device: str) -> Any:
    return data_loader(device, workers=2)


def pinning_loader(device: str) -> Any:
    return data_loader(device, pin_memory=device == "cuda")


def pinning_loader_with_workers(device: str) -> Any:
    return data_loader(device, workers=2, pin_memory=device == "cuda")


def control_flow(device: str) -> Any:
    import torch

    value, steps = torch.tensor(100.0, device=device), 0
    while value > 1:
        value = value / 2 if value.item() > 10 else value - 1
        steps += 1
    picked = torch.arange(6, device=device)
    return [steps, picked[picked > 2].tolist(), int(picked.sum()), bool((picked == 3).any()), float(value)]


class Double:
    """A custom autograd.Function, whose backward makes new tensors on the device of its input."""

    @staticmethod
    def make() -> Any:
        import torch

        class DoubleFunction(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, data: torch.Tensor) -> torch.Tensor:
                context.where = data.device
                return data * 2

            @staticmethod
            def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
                assert gradient.device == context.where
                return gradient * torch.full((1,), 2.0, device=context.where)

        return DoubleFunction


def custom_function(device: str) -> Any:
    import torch

    data = torch.ones(3, device=device, requires_grad=True)
    Double.make().apply(data * 3).sum().backward()
    return data.grad.cpu()


def gradient_across(device: str) -> Any:
    """A leaf on the host: its gradient comes back to the host."""
    import torch

    leaf = torch.ones(3, requires_grad=True)
    (leaf.to(device) ** 2).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.device.type == "cpu"
    return leaf.grad


def double_backward(device: str) -> Any:
    import torch

    data = torch.tensor(3.0, device=device, requires_grad=True)
    (first,) = torch.autograd.grad(data**3, data, create_graph=True)
    (second,) = torch.autograd.grad(first, data)
    return [first.item(), second.item()]


def in_place(device: str) -> Any:
    import torch

    data = torch.zeros(4, device=device)
    data[1] = 5.0
    data.add_(1).mul_(2)
    data[data > 3] = -1.0
    data[2:].fill_(7)
    return data.cpu()


def saved_and_loaded(device: str) -> Any:
    import torch

    torch.manual_seed(11)
    model = classifier().to(device)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=device)
    assert {value.device.type for value in state.values()} == {device}
    other = classifier().to(device)
    other.load_state_dict(state)
    file.seek(0)
    on_host = torch.load(file, map_location="cpu")
    assert {value.device.type for value in on_host.values()} == {"cpu"}
    return [value.cpu() for value in other.state_dict().values()]


def streams(device: str) -> Any:
    import torch

    data = torch.ones(8, 8, device=device)
    if device == "cpu":
        return (data @ data + 1).cpu()
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        product = data @ data
        event.record()
    torch.cuda.current_stream().wait_event(event)
    product.record_stream(torch.cuda.current_stream())
    return (product + 1).cpu()


def hooks(device: str) -> Any:
    import torch

    seen: list[Any] = []
    layer = torch.nn.Linear(2, 2).to(device)
    torch.nn.init.ones_(layer.weight)
    layer.register_forward_hook(lambda module, inputs, out: seen.append(str(out.device.type == device)))
    data = torch.ones(1, 2, device=device, requires_grad=True)
    data.register_hook(lambda gradient: seen.append(gradient.device.type == device) or gradient * 2)
    layer(data).sum().backward()
    return [data.grad.cpu(), seen]


def numpy_and_back(device: str) -> Any:
    import torch

    array = torch.arange(3.0, device=device).cpu().numpy()
    return torch.from_numpy(array * 2).to(device).tolist()


def deep_copied(device: str) -> Any:
    import copy

    import torch

    torch.manual_seed(12)
    model = copy.deepcopy(classifier().to(device))
    assert {parameter.device.type for parameter in model.parameters()} == {device}
    return [parameter.detach().cpu() for parameter in model.parameters()]


def default_device(device: str) -> Any:
    import torch

    torch.manual_seed(13)
    with torch.device(device):
        layer = torch.nn.Linear(3, 3)
        data = torch.rand(2, 3)
    torch.set_default_device(device)
    try:
        more = torch.ones(2, 3)
        assert more.device.type == data.device.type == layer.weight.device.type == device
        out = torch.nn.functional.gelu(layer(data + more))
        loss = torch.nn.functional.cross_entropy(out, torch.tensor([0, 1]))
    finally:
        torch.set_default_device(None)
    return [out.detach().cpu(), loss.item()]


def embedding(device: str) -> Any:
    import torch

    torch.manual_seed(14)
    table = torch.nn.Embedding(20, 4).to(device)
    table(torch.tensor([[1, 2, 1]], device=device)).sum().backward()
    return table.weight.grad.cpu()


PROGRAMS = [
    *(sgd, sgd_foreach, adam, adam_foreach, adam_fused, clipping, transformer, attention, recurrent, autocast),
    *(grad_scaler, checkpointed, dropout, random_numbers, data_loader, loader_with_workers, pinning_loader),
    *(pinning_loader_with_workers, control_flow, custom_function, gradient_across, double_backward, in_place),
    *(saved_and_loaded, streams, hooks, numpy_and_back, deep_copied, default_device, embedding),
]
