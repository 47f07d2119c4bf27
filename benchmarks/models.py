"""Our models against the fastest implementations on PyPI, at equal shapes, on this machine.

    python benchmarks/models.py                    # all, about ten minutes on two cores
    python benchmarks/models.py --only mixer-s16   # one model
    python benchmarks/models.py --rounds 5         # quicker, and noisier

Needs the `test` extra. All contenders of a model are measured interleaved (A B C A B C ...) in
one process; the figures are medians over the rounds, and a ratio is the median over rounds of
(the fastest other / ours), so that a slow moment of the machine strikes both alike. Above one
we are faster. Peak memory is that of a train step in a process of its own.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Run as a script, this file would hide the package of the same name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from lightning_bench.models.registry.registry import create  # noqa: E402

Maker = Callable[[], nn.Module]
WORDS = 30_522


class Logits(nn.Module):
    """A model of transformers that returns its logits, as ours do."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return self.model(x).logits


def timm_model(name: str) -> Maker:
    """Make a model of timm."""

    def make() -> nn.Module:
        import timm

        return timm.create_model(name)

    return make


def mlp_mixer_pytorch() -> nn.Module:
    """Make Mixer-S/16; the package names the two expansion factors the wrong way round."""
    from mlp_mixer_pytorch import MLPMixer

    return MLPMixer(
        image_size=224,
        channels=3,
        patch_size=16,
        dim=512,
        depth=8,
        num_classes=1000,
        expansion_factor=0.5,
        expansion_factor_token=4,
    )


def g_mlp_pytorch_vision() -> nn.Module:
    """Make gMLP-S/16."""
    from g_mlp_pytorch import gMLPVision

    return gMLPVision(image_size=224, patch_size=16, num_classes=1000, dim=256, depth=30, ff_mult=6)


def g_mlp_pytorch_text() -> nn.Module:
    """Make the text gMLP of 18 blocks (its decoder isn't tied, and has no transform)."""
    from g_mlp_pytorch import gMLP

    return gMLP(num_tokens=WORDS, dim=512, depth=18, seq_len=128, ff_mult=6)


def vit_pytorch() -> nn.Module:
    """Make ViT-S/16."""
    from vit_pytorch import ViT

    return ViT(
        image_size=224, patch_size=16, num_classes=1000, dim=384, depth=12, heads=6, mlp_dim=1536
    )


def transformers_vit() -> nn.Module:
    """Make ViT-S/16."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        num_labels=1000,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return Logits(ViTForImageClassification(config))


def transformers_bert() -> nn.Module:
    """Make BERT of 6 layers with the masked-LM head."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        num_hidden_layers=6, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    return Logits(BertForMaskedLM(config))


def own(name: str, **arguments: int) -> Maker:
    """Make a model of ours."""
    return lambda: create(name, **arguments)


CONTENDERS: dict[str, dict[str, Maker]] = {
    "mixer-s16": {
        "ours": own("mixer-s16"),
        "timm": timm_model("mixer_s16_224"),
        "mlp-mixer-pytorch": mlp_mixer_pytorch,
    },
    "gmlp-s16": {
        "ours": own("gmlp-s16"),
        "timm": timm_model("gmlp_s16_224"),
        "g-mlp-pytorch": g_mlp_pytorch_vision,
    },
    "vit-s16": {
        "ours": own("vit-s16"),
        "timm": timm_model("vit_small_patch16_224"),
        "vit-pytorch": vit_pytorch,
        "transformers": transformers_vit,
    },
    "gmlp-text-18": {"ours": own("gmlp-text-18"), "g-mlp-pytorch": g_mlp_pytorch_text},
    # The same shapes as BERT's; ours normalises before the layers, BERT after them.
    "transformer-text": {
        "ours": own("transformer-text", width=768, depth=6, heads=12, hidden=3072, length=128),
        "transformers": transformers_bert,
    },
}


def batch_for(name: str, size: int) -> tuple[Tensor, Tensor]:
    """Make inputs and targets."""
    if "text" in name:
        return torch.randint(WORDS, (size, 128)), torch.randint(WORDS, (size, 128))
    return torch.randn(size, 3, 224, 224), torch.randint(1000, (size,))


class Contender:
    """A model with what it needs to take a forward pass or a train step."""

    def __init__(self, make: Maker, x: Tensor, y: Tensor) -> None:
        torch.manual_seed(0)
        self.model = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.x, self.y = x, y

    def forward(self) -> None:
        """Take a forward pass as in evaluation."""
        self.model.eval()
        with torch.inference_mode():
            self.model(self.x)

    def train(self) -> None:
        """Take a train step."""
        self.model.train()
        self.optimizer.zero_grad()
        logits = self.model(self.x)
        F.cross_entropy(logits.flatten(0, -2), self.y.flatten()).backward()
        self.optimizer.step()


def seconds(step: Callable[[], None]) -> float:
    """Time one call."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def race(name: str, batch: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Time forward and train of all contenders, interleaved; raw samples."""
    x, y = batch_for(name, batch)
    field = {who: Contender(make, x, y) for who, make in CONTENDERS[name].items()}
    samples: dict[str, dict[str, list[float]]] = {
        what: {who: [] for who in field} for what in ("forward", "train")
    }
    gc.disable()
    for turn in range(rounds + 1):
        order = list(field) if turn % 2 else list(reversed(field))
        for what in samples:
            for who in order:
                took = seconds(getattr(field[who], what))
                if turn:  # the first is to warm up
                    samples[what][who].append(took)
        gc.collect()
    gc.enable()
    return samples


def peak_memory_mb(name: str, who: str, batch: int) -> float:
    """Measure the peak memory of a train step in a fresh process, above what the model holds."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", name, who, "--batch", str(batch)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure_memory(name: str, who: str, batch: int) -> float:
    """Return the peak of the second train step in MB (the kernel's high-water mark)."""
    contender = Contender(CONTENDERS[name][who], *batch_for(name, batch))
    contender.train()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the high-water mark so far
    contender.train()
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def report(name: str, batch: int, rounds: int, memory: bool) -> dict[str, float]:
    """Race, print the table of one model, and return our ratios."""
    samples = race(name, batch, rounds)
    ratios: dict[str, float] = {}
    print(f"\n{name}, batch {batch}, {rounds} rounds, {torch.get_num_threads()} threads, float32")
    print(f"{'':20}{'forward ms':>12}{'spread':>9}{'train ms':>12}{'spread':>9}{'peak MB':>10}")
    for who in CONTENDERS[name]:
        cells = ""
        for what in ("forward", "train"):
            ms = [1e3 * each for each in samples[what][who]]
            low, _, high = statistics.quantiles(ms, n=4)
            cells += f"{statistics.median(ms):12.1f}{(high - low) / statistics.median(ms):9.1%}"
        peak = f"{peak_memory_mb(name, who, batch):10.0f}" if memory else f"{'–':>10}"
        print(f"{who:20}{cells}{peak}", flush=True)
    for what, times in samples.items():
        others = {
            who: statistics.median(
                theirs / ours for theirs, ours in zip(times[who], times["ours"], strict=True)
            )
            for who in times
            if who != "ours"
        }
        nearest = min(others, key=others.__getitem__)
        ratios[what] = others[nearest]
        print(f"{what}: {others[nearest]:.3f} × the fastest other ({nearest})")
    return ratios


def main() -> None:
    """Run the races and print a summary."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--only", choices=CONTENDERS, help="one model")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--memory", nargs=2, metavar=("MODEL", "WHO"), help="for its own use")
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(measure_memory(*options.memory, options.batch)))
        return
    names = [options.only] if options.only else list(CONTENDERS)
    memory = not options.no_memory
    summary = {name: report(name, options.batch, options.rounds, memory) for name in names}
    print(f"\n{'ratio (≥ 1: ours is faster)':30}{'forward':>10}{'train':>10}")
    for name, ratios in summary.items():
        print(f"{name:30}{ratios['forward']:10.3f}{ratios['train']:10.3f}")


if __name__ == "__main__":
    main()
