"""LaTeX: every character is text, and a real TeX makes the page, alone and inside a paper."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bench.reports.build import build
from lightning_bench.reports.render import latex
from lightning_bench.reports.render.write import write

SPECIAL = "_ % & # ± ↑ ~ ^ \\ { } $ < > | \" ' ` -- --- é ß ł λ μ 日 😀 − – — … ≤ ≥ × · ² √ °"


@given(st.text())
def test_escaped_text_holds_no_active_character(text):
    escaped = latex.escape(text)
    # Take out what is known to be harmless; nothing that TeX would act upon may be left.
    rest = re.sub(r"\\[_%&#${}]|\\[A-Za-z]+\{\}", "", escaped)
    rest = re.sub(r"\\ensuremath\{(-|\\[a-z]+|\\[A-Z][a-z]+)\}", "", rest)
    rest = re.sub(r"\\texttt\{U\+[0-9A-F]{4,6}\}|\\textsuperscript\{[23]\}|-\{\}", "", rest)
    rest = re.sub(r"^\{\}(?=[\[*])", "", rest)
    assert escaped[:1] not in {"[", "*"}
    assert not set(rest.replace("~", "")) & set("\\{}$&#%_^\"'`<>|")
    assert "--" not in escaped
    assert "\n" not in escaped


def test_plain_words_stay_as_they_are():
    plain = "ResNet-152, 88.5 (MLP/Mixer) [a] é"
    assert latex.escape(plain) == plain


def test_cells_are_numbers_for_siunitx(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95}, 9))
    runs[0] = runs[0].model_copy(update={"state": "failed", "record": None})
    report = build(request, runs)
    text = latex.render(report, runs)
    assert re.search(r"^a & \d\d\.\d\d \+- \d\.\d\d\\textsuperscript\{a,?b?\} & 61\.7", text, re.M)
    ranked = latex.render(build(*make.study(make.scores({"a": 0.8, "b": 0.95}, 9))), [])
    assert re.search(r"^b & \\bfseries \d\d\.\d\d \+- \d\.\d\d & 61\.7 \\\\$", ranked, re.M)


def pdftext(folder, name):
    if not shutil.which("pdflatex"):
        pytest.skip("pdflatex is not installed (Debian: texlive-latex-recommended, -science)")
    for _ in range(2):
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", name],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout.split("Runs")[0]
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext is not installed (Debian: poppler-utils)")
    made = name.replace(".tex", ".pdf")
    return subprocess.run(
        ["pdftotext", "-layout", made, "-"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_tex_makes_the_page(make, rough, tmp_path):
    request, runs = rough
    report = build(make.change(request, question=SPECIAL), runs)
    write(report, runs, tmp_path)
    text = pdftext(tmp_path, "report.tex")
    flat = " ".join(text.split())
    for part in ("_ % & # ± ↑ ~ ^ \\ { } $ < > |", "-- ---", "é ß ł λ", "U+65E5", "U+1F600"):
        assert part in flat
    assert "diverged" in text
    assert "A study of R&D_1: 100% {honest}" in text
    assert "ResNet-152" in text
    assert all(run.key in text for run in runs)


@pytest.mark.slow
def test_tex_takes_the_tables_into_a_paper(make, tmp_path):
    request, runs = make.study(make.scores({"a_1": 0.8, "b": 0.95}, 9))
    report = build(request, runs)
    write(report, runs, tmp_path / "run", formats=["tex"])
    paper = r"""
      \documentclass{article}
      \usepackage{booktabs,siunitx,graphicx}
      \begin{document}
      Before. \input{run/report} After, see Table~\ref{tab:quickstart-results}.
      \end{document}
    """
    (tmp_path / "paper.tex").write_text(paper)
    text = pdftext(tmp_path, "paper.tex")
    assert re.search(r"a.?1 +79\.\d\d ± \d\.\d\d +61\.7", text)
    assert re.search(r"95\.\d\d", text)
    assert "After, see Table 1." in " ".join(text.split())
    assert "Where the numbers come from" not in text


def test_a_label_is_no_argument_of_the_line_s_end_before_it() -> None:
    assert latex.escape("[ours]") == "{}[ours]"
    assert latex.escape("* is all") == "{}* is all"
    assert latex.escape("ours [1]") == "ours [1]"
