"""`bench prepare`: fetch and check ahead what a study needs, so that it runs without a network."""

import time
from dataclasses import asdict
from pathlib import Path

from lightning_bench.bench.cli.options import (
    DataRoot,
    Format,
    OutputFormat,
    Scale,
    Settings,
    StudyName,
    echo_json,
    use_data_root,
)

NOT_READY = 3
#: Without a terminal, how far a step is gets a line no more often than this.
EVERY_S = 5.0


def prepare_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    data_root: DataRoot = None,
    output: OutputFormat = Format.TABLE,
) -> int:
    """Fetch, decode, tokenise and verify a study's data and weights."""
    from rich.markup import escape

    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.study import inputs
    from lightning_bench.bench.study.load import load

    use_data_root(data_root)
    study = load(name, scale, settings or ())
    from lightning_bench.data.prepare import prepare
    from lightning_bench.data.progress import size

    console = Console(highlight=False, stderr=output is Format.JSON)
    # A folder or a file of one's own is not fetched.
    weights = [name for name in inputs.weights(study) if not Path(name).exists()]
    sample = any(spec.sample for spec in study.data)
    with console.status("preparing …") as status:
        printed = 0.0

        def progress(line: str) -> None:
            status.update(escape(line))
            if not console.is_terminal:
                console.print(line, markup=False, soft_wrap=True)

        def passing(line: str) -> None:
            nonlocal printed
            status.update(escape(line))
            if not console.is_terminal and time.monotonic() - printed > EVERY_S:
                printed = time.monotonic()
                console.print(line, markup=False, soft_wrap=True)

        results = prepare(
            list(inputs.datasets(study).values()),
            progress,
            sample=sample,
            weights=sorted(weights),
            passing=passing,
        )
    failed = sum(result.state == "failed" for result in results)
    if output is Format.JSON:
        echo_json(asdict(result) for result in results)
        return NOT_READY if failed else 0
    for result in results:
        colour = "red" if result.state == "failed" else "green"
        counts = ", ".join(f"{count:,} {split}" for split, count in result.splits.items())
        kept = size(result.bytes) if result.bytes else ""
        commit = f"commit {result.revision[:12]}" if result.revision else ""
        mark = f"fingerprint {result.fingerprint[:12]}" if result.fingerprint else ""
        parts = [part for part in (result.detail, counts, kept, commit, mark) if part]
        console.print(
            f"[{colour}]{result.state}[/]  {result.name}: {'; '.join(parts)}", soft_wrap=True
        )
    if not failed:
        console.print(f"\n{study.name} ({study.scale}) can run without a network")
    return NOT_READY if failed else 0
