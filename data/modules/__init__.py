"""The LightningDataModules: images, streamed images, texts, corpora."""
