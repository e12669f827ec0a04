"""The report in a real browser: it renders, asks for nothing, needs no JavaScript, and is readable for everybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.compat.facts import bundled
from reprokit.recipe.find import load_recipe, recipe_names
from reprokit.results.claims import judge
from reprokit.results.likeness import groups
from reprokit.results.report import VariantFacts, as_html, recipe_report, report
from tests.support.records import RECORD

EVIL = "<script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    records = [
        replace(RECORD, metric=metric, params={"n": n, "impl": impl, EVIL: "x"}, samples=(n + 1.0, n + 1.2))
        for metric in ("fused_attention.forward", EVIL)
        for n in range(6)
        for impl in ("ours", "torch")
    ]
    recipe = load_recipe("fused-attention")
    judged = judge(recipe, groups(records), bundled())
    content = as_html(report([recipe_report(recipe, records, judged, [VariantFacts("cpu", None, ())])]))
    file = tmp_path_factory.mktemp("report") / "index.html"
    file.write_text(content)
    return file


@pytest.fixture
def opened(browser, page_file):
    """`opened(options of the context)`: the report."""

    def run(width: int = 390, file: Path = page_file, **options):
        page = browser.new_context(viewport={"width": width, "height": 844}, **options).new_page()
        page.goto(file.as_uri())
        return page

    return run


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_without_errors_and_requests_and_passes_axe(browser, page_file, scheme):
    from axe_playwright_python.sync_playwright import Axe

    # axe is injected as a script, which the page's own policy forbids.
    page = browser.new_context(bypass_csp=True, color_scheme=scheme).new_page()
    errors, requests = [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    for folded in page.locator("details").all():
        folded.evaluate("element => element.open = true")
    assert page.title() == "Reproduction of fused-attention"
    assert page.locator("figure svg").count() >= 1
    assert errors == [] and requests == [page_file.as_uri()]
    violations = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in violations] == []


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_it_is_readable_on_a_phone_without_javascript(opened, tmp_path):
    page = opened(java_script_enabled=False)
    assert page.locator("table").first.is_visible()
    assert page.locator("details[open] table tbody tr").count() >= 6
    assert opened().evaluate("document.documentElement.scrollWidth") <= 390
    assert 0 < max(ends(page.locator("caption"))) <= 390
    # Each verdict of the bundled recipes is visible without scrolling.
    recipes = [load_recipe(name) for name in recipe_names()]
    parts = [recipe_report(each, [], judge(each, [], bundled()), []) for each in recipes if each.claims]
    (tmp_path / "index.html").write_text(as_html(report(parts)))
    cells = ends(opened(file=tmp_path / "index.html", java_script_enabled=False).locator("td.not-measured"))
    assert len(cells) == sum(len(each.claims.rows) for each in parts) and max(cells) <= 390


def ends(locator) -> list[float]:
    """Where each element ends on the right, if it is shown."""
    return [box["x"] + box["width"] for each in locator.all() if (box := each.bounding_box())]


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_its_policy_stops_scripts_that_escaping_would_miss(opened, page_file, tmp_path):
    planted = page_file.read_text().replace("</main>", f"{EVIL}</main>")
    for text, title in (
        (planted, "Reproduction of fused-attention"),
        (planted.replace("Content-Security-Policy", "X-Nothing"), "taken"),  # the control
    ):
        (tmp_path / "planted.html").write_text(text)
        assert opened(file=tmp_path / "planted.html").title() == title


def middle(part) -> tuple[float, float]:
    box = part.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_a_point_shows_its_values_and_a_line_can_be_hidden_without_scripts(opened):
    page = opened(java_script_enabled=False)
    figure = page.locator("figure", has=page.get_by_role("checkbox")).first
    under, over = (figure.locator(f".values .l{line}").first for line in (0, 1))  # both have the same values
    value, case = over.locator("text").all()
    assert not value.is_visible()
    over.locator("circle").hover()
    assert value.is_visible() and "ms (" in value.text_content() and case.text_content().endswith("n 0")
    # The spot is on the mark of its point, and the texts are in the plot.
    marks_of_line = [middle(mark) for mark in figure.locator(".l1 use").all()]  # also those of the quartiles
    assert any(mark == pytest.approx(middle(over.locator("circle")), abs=0.5) for mark in marks_of_line)
    around = figure.bounding_box()
    for text in (value, case):
        box = text.bounding_box()
        assert around["x"] <= box["x"] and box["x"] + box["width"] <= around["x"] + around["width"]
    assert figure.locator("label").nth(1).text_content().strip() in case.text_content()
    hidden = "elements => elements.map(each => getComputedStyle(each).display == 'none')"
    figure.get_by_role("checkbox").nth(1).uncheck()
    assert all(figure.locator(".l1").evaluate_all(hidden)) and not any(figure.locator(".l0").evaluate_all(hidden))
    under.locator("circle").hover()
    assert under.locator("text").first.is_visible()
    figure.get_by_role("checkbox").nth(1).check()
    assert not any(figure.locator(".l1").evaluate_all(hidden))


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_a_wide_screen_uses_its_width_and_paper_has_figures_at_their_size(opened):
    page = opened(1600)
    first, second = (page.locator(".plots figure").nth(n).bounding_box() for n in (0, 1))
    assert first["y"] == second["y"] and first["x"] < second["x"]
    contents = page.get_by_role("navigation").bounding_box()
    assert contents["x"] + contents["width"] <= first["x"]
    page.get_by_role("link", name="Artifact evaluation").click()
    assert page.url.endswith("#recipe-1-6")
    page.set_viewport_size({"width": 680, "height": 1000})
    page.emulate_media(media="print")
    assert page.locator(".plots svg").first.bounding_box()["width"] == pytest.approx(4.8 * 96, abs=1)
    assert not page.get_by_role("navigation").is_visible()
