"""What the tiers beside a verdict say of a pair, in a few words."""

from lightning_bench.reports.report import Comparison


def also(pair: Comparison) -> str:
    """Such as `equal within 0.5`; empty where there is nothing to add to the verdict."""
    said = []
    if pair.on_new_examples:
        said.append("on new examples, too")
    if pair.equal:
        said.append(f"equal within {pair.margin:g}")
    if pair.by_welch not in {None, "undecided"}:
        said.append(f"by Welch's t {pair.by_welch}, no claim")
    return ", ".join(said)


ALSO = (
    "Also: tiers beside the verdict, each a family of its own. On new examples, too: the claim"
    " holds with the test examples' variance added to that of the seeds (normal p, corrected by"
    " Holm). Equal within: two one-sided sign-flip tests show a difference smaller than the page's"
    " margin, in the printed unit. By Welch's t: of 3 to 5 seeds, corrected by Holm; it rests on"
    " near-normal noise that so few seeds can't show, and is no claim."
)
