from __future__ import annotations

import json

from reprokit.errors import UsageError

OWN = """\
{#
does: prints [b]the machine[/b].
after: [git]
options:
  graphics: {type: boolean, default: false, does: also draws}
#}
{% block final %}
RUN true
{% endblock %}
"""


def test_bundled_and_own_blocks(call, tmp_path, monkeypatch):
    (tmp_path / "recipes" / "blocks").mkdir(parents=True)
    (tmp_path / "recipes" / "blocks" / "hwloc.j2").write_text(OWN)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tool.j2").write_text(OWN)
    (tmp_path / "more" / "hwloc.j2").write_text("not read: the one beside the recipes comes first")
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "more"))
    rows = {row["name"]: row for row in json.loads(call("blocks", "--json").stdout)}
    assert rows["make"]["file"] == "" and rows["make"]["options"]["products"]["required"]
    assert rows["hwloc"]["file"] == str(tmp_path / "recipes" / "blocks" / "hwloc.j2")
    assert rows["tool"]["after"] == ["git"]
    line = next(line for line in call("blocks").output.splitlines() if line.startswith("hwloc"))
    assert "[b]the machine[/b]" in line and "git" in line


def test_one_block(call):
    text = call("blocks", "run").output
    assert "run (bundled)" in text and "| `commands` | list | required |" in text
    assert "It can be used several times." in text


def test_what_is_no_block(call, monkeypatch, tmp_path):
    assert "did you mean cmake" in call("blocks", "cmaek").exception.message
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "gone"))
    result = call("blocks")
    assert isinstance(result.exception, UsageError) and "REPROKIT_BLOCKS names no folder" in result.exception.message
