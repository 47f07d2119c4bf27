"""The named studies, one YAML page each; this module only finds them."""

from pathlib import Path


def pages() -> dict[str, Path]:
    """Every study's page by the study's name, in alphabetical order."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}
