"""The HTML report in a real Chromium: it sorts, filters, leads to its runs, and reads well."""

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.render import html
from lightning_bench.reports.render.write import write
from lightning_bench.reports.report import Attempt

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (Debian: chromium)"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium; playwright downloads none."""
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(make, tmp_path_factory) -> str:
    """The page of the study with all that can go wrong."""
    request, runs = make.rough()
    labels = {
        "digits": [make.hostile, *"123456789"],
        "cifar-100": [f"class {k}" for k in range(30)],
    }
    request = request.model_copy(update={"classes": labels})
    predictions, bins = {}, {}
    for run in runs:
        if run.dataset in labels and run.state == "done":
            rng, classes = np.random.default_rng(run.seed), len(labels[run.dataset])
            target = np.arange(300) % classes
            right = rng.random(300) < 0.7
            predicted = np.where(right, target, rng.integers(classes, size=300))
            index = np.arange(300)
            predictions[run.key] = {"index": index, "target": target, "predicted": predicted}
            bins[run.key] = np.stack([np.full(15, 20), np.arange(15), np.arange(15)], axis=1)
    folder = tmp_path_factory.mktemp("report")
    report = build(request, runs, predictions, reliability=bins)
    write(report, runs, folder, formats=["html"])
    return (folder / "report.html").as_uri()


@pytest.fixture
def visit(browser, address) -> Iterator[Any]:
    """Open the page so and so wide, light or dark; any error, dialog or request is a failure."""
    contexts, trouble = [], []

    def opened(width: int = 1200, scheme: str = "light", place: str = "", url: str = address):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: r.url.startswith("file:") or trouble.append(r.url))
        page.goto(url + place)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


def first_run(page: Any) -> Any:
    return page.locator("#runs tbody a").first


def test_columns_sort_within_groups(visit) -> None:
    page = visit()
    table = page.locator("table").first
    head = table.locator("thead th").nth(1)

    def names() -> list[str]:
        found = table.locator("tbody tr:not(.group) th").all_text_contents()
        return [name[:4] for name in found]

    before = names()
    assert before == ["<scr", "=cmd", "ResN", "NFNe", "ViT-"]
    head.locator("button").click()
    assert (names(), head.get_attribute("aria-sort")) == (before, "ascending")
    head.locator("button").press("Enter")
    assert names() == ["=cmd", "<scr", "NFNe", "ResN", "ViT-"]
    assert head.get_attribute("aria-sort") == "descending"


def test_the_filter_shows_the_runs_with_all_its_words(visit) -> None:
    page = visit()
    page.locator("#filter").fill("ResNet failed")
    assert page.locator("#runs tbody tr:visible").count() == 11


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_errors_and_reliability_read_well(visit, width: int, scheme: str) -> None:
    page = visit(width, scheme)
    page.evaluate("document.querySelectorAll('#report details').forEach((x) => { x.open = true; })")
    assert page.get_by_text("Confusion matrix:").count() == 5
    assert page.get_by_text("Most confused:").count() == 4
    assert page.get_by_role("region", name="Overlap of errors, digits").count() == 1
    assert page.get_by_role("img", name="One panel for each entry: share of right").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    ground = "x => getComputedStyle(x).backgroundColor"
    likely = page.locator(".matrix td[style]").first.evaluate(ground)
    never = page.locator(".matrix td:not([style])").first.evaluate(ground)
    assert likely != never
    found = axe.Axe().run(page).response["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_page_or_blank(visit, width: int) -> None:
    page = visit(width)

    def beyond() -> int:
        return page.evaluate("document.documentElement.scrollWidth - innerWidth")

    assert beyond() <= 0
    assert (
        page.evaluate(
            """[...document.querySelectorAll("#report > *, figure, .scroll, p, h1")]
           .filter((x) => x.getBoundingClientRect().right > innerWidth + 1).length"""
        )
        == 0
    )
    heights = "x => x.map((y) => y.getBoundingClientRect().height)"
    assert min(page.locator("figure svg").evaluate_all(heights)) > 100
    first_run(page).click()
    playwright.expect(page.locator("#page h1")).to_be_visible()
    assert beyond() <= 0
    assert min(page.locator("#page figure svg").evaluate_all(heights)) > 100


def test_a_cell_leads_to_its_runs_and_on_to_a_page_and_back(visit, make) -> None:
    page = visit()
    row = page.locator("table").first.locator("tr", has_text="ResNet-152")
    row.locator("td a").first.click()
    target = page.locator("#runs tbody:target")
    assert set(target.locator("th").all_text_contents()) == {"ResNet-152"}
    target.locator("tr", has_text="failed").locator("a").click()
    article = page.locator("#page")
    head = playwright.expect(article.locator("h1"))
    head.to_have_text("ResNet-152 · digits · seed 3")
    assert page.title().startswith("ResNet-152, digits, seed 3")
    assert "divergence: loss is NaN at step 40" in article.text_content()
    assert "runs/x/log_1.txt" in article.text_content()
    assert not page.locator("#report").is_visible()
    article.get_by_role("link", name="seed 4").click()
    head.to_have_text("ResNet-152 · digits · seed 4")
    for part in ("Learning curves", "Recipe", "Provenance", "optimizer", "adamw"):
        assert part in article.text_content()
    article.get_by_role("link", name="report").click()
    playwright.expect(target.locator("th").first).to_be_in_viewport()
    page.go_back()
    head.to_have_text("ResNet-152 · digits · seed 4")


def test_a_link_to_a_run_opens_on_its_page(visit) -> None:
    key = first_run(visit()).text_content()
    page = visit(place=f"#run-{key}")
    assert key in page.locator("#page").text_content()
    assert not page.locator("#report").is_visible()
    page = visit(place="#run-none")
    assert page.locator("#report").is_visible()


def test_a_model_named_script_is_text(visit, make) -> None:
    page = visit()
    row = page.locator("table").first.locator("tr", has_text="<script>alert")
    assert row.locator("th").first.text_content() == make.hostile
    page.locator("#runs tr", has_text="<script>alert").locator("a").first.click()
    playwright.expect(page.locator("#page h1")).to_contain_text(make.hostile)


def test_dark_is_dark(visit) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    assert visit().evaluate(ground) == "rgb(255, 255, 255)"
    assert visit(scheme="dark").evaluate(ground) == "rgb(13, 17, 23)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, scheme: str) -> None:
    page = visit(scheme=scheme)

    def serious() -> list[str]:
        found = axe.Axe().run(page).response["violations"]
        return [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in found
                if v["impact"] in ("serious", "critical")]  # fmt: skip

    assert serious() == []
    first_run(page).click()
    page.locator("#page summary").click()
    assert serious() == []


def test_two_marks_of_one_cell_stand_side_by_side(visit, make, tmp_path) -> None:
    request, runs = make.study({"a": [0.9, 0.8]})
    interrupted = Attempt(number=1, end="interrupted", cause="ended", log="runs/x.1/log.txt")
    runs = [runs[0].model_copy(update={"earlier": [interrupted]}), *runs[1:]]
    write(build(request, runs), runs, tmp_path, formats=["html"])
    page = visit(url=(tmp_path / "report.html").as_uri())
    cells = page.evaluate(
        """() => [...document.querySelectorAll("td")]
          .map((cell) => [...cell.querySelectorAll("sup a")].map((a) => a.getBoundingClientRect()))
          .filter((marks) => marks.length > 1)
          .map((marks) => marks.map(({left, right, top}) => [left, right, top]))"""
    )
    assert len(cells) == 1
    for (_, end, top), (begin, _, other_top) in cells:
        assert end < begin
        assert top == other_top


def test_a_page_of_500_runs_opens_a_run_at_once(visit, make, tmp_path) -> None:
    request, runs = make.study(make.scores({f"entry {i}": 0.9 for i in range(50)}, 10))
    report = build(request, runs)
    drawings = {
        name[:-4]: b.decode()
        for name, b in drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"])
    }
    (tmp_path / "large.html").write_text(
        html.illustrate(html.render(report, runs), report, drawings), encoding="utf-8"
    )
    page = visit(url=(tmp_path / "large.html").as_uri())
    took_ms = page.evaluate(
        """async () => {
          const began = performance.now();
          document.querySelector("#runs a").click();
          await new Promise(requestAnimationFrame);
          return performance.now() - began;
        }"""
    )
    assert page.locator("#page h1").is_visible()
    assert took_ms < 1_000
