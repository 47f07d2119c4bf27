"""A page's figures: every mistake is one line with its place, before anything runs."""

from pathlib import Path

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study.load import load

PAGE = """title: t
question: q
data: [{{name: digits, shifts: 2}}]
probes: [receptive-field]
averages: {{Both: [digits]}}
seeds: 2
entries:
  A: {{model: mlp}}
  B: {{model: lenet}}
figures:
  - {figure}
scales: {{smoke: {{}}}}
"""


def page(folder: Path, figure: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(PAGE.format(figure=figure))
    return str(path)


@pytest.mark.parametrize(
    "figure",
    [
        "{kind: lines, x: shift, y: accuracy_shift*}",
        "{kind: lines, x: args.width, y: accuracy, by: recipe.lr, log: [x, y], fit: true}",
        "{kind: points, x: field_effective, y: primary}",
        "{kind: lines, x: epoch, y: [accuracy, train_loss, whatever]}",
        "{kind: bars, y: [average/Both, accuracy]}",
        "{kind: map, x: recipe.lr, y: args.width, colour: accuracy, log: [x]}",
        "{kind: functions, show: [relu, gelu]}",
        "{kind: functions}",
        "{kind: positions, length: 32}",
        "{kind: heatmaps, probe: receptive-field, entries: [B], data: [digits]}",
    ],
)
def test_a_page_may_ask_for_it(tmp_path, figure) -> None:
    assert len(load(page(tmp_path, figure)).figures) == 1


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("{kind: line, x: depth, y: accuracy}", "kind can't be 'line'"),
        ("{kind: lines, x: depth}", "a figure of kind lines needs 'y'"),
        ("{kind: bars, y: accuracy, x: depth}", "a figure of kind bars has no 'x'"),
        ("{kind: lines, x: dept, y: accuracy}", "dept is no metric here, nor a fact of an entry"),
        (
            "{kind: lines, x: args.widht, y: accuracy}",
            "there is no args.widht; did you mean 'width'?",
        ),
        ("{kind: lines, x: recipe.rl, y: accuracy}", "there is no recipe.rl"),
        ("{kind: lines, x: depth, y: acuracy}", "acuracy is no metric here"),
        ("{kind: lines, x: n, y: loss*}", "no metric is called loss and a number"),
        ("{kind: lines, x: depth, y: average/Boht}", "there is no average 'Boht'"),
        ("{kind: lines, x: depth, y: [accuracy, loss]}", "several y are of bars"),
        ("{kind: lines, x: depth, y: accuracy, fit: true}", "a power law is a line where both"),
        ("{kind: points, x: depth, y: accuracy, by: groups}", "groups is none of group, entry"),
        ("{kind: points, x: depth, y: accuracy, entries: [C]}", "no entry is called 'C'"),
        ("{kind: points, x: depth, y: accuracy, data: [mnist]}", "mnist is not in the study"),
        ("{kind: functions, show: [rely]}", "there is no activation function 'rely'"),
        ("{kind: heatmaps, probe: toeplitz}", "toeplitz is no probe of the page"),
        ("{kind: heatmaps}", "a figure of kind heatmaps needs 'probe'"),
    ],
)
def test_a_mistake_has_one_line_and_its_place(tmp_path, figure, message) -> None:
    with pytest.raises(UserError) as error:
        load(page(tmp_path, figure))
    told = str(error.value)
    assert "mine.yaml:11: " in told
    assert message in told.replace("figures.0.", "")
    assert "\n" not in told
