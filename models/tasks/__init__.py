"""The LightningModules, one a task, that train any of the models."""
