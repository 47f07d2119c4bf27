"""A LightningDataModule, as in everybody's project."""

import pytorch_lightning as pl
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split


class DigitsDataModule(pl.LightningDataModule):
    def __init__(self, batch_size=32, scale=16.0):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        pixels, labels = load_digits(return_X_y=True)
        images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / self.hparams.scale
        split = torch.Generator().manual_seed(42)
        whole = TensorDataset(images, torch.tensor(labels))
        self.train, self.val, self.test = random_split(whole, [1197, 300, 300], generator=split)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=256)

    def test_dataloader(self):
        return DataLoader(self.test, batch_size=256)
