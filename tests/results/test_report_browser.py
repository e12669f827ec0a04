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

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_without_errors_and_requests_and_passes_axe(browser, page_file, scheme):
    from axe_playwright_python.sync_playwright import Axe

    # axe is injected as a script, which the page's own policy forbids.
    page = browser.new_context(bypass_csp=True, color_scheme=scheme).new_page()
    errors, asked = [], []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    for folded in page.locator("details").all():
        folded.evaluate("element => element.open = true")
    assert page.title() == "Reproduction of fused-attention"
    assert page.locator("figure svg").count() >= 1
    assert errors == [] and [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len(asked) == 1
    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found] == []


def test_it_is_readable_on_a_phone_without_javascript(browser, page_file):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("table").first.is_visible()
    assert page.locator("details[open] table tbody tr").count() >= 6
    with_script = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    with_script.goto(page_file.as_uri())
    assert with_script.evaluate("document.documentElement.scrollWidth") <= 390
    captions = [box for caption in page.locator("caption").all() if (box := caption.bounding_box())]
    assert captions and max(box["x"] + box["width"] for box in captions) <= 390


def test_a_phone_shows_each_verdict_without_scrolling(browser, tmp_path):
    recipes = [load_recipe(name) for name in recipe_names()]
    parts = [recipe_report(each, [], judge(each, [], bundled()), []) for each in recipes if each.claims]
    file = tmp_path / "index.html"
    file.write_text(as_html(report(parts)))
    page = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844}).new_page()
    page.goto(file.as_uri())
    cells = page.locator("td.not-measured").all()
    ends = [box["x"] + box["width"] for cell in cells if (box := cell.bounding_box())]
    assert len(ends) == len(cells) == sum(len(each.claims.rows) for each in parts) and max(ends) <= 390


def test_its_policy_stops_scripts_that_escaping_would_miss(browser, page_file, tmp_path):
    content = page_file.read_text()
    for policy, title in ((True, "Reproduction of fused-attention"), (False, "taken")):
        planted = content.replace("</main>", f"{EVIL}</main>")
        planted = planted if policy else planted.replace("Content-Security-Policy", "X-Nothing")
        (tmp_path / "planted.html").write_text(planted)
        page = browser.new_page()
        page.goto((tmp_path / "planted.html").as_uri())
        assert page.title() == title


def middle(part) -> tuple[float, float]:
    box = part.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_point_shows_its_values_and_a_line_can_be_left_out_without_scripts(browser, page_file):
    page = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844}).new_page()
    page.goto(page_file.as_uri())
    figure = page.locator("figure", has=page.get_by_role("checkbox")).first
    under, over = (figure.locator(f".values .l{line}").first for line in (0, 1))  # both have the same values
    value, case = over.locator("text").all()
    assert not value.is_visible()
    over.locator("circle").hover()
    assert value.is_visible() and "ms (" in value.text_content() and case.text_content().endswith("n 0")
    # The spot is on the mark of its point, and the texts are in the plot.
    marks = [middle(mark) for mark in figure.locator(".l1 use").all()]  # also those of the quartiles
    assert any(mark == pytest.approx(middle(over.locator("circle")), abs=0.5) for mark in marks)
    around = figure.bounding_box()
    for text in (value, case):
        box = text.bounding_box()
        assert around["x"] <= box["x"] and box["x"] + box["width"] <= around["x"] + around["width"]
    name = figure.locator("label").nth(1).text_content().strip()
    assert name in case.text_content()
    hidden = "found => found.map(each => getComputedStyle(each).display == 'none')"
    figure.get_by_role("checkbox").nth(1).uncheck()
    assert all(figure.locator(".l1").evaluate_all(hidden)) and not any(figure.locator(".l0").evaluate_all(hidden))
    under.locator("circle").hover()
    assert under.locator("text").first.is_visible()
    figure.get_by_role("checkbox").nth(1).check()
    assert not any(figure.locator(".l1").evaluate_all(hidden))


def test_a_wide_screen_uses_its_width_and_paper_has_figures_at_their_size(browser, page_file):
    page = browser.new_context(viewport={"width": 1600, "height": 1200}).new_page()
    page.goto(page_file.as_uri())
    first, second = (page.locator(".plots figure").nth(n).bounding_box() for n in (0, 1))
    assert first["y"] == second["y"] and first["x"] < second["x"]
    contents = page.get_by_role("navigation").bounding_box()
    assert contents["x"] + contents["width"] <= first["x"]
    page.get_by_role("link", name="Artifact evaluation").click()
    assert page.url.endswith("#recipe-1-6")
    page.set_viewport_size({"width": 680, "height": 1000})
    page.emulate_media(media="print")
    figure = page.locator(".plots svg").first
    assert figure.bounding_box()["width"] == pytest.approx(4.8 * 96, abs=1)
    assert not page.get_by_role("navigation").is_visible()
