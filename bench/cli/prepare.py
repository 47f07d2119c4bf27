"""`bench prepare`: fetch and check ahead what a study needs, so that it runs without a network."""

from dataclasses import asdict

from bench.cli.options import (
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


def prepare_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    data_root: DataRoot = None,
    output: OutputFormat = Format.TABLE,
) -> int:
    """Fetch, decode, tokenise and verify a study's data and weights."""
    from rich.console import Console

    from bench.spec import WEIGHTS
    from bench.study import load

    use_data_root(data_root)
    study = load(name, scale, settings or ())
    from data.prepare import prepare

    console = Console(highlight=False, stderr=output is Format.JSON)
    weights = {
        str(entry.args[argument])
        for entry in study.entries.values()
        for argument in WEIGHTS & entry.args.keys()
    }
    sample = any(spec.sample for spec in study.data)
    with console.status("preparing …") as status:

        def progress(line: str) -> None:
            status.update(line)
            if not console.is_terminal:
                console.print(line, markup=False, soft_wrap=True)

        results = prepare(
            study.datasets().values(), progress, sample=sample, weights=sorted(weights)
        )
    failed = sum(result.state == "failed" for result in results)
    if output is Format.JSON:
        echo_json(asdict(result) for result in results)
        return NOT_READY if failed else 0
    for result in results:
        colour = "red" if result.state == "failed" else "green"
        counts = ", ".join(f"{count:,} {split}" for split, count in result.splits.items())
        size = f"{result.bytes / 1e6:,.1f} MB" if result.bytes else ""
        parts = [part for part in (result.detail, counts, size, result.fingerprint[:12]) if part]
        console.print(
            f"[{colour}]{result.state}[/]  {result.name}: {'; '.join(parts)}", soft_wrap=True
        )
    if not failed:
        console.print(f"\n{study.name} ({study.scale}) can run without a network")
    return NOT_READY if failed else 0
