"""What the commands of a script set."""

from __future__ import annotations


def test_only_an_export_sets_a_variable_of_the_environment(stated):
    readme = "```\n@article{x,\n  year={2020}\n}\n```\n```\nrate=1e-3\nexport MODE=fast\n```\n"
    assert [s.value for s in stated({"README.md": readme}) if s.subject == "env"] == ["MODE=fast"]
