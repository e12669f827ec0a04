"""Rules of users: taken from a folder of their own, and refused with the line that is wrong."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.explain.judge import explain
from reprokit.explain.load import bundled, compile_rules, user_folder, user_rules

GOOD = """\
- id: site-licence
  patterns: ['licence server (?P<host>\\S+) does not answer']
  cause: "the licence server {host} is down"
  remedy: "ask the site"
  seen: "our site"
  example: "licence server l1 does not answer"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "site.yaml").write_text(text)
    return folder


@pytest.mark.slow
def test_a_users_rule_is_used(tmp_path: Path):
    rules, signs = bundled()
    matcher = compile_rules([*rules, *user_rules(written(tmp_path, GOOD))], signs)
    (cause,) = explain(io.BytesIO(b"licence server l1 does not answer\n"), rules=matcher).causes
    assert (cause.rule, cause.cause) == ("site-licence", "the licence server l1 is down")


@pytest.mark.slow
def test_a_users_rule_replaces_one_of_the_same_id(tmp_path: Path):
    rules, signs = bundled()
    own = user_rules(written(tmp_path, GOOD.replace("site-licence", "disk-full")))
    matcher = compile_rules([*rules, *own], signs)
    assert matcher.rules["disk-full"].remedy == "ask the site"


def test_the_folder_stands_beside_the_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    assert user_folder() == tmp_path / "rules"
    assert user_rules(user_folder()) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("licence server (?P<host>", "licence server (?P<host>(", r"rule site-licence: patterns: missing"),
        (r"'licence server (?P<host>\S+) does not answer'", r"'\d+'", "no fixed text of 3 characters"),
        ("{host}", "{machine}", r"\{machine\} is captured by no pattern"),
        ("  seen:", "  seem:", "rule site-licence: seen: Field required|seem"),
        ("site-licence", "Site Licence", "rule Site Licence: id"),
        ("- id", "id", "rules are a YAML list|not valid YAML"),
        ("  cause", " cause", "not valid YAML"),
        ("  cause: ", "  cause: *x ", "alias|not valid YAML"),
    ],
)
def test_a_wrong_rule_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str):
    assert old in GOOD
    with pytest.raises(UsageError, match=message) as error:
        user_rules(written(tmp_path, GOOD.replace(old, new)))
    assert str(tmp_path / "site.yaml") in error.value.where


def test_the_line_of_a_wrong_field_is_named(tmp_path: Path):
    with pytest.raises(UsageError) as error:
        user_rules(written(tmp_path, GOOD + GOOD.replace("id: site-licence", "id: b\n  kind: certain")))
    assert error.value.where.endswith("site.yaml:8")


def test_ids_are_unique_and_sources_given():
    rules = bundled()[0]
    assert len({rule.id for rule in rules}) == len(rules) >= 150
    assert all(rule.seen.startswith(("https://", "pitfalls: ", "provoked: ", "message of ")) for rule in rules)


def test_every_change_fits_the_recipes_schema():
    from reprokit.recipe.model import Variant

    for rule in bundled()[0]:
        for change in rule.change:
            assert change.path.startswith("/variants/*/")
            assert change.path.split("/")[3] in Variant.model_fields, rule.id
