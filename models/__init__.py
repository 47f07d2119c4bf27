"""The architectures, the LightningModules that train them, and the registry of named variants."""
