"""Faults: models that misbehave, signals at any moment, damage."""
