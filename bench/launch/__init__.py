"""Launchers: where runs are carried out. One engine, one module; `launcher` is the contract."""
