"""The LightningModules that train the models, one a task, and what differs from common ones.

Whoever knows Lightning should know this of `Task`, and of the trainer that `bench.run` makes:

* Optimisation is manual (`automatic_optimization = False`): `Steps` (`training_steps`) computes
  gradients, clips, steps, and sets the learning rate from the recipe before each step. There is no
  scheduler in `trainer.lr_scheduler_configs` for a LearningRateMonitor to find.
* `training_step` takes an iterator of batches and makes a step of the optimiser for each of them,
  up to 256 a call, since Lightning's own work for a call costs more than a small model's step.
* So `batch_idx` counts calls, not batches, and `trainer.global_step` stays 0. What was done stands
  in `task.progress`: `step` counts those of the optimiser, `batch` the batches of this epoch.
* `on_train_batch_end` and the like are called once a call, after its last step.
* There is no logger, and `self.log` is never called: losses add up in tensors on the device, and
  `epoch_results` reads them at the end of each epoch. A callback that monitors a logged metric
  (EarlyStopping, ModelCheckpoint) finds none.
* There is no ModelCheckpoint: `bench.run` saves and restores the state of a run itself, at any
  step, so that a run that was interrupted ends with the same bits.
"""

from collections.abc import Mapping

#: The class of each task that a data set may name, in the module of the task's name.
TASKS: Mapping[str, str] = {
    "classify": "Classify",
    "masked-lm": "MaskedLM",
    "multilabel": "MultiLabel",
    "pretrain": "Pretrain",
    "regress": "Regress",
}
