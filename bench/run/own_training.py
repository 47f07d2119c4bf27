"""Training of a user's own LightningModule: by its own steps, under Lightning's ordinary loop.

One step a call, its own optimisers, schedulers, callbacks and hooks. Checkpoints are Lightning's
own, taken at the beginning of an epoch, with what they leave out: generators, states of metrics,
and plain attributes. So a training that was stopped ends with the same bits.
"""

import importlib
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torchmetrics import Metric

from lightning_bench.bench.run import compat
from lightning_bench.bench.run.callbacks import Diverged, check_scored
from lightning_bench.bench.run.checkpoint import State
from lightning_bench.bench.run.checkpoint_state import random_states, set_random_states
from lightning_bench.bench.run.control import Control, Pruned, Stopped
from lightning_bench.bench.run.distributed import Rank, RankEnvironment
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Epoch
from lightning_bench.bench.study.own_metrics import column, in_test
from lightning_bench.data.batch import Batch
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.loader import Loader
from lightning_bench.models.registry.user_model import lightning_package
from lightning_bench.models.tasks import probability_scores
from lightning_bench.models.tasks.class_probabilities import ClassProbabilities
from lightning_bench.models.tasks.collected_predictions import Predictions
from lightning_bench.models.tasks.own_module import (
    as_batch,
    labels_and_probabilities,
    overrides,
)
from lightning_bench.models.tasks.scores import score

if TYPE_CHECKING:
    from lightning_bench.bench.run.training import History

_PRECISION = {"bf16": "bf16-mixed", "fp16": "16-mixed"}
#: Checkpoints may cost this part of the time; none follows another within so many seconds.
_SHARE, _APART_S = 0.02, 1.0
_PLAIN = (bool, int, float, str, type(None))


class OwnBatches:
    """A loader's batches as a LightningModule is used to them; Lightning sets its epochs."""

    batch_sampler = None

    def __init__(self, loader: Loader, kind: str) -> None:
        self.loader, self.kind, self.sampler = loader, kind, loader.sampler
        self.seen: list[Batch] = []  # without inputs, in evaluation

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        """Yield them, and remember whose examples they are."""
        self.seen.clear()
        for batch in self.loader:
            if not self.sampler.shuffle:
                self.seen.append(batch._replace(inputs=()))
            yield as_batch(batch.inputs, batch.target, self.kind)


class _Hooks:
    """Reads the curve, takes requests, and saves checkpoints; last of all at an epoch's end."""

    def __init__(
        self, spec: RunSpec, control: Control, history: "History", resumed: State | None
    ) -> None:
        self.spec, self.control, self.history, self.resumed = spec, control, history, resumed
        self.loss, self.losses = 0.0, 0
        self.batches = 0
        self._saved = time.monotonic()

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """From here on a SIGTERM waits for the end of a step."""
        del module
        if self.resumed is not None:
            compat.begin_epoch_afresh(trainer)
        self.control.interrupt.install()
        self.control.interrupt.training = True

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        """Between epochs all state is at rest: restore what Lightning doesn't, or save."""
        self._loss_sum: Any = 0.0
        self.losses = 0
        if self.resumed is not None:
            own = self.resumed["ranks"][trainer.global_rank]
            set_random_states(own["random"])
            _set_plain(module, own["plain"])
            self.batches = self.resumed["batches"]
            self.resumed = None
        elif trainer.current_epoch and self._agreed(trainer, module, self._due()):
            self._save(trainer, module)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        """Add up the loss, where the step tells it, and look for requests."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if isinstance(loss, torch.Tensor):
            self._loss_sum = self._loss_sum + loss.detach().float()
            self.losses += 1
        self.batches += 1
        asked = self.control.request() if trainer.is_global_zero else None
        if self._agreed(trainer, module, self.control.interrupt.asked or asked == "stop"):
            raise Stopped

    def on_validation_start(self, *_: Any) -> None:
        self._validating = time.perf_counter()

    def on_validation_end(self, *_: Any) -> None:
        self.history.curve.validation_s += time.perf_counter() - self._validating

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """Add a point to the curve: what was logged, under its own names and the study's."""
        del module
        logged = numbers(trainer.callback_metrics)
        loss = float(self._loss_sum) / self.losses if self.losses else _train_loss(logged)
        if not math.isfinite(loss) and self.losses:
            raise Diverged(f"the training loss is {loss} in epoch {trainer.current_epoch + 1}")
        named = {
            column(name, wanted): logged[name]
            for name, wanted in self.spec.model.metrics.items()
            if name in logged
        }
        losses = [name for name in ("val_loss", "val/loss", "valid_loss") if name in logged]
        point = Epoch(
            epoch=trainer.current_epoch + 1,
            step=trainer.global_step,
            train_loss=loss,  # no number, of manual steps that neither return nor log one
            val_loss=logged[losses[0]] if losses else None,
            metrics={k: v for k, v in {**logged, **named}.items() if math.isfinite(v)},
        )
        self.history.curve.epochs.append(point)
        self.history.curve.on_epoch(point)
        asked = self.control.request() if trainer.is_global_zero else None
        if self._agreed(trainer, trainer.lightning_module, asked == "prune"):
            raise Pruned

    def on_test_start(self, *_: Any) -> None:
        """A test is left at once, to be done again."""
        if self.control.interrupt.asked:
            raise Stopped
        self.control.interrupt.training = False
        self.control.interrupt.install()

    on_predict_start = on_test_start

    def _due(self) -> bool:
        checkpoints = self.control.checkpoints
        if checkpoints is None:
            return False
        least = max(_APART_S, checkpoints.last_cost_s / _SHARE)
        return not self.control.checkpoint_s or time.monotonic() - self._saved >= least

    def _agreed(self, trainer: Any, module: Any, wanted: bool) -> bool:
        """Whether any rank wants it; all of them ask."""
        if trainer.world_size == 1:
            return wanted
        agreed = torch.tensor(int(wanted), device=module.device)
        dist.all_reduce(agreed, dist.ReduceOp.MAX)
        return bool(agreed)

    def _save(self, trainer: Any, module: Any) -> None:
        ranks: list[State] = [{"random": random_states(), "plain": _plain_of(module)}]
        if trainer.world_size > 1:
            own, ranks = ranks[0], [{} for _ in range(trainer.world_size)]
            dist.all_gather_object(ranks, own)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lightning.ckpt"
            trainer.save_checkpoint(path)
            if trainer.is_global_zero and self.control.checkpoints is not None:
                content = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
                state = {"epoch": trainer.current_epoch, "step": trainer.global_step}
                state |= {"lightning": content, "ranks": ranks, "batches": self.batches}
                self.control.checkpoints.save({**state, **self.history.state()})
        self._saved = time.monotonic()


class OwnTraining:
    """The training and the test of a user's module on one rank."""

    def __init__(
        self, spec: RunSpec, module: nn.Module, rank: Rank, device: str, control: Control,
        history: "History", resumed: State | None, callbacks: list[Any],
    ) -> None:  # fmt: skip
        self.spec, self.module, self.rank = spec, module, rank
        package = lightning_package(type(module))
        lightning = importlib.import_module(package)
        base = importlib.import_module(f"{package}.callbacks").Checkpoint
        loggers = importlib.import_module(f"{package}.loggers.logger")
        # Lightning calls checkpoint callbacks last, after all that was logged.
        reading = type("OwnCurve", (_Hooks, base), {})(spec, control, history, resumed)
        self.reading: Any = reading
        for metric in module.modules():
            if isinstance(metric, Metric):
                metric.persistent(True)
        strategy: Any = "auto"
        if rank.world > 1:
            strategies = importlib.import_module(f"{package}.strategies")
            strategy = strategies.DDPStrategy(
                find_unused_parameters=True, forward_sync_buffers=False
            )
            if device == "cuda":
                # As `trainer` has it: each rank knows its own GPU alone.
                own = torch.device("cuda", torch.cuda.current_device())
                strategy.parallel_devices = [own] * (rank.world // rank.nodes)
        self._folder = tempfile.TemporaryDirectory()
        recipe = spec.recipe
        self.trainer = lightning.Trainer(
            accelerator="gpu" if device == "cuda" else device,
            devices=[torch.cuda.current_device()] if device == "cuda" else rank.world // rank.nodes,
            num_nodes=rank.nodes,
            strategy=strategy,
            plugins=[_environment(package, rank)],
            precision=_PRECISION.get(recipe.precision, "32-true"),
            max_epochs=None if recipe.steps else recipe.epochs,
            max_steps=recipe.steps or -1,
            accumulate_grad_batches=recipe.accumulate,
            gradient_clip_val=recipe.clip_norm,
            deterministic="warn",
            callbacks=[*callbacks, reading],
            logger=[loggers.DummyLogger()],
            default_root_dir=self._folder.name,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )

    def fit(self, loader: Loader, validation: Loader, kind: str) -> None:
        """Train, from the beginning or from a checkpoint."""
        path = None
        if self.reading.resumed is not None:
            path = Path(self._folder.name) / f"resumed-{self.rank.index}.ckpt"
            path.write_bytes(self.reading.resumed["lightning"].numpy().tobytes())
        self.trainer.fit(
            self.module,
            OwnBatches(loader, kind),
            OwnBatches(validation, kind),
            ckpt_path=path,
            weights_only=False,  # it is ours, and may hold any hyperparameter
        )

    def test(
        self, entry: DataSet, loaders: Mapping[str, Loader], sizes: Mapping[str, int],
        kept: Sequence[str],
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:  # fmt: skip
        """The metrics and predictions of each test split."""
        metrics: dict[str, float] = {}
        predictions: dict[str, np.ndarray] = {}
        for number, (name, loader) in enumerate(loaders.items()):
            found: dict[str, float] = {}
            batches = OwnBatches(loader, entry.kind)
            if overrides(self.module, "test_step"):
                self.trainer.test(self.module, batches, verbose=False)
                found = numbers(self.trainer.callback_metrics)
                for logged, wanted in self.spec.model.metrics.items():
                    if (there := in_test(logged, found)) is not None:
                        found[column(logged, wanted)] = found[there]
            if overrides(self.module, "predict_step"):
                arrays = self._predictions(batches, entry, name in kept)
                check_scored(torch.from_numpy(arrays["index"]), sizes[name])
                # What can be computed of predictions is, as for every other entry.
                found |= _scores(entry, arrays)
                predictions |= {f"{name}_{k}" if number else k: v for k, v in arrays.items()}
            metrics |= {f"{k}_{name}" if number else k: v for k, v in found.items()}
        return {k: v for k, v in metrics.items() if math.isfinite(v)}, predictions

    def _predictions(
        self, batches: OwnBatches, entry: DataSet, probabilities: bool
    ) -> dict[str, np.ndarray]:
        outputs = self.trainer.predict(self.module, batches)
        kept = Predictions()
        if probabilities:
            kept.probabilities = ClassProbabilities()
        for batch, output in zip(batches.seen, outputs, strict=True):
            labels, logits = labels_and_probabilities(self.spec.model.name, output, entry.classes)
            kept.update(batch.indices.cpu(), batch.target.cpu(), labels.cpu())
            if logits is None:
                kept.probabilities = None
            elif kept.probabilities is not None:
                kept.probabilities.add(batch.indices.cpu(), logits.cpu())
        device = torch.device("cpu")
        if self.rank.world > 1:
            device = next(self.module.parameters()).device
            kept = kept.to(device)
        computed = kept.compute()
        if kept.probabilities is not None:
            computed |= kept.probabilities.gather(len(computed["index"]), device)
        return {name: value.cpu().numpy() for name, value in computed.items()}

    def weights(self) -> dict[str, torch.Tensor]:
        """The final weights."""
        return {k: v.detach().cpu().clone() for k, v in self.module.state_dict().items()}


def numbers(logged: Mapping[str, Any]) -> dict[str, float]:
    """What a module has logged, as far as it is a single number."""
    return {
        name: float(value)
        for name, value in logged.items()
        if isinstance(value, int | float) or (hasattr(value, "numel") and value.numel() == 1)
    }


def _train_loss(logged: Mapping[str, float]) -> float:
    """The training loss by its usual names; of a step that returns none and logs none no number."""
    names = [name for name in logged if "loss" in name and not name.startswith(("val", "test"))]
    return logged[names[0]] if names else math.nan


def _scores(entry: DataSet, arrays: dict[str, np.ndarray]) -> dict[str, float]:
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    if entry.task != "classify":
        return score(entry.metrics, tensors)
    return {**probability_scores.scores(arrays), **score(entry.metrics, tensors)}


def _environment(package: str, rank: Rank) -> Any:
    """Our ranks as the cluster environment of either package."""
    if package == "pytorch_lightning":
        return RankEnvironment(rank)
    environments: Any = importlib.import_module("lightning.fabric.plugins.environments")
    own = {k: v for k, v in vars(RankEnvironment).items() if k not in {"__init__", "__dict__"}}
    made = type("RankEnvironment", (environments.LightningEnvironment,), own)()
    made._rank = rank
    return made


def _plain_of(module: nn.Module) -> State:
    """Attributes of the module and its parts that are plain numbers, texts, or lists of such."""
    return {
        name: {
            key: value
            for key, value in vars(part).items()
            if not key.startswith("_") and key != "training" and _is_plain(value)
        }
        for name, part in module.named_modules()
    }


def _set_plain(module: nn.Module, state: State) -> None:
    for name, part in module.named_modules():
        for key, value in state.get(name, {}).items():
            setattr(part, key, value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict) and type(value) is dict:
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    return type(value) in _PLAIN or type(value) is torch.Tensor
