"""The base of the LightningModules: training steps, validation and test of a model."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor, nn, optim
from torchmetrics import MeanMetric, Metric

from lightning_bench.models.tasks.class_probabilities import ClassProbabilities
from lightning_bench.models.tasks.collected_predictions import Predictions
from lightning_bench.models.tasks.freezing import freeze_body, train_head
from lightning_bench.models.tasks.losses import Loss
from lightning_bench.models.tasks.measures import Measure
from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.tasks.scores import SCORES, score
from lightning_bench.models.tasks.training_steps import Batch, Learner, Progress, Steps
from lightning_bench.models.tasks.weight_average import Average


class Task(Learner, ABC):
    """A LightningModule that trains, validates and tests a model; subclasses define the loss.

    Nothing is logged a step, since `self.log` costs more than a small model's step: the losses
    add up in tensors and are read once an epoch, by whoever asks (`epoch_results`). `tests` names
    the test splits in the order of their loaders; metrics and predictions of all but the first
    carry the split's name. `label_smoothing` is for losses of classes; a `criterion` takes the
    place of the task's own loss. Of `outputs` (classes, labels or targets) metrics need the number.
    Whoever trains sets `progress.total_steps` before.
    """

    #: The task that `metrics` of a page are told of; none for one whose metrics are its own.
    measured_as = ""
    #: A split may have fewer examples than there are ranks.
    allow_zero_length_dataloader_with_multiple_devices = True

    def __init__(
        self,
        model: nn.Module,
        *,
        optimisation: Optimisation,
        metrics: Sequence[str] = ("accuracy",),
        tests: Sequence[str] = ("test",),
        label_smoothing: float = 0.0,
        criterion: Loss | None = None,
        outputs: int = 0,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.optimisation = optimisation
        self.label_smoothing = label_smoothing
        self.criterion = criterion
        self.metrics = tuple(metrics)
        #: Those that are not ours.
        self.measures = {
            name: Measure(name, task=self.measured_as, outputs=outputs)
            for name in self.metrics
            if self.measured_as and name not in SCORES
        }
        self.tests = tuple(tests)
        self.head_only = False
        self.average: Average | None = None
        self.progress = Progress()
        self.train_loss = _mean()
        self.val_loss: Metric = _mean()
        scored = any(measure.of_probabilities for measure in self.measures.values())
        self.val_predictions = Predictions(scored=scored)
        self.val_index = torch.empty(0)  # the examples of the last validation
        self.test_losses = nn.ModuleList(_mean() for _ in self.tests)
        self.test_predictions = nn.ModuleList(Predictions(scored=scored) for _ in self.tests)

    @abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a training batch."""

    @abstractmethod
    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of each example in evaluation."""

    @abstractmethod
    def predict(self, output: Tensor) -> Tensor:
        """The prediction for each example."""

    def freeze_body(self) -> None:
        """Train the head alone from now on."""
        freeze_body(self.model)
        self.head_only = True

    def average_weights(self, decay: float) -> None:
        """Evaluate with averages of the weights from now on."""
        self.average = Average(self.model, decay)

    def keep_probabilities(self, tests: Iterable[str], *, classes_only: bool = False) -> None:
        """Keep what each class is given in these tests, or the likeliest classes alone."""
        for name in tests:
            predictions = self.test_predictions[self.tests.index(name)]
            assert isinstance(predictions, Predictions)
            predictions.probabilities = ClassProbabilities(classes_only=classes_only)

    def finish(self) -> None:
        """End the training: the averages, if there are any, are the model's weights now."""
        if self.average is not None:
            self.average.copy_to(self.model)

    def evaluated(self) -> AbstractContextManager[None]:
        """Where the model has the weights that evaluation uses."""
        return self.average.inside(self.model) if self.average is not None else nullcontext()

    def output(self, batch: Batch) -> Any:
        """What evaluation is of."""
        if self.average is None:
            return self.model(*batch.inputs)
        return self.average.apply_to(self.model, batch.inputs)

    def train(self, mode: bool = True) -> Self:
        """Put into training what is trained; a frozen body stays in evaluation."""
        super().train(mode)
        if mode and self.head_only:
            train_head(self.model)
        return self

    def configure_optimizers(self) -> optim.Optimizer:
        """The recipe's optimiser; its learning rate is set at every step."""
        return self.optimisation.optimizer_of(self.model)

    def on_train_epoch_start(self) -> None:
        """Start adding up the losses."""
        self.progress.start_epoch(self.device)

    def on_train_start(self) -> None:
        """Look up once what every step needs."""
        self._steps = Steps(self)

    def training_step(self, batches: Iterable[Batch], batch_idx: int) -> None:
        """Make an optimiser step for each of these batches; `batch_idx` counts calls.

        Where one call ends and the next begins changes no number (see `models.tasks`).
        """
        self._steps.take(batches)

    def batch_loss(self, batch: Batch) -> Tensor:
        """The mean loss of a training batch."""
        return self.loss(self.model(*batch.inputs), batch.target)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch to the validation."""
        self._evaluate(batch, self.val_loss, self.val_predictions)

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Add a batch to one of the tests."""
        self._evaluate(
            batch, self.test_losses[dataloader_idx], self.test_predictions[dataloader_idx]
        )

    def epoch_results(self) -> dict[str, float]:
        """This epoch's `train_loss`, `val_loss` and metrics, which ends it; all ranks must call."""
        self.train_loss.update(self.progress.mean_loss(), self.progress.batch)
        predictions = self.val_predictions.compute()
        self.val_index = predictions["index"]
        results = {
            "train_loss": self.train_loss.compute().item(),
            "val_loss": self.val_loss.compute().item(),
            **self.scores(predictions),
        }
        for metric in (self.train_loss, self.val_loss, self.val_predictions):
            metric.reset()
        self.progress.end_epoch()
        return results

    def test_results(self) -> tuple[dict[str, float], dict[str, Tensor]]:
        """The test metrics and the predictions they come from; all ranks must call it.

        Class probabilities, and metrics of them, are rank 0's alone.
        """
        metrics: dict[str, float] = {}
        predictions: dict[str, Tensor] = {}
        for i, (name, loss, collected) in enumerate(self._tests()):
            computed = collected.compute()
            if collected.probabilities is not None:
                computed |= collected.probabilities.gather(len(computed["index"]), self.device)
            scores = {**self.scores(computed), "loss": loss.compute().item()}
            scores = {**self.test_scores(computed), **scores}
            metrics |= {f"{key}_{name}" if i else key: value for key, value in scores.items()}
            computed.pop("scores", None)
            predictions |= {f"{name}_{key}" if i else key: v for key, v in computed.items()}
        return metrics, predictions

    def training_results(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Loss and metrics on training examples as in evaluation, each named `…_train`.

        All ranks must call it, after the test.
        """
        self.eval()
        for batch in batches:
            self._evaluate(batch, self.val_loss, self.val_predictions)
        scores = self.scores(self.val_predictions.compute())
        scores["loss"] = self.val_loss.compute().item()
        for metric in (self.val_loss, self.val_predictions):
            metric.reset()
        return {f"{name}_train": value for name, value in scores.items()}

    def scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """The metrics of a split."""
        ours = score([name for name in self.metrics if name not in self.measures], predictions)
        theirs = {name: measure(predictions) for name, measure in self.measures.items()}
        return {name: ours[name] if name in ours else theirs[name] for name in self.metrics}

    def class_scores(self, output: Tensor) -> Tensor:
        """What each class of each example is given, for metrics of probabilities."""
        return output

    def test_scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """What is known of a test split alone, once."""
        del predictions
        return {}

    def _tests(self) -> Iterable[tuple[str, Any, Any]]:
        return zip(self.tests, self.test_losses, self.test_predictions, strict=True)

    def _evaluate(self, batch: Batch, loss: Any, predictions: Any) -> None:
        output = self.output(batch)
        if not batch.global_size:  # it only kept other ranks company
            return
        loss.update(self.losses(output, batch.target))
        given = {"scores": self.class_scores(output)} if predictions.scored else {}
        predictions.update(batch.indices, batch.target, self.predict(output), **given)
        if predictions.probabilities is not None:
            predictions.probabilities.add(batch.indices, output)


def _mean() -> MeanMetric:
    return MeanMetric(nan_strategy="disable")
