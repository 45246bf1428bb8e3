"""Record gpuviz/samples/cpu_training.json.gz: three training steps on a CPU, with torch.profiler.

The recording is our own and has no GPU work in it: it is the sample until one from a GPU exists. Run it from the
repository in an environment that has torch: ``python tools/record_sample.py``.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

TARGET = Path(__file__).parents[1] / "gpuviz" / "samples" / "cpu_training.json.gz"
STEPS = 3


class Classifier(nn.Module):
    """A small image classifier: two convolutions, attention over the patches, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.GELU(), nn.Conv2d(16, 32, 2, stride=2))
        self.attention = nn.TransformerEncoderLayer(32, nhead=4, dim_feedforward=64, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        return self.head(self.attention(tokens).mean(dim=1))


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """One step; the loss."""
    with record_function("forward"):
        loss = nn.functional.cross_entropy(model(images), labels)
    with record_function("backward"):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def main() -> None:
    """Record, take machine paths out, and write the file."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    images, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1, warmup=1, active=STEPS),
            with_stack=True,
            record_shapes=True,
            on_trace_ready=lambda finished: finished.export_chrome_trace(str(path)),
        ) as profiler:
            for _ in range(2 + STEPS):
                train_step(model, optimizer, images, labels)
                profiler.step()
        text = path.read_text(encoding="utf-8")
    text = re.sub(r"(/[\w.+-]+)+/(site-packages|lib/python3\.\d+|tools)/", "", text)
    text = re.sub(r'"traceName": "[^"]*"', f'"traceName": "{TARGET.name}"', text)
    TARGET.parent.mkdir(exist_ok=True)
    # The text is written as it came: timestamps never pass through a float.
    TARGET.write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))
    print(f"wrote {TARGET}: {len(json.loads(text)['traceEvents']):,} events, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
