"""Bad recipes: one clear line that names file, line, field and the right spelling. Good ones: `extends`."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.errors import UsageError
from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import load_file, load_text
from reprokit.recipe.start import starting_recipe

MATRIX = """variants: {v: {base: debian:12}}
benchmarks:
  b:
    command: x
    parse: {format: records}
    matrix: """
HUGE = ", ".join(f"a{n}: [{', '.join('x' * 20)}]" for n in range(40))
# What is wrong, the variants as YAML (line 3 onwards), the line that the error names, and what it says.
BAD = [
    ("malformed", "variants: {cpu: [}", 3, "not valid YAML"),
    ("a tab", "variants:\n\tcpu: {}", 4, "not valid YAML"),
    ("a duplicate key", "variants:\n  cpu: {base: debian:12}\n  cpu: {base: debian:11}", 5, "'cpu' is written twice"),
    ("an alias", "variants: {cpu: &v {base: debian:12}, gpu: *v}", 3, "the alias *v is not allowed"),
    ("a tag", "variants: !!python/object:os.system {}", 3, ""),
    ("a merge key", "variants: {cpu: {<<: {base: debian:12}}}", 3, ""),
    ("an unknown field", "variants:\n  cpu:\n    base: debian:12\n    wheel: []", 6, "did you mean wheels?"),
    ("an unknown top field", "variants: {cpu: {base: debian:12}}\nbenchmark: {}", 4, "did you mean benchmarks?"),
    ("a historic default", "variants: {a: {base: debian:12, historic: true}}", 1, "set `default` to another one"),
    ("a missing field", "variants:\n  cpu: {}", 4, "variants.cpu.base is missing"),
    ("a float", 'variants:\n  cpu:\n    base: debian:12\n    pins:\n      python: 3.10', 7, "reads as 3.1"),
    ("an integer", "variants:\n  cpu:\n    base: debian:12\n    pins: {gcc: 12}", 6, "written 12 without quotes"),
    ("a boolean", "variants: {v: {base: debian:12}}\nsmoke:\n  - command: true", 5, "must be text"),
    ("a misspelt pin", "variants:\n  cpu:\n    base: debian:12\n    pins:\n      gcc: '9'\n      pyton: '3'", 8, "pyt"),
    ("a shell in a pin", "variants:\n  cpu:\n    base: debian:12\n    pins: {gcc: '9; id'}", 6, "not allowed"),
    ("a template in a pin", "variants:\n  cpu:\n    base: debian:12\n    pins: {gcc: '{{ 1 }}'}", 6, "not allowed"),
    ("a substitution in a base", "variants:\n  cpu:\n    base: 'debian:$(id)'", 5, "not allowed here"),
    ("an address as base", "variants:\n  cpu:\n    base: https://x.y/z", 5, "begins with https://; write x.y/z"),
    ("an empty part in a base", "variants:\n  cpu:\n    base: x.y//z:1", 5, "is not the name of an image"),
    ("a break in env", 'variants:\n  cpu:\n    base: debian:12\n    env: {A: "b\\nRUN id"}', 6, "control characters"),
    ("a host path", "variants:\n  cpu:\n    base: debian:12\n    mounts: [{source: /etc, target: /x}]", 6, "inside"),
    ("a parent path", "variants:\n  cpu:\n    base: debian:12\n    mounts: [{source: ../x, target: /x}]", 6, "inside"),
    ("a direct wheel", "variants:\n  cpu:\n    base: debian:12\n    wheels: ['a @ file:///etc']", 6, "an address"),
    ("a huge matrix", MATRIX + f"{{{HUGE}}}", 5, "combinations, more than 1000"),
    ("an infinite parameter", MATRIX + "{A: [1, .inf]}", 8, "a finite number"),
    ("no number as parameter", MATRIX + "{A: [1, .nan]}", 8, "a finite number"),
    ("a long number", MATRIX + f"{{A: [1, {'1' * 39}]}}", 8, "more than 24 digits"),
    ("a loose sdist", "variants:\n  cpu:\n    base: debian:12\n    sdists: [{package: 'a>=1'}]", 6, "write a==VERSION"),
    ("a moving wheel", "variants:\n  cpu:\n    base: debian:12\n    wheels: ['a @ git+https://x.y/a']", 6, "@COMMIT"),
    ("a git path", "variants:\n  cpu:\n    base: debian:12\n    wheels: ['a @ git+file:///a@v1']", 6, "not an https"),
    ("a git option", "variants:\n  cpu:\n    base: debian:12\n    wheels: ['a @ git+https://x.y/a@-v']", 6, "no"),
    ("a file outside", "variants:\n  cpu:\n    base: debian:12\n    wheels: [{file: ../../etc/passwd}]", 6, "below"),
    ("extras of a list", "variants:\n  cpu:\n    base: debian:12\n    wheels: [{file: a.txt, extras: [x]}]", 6, "only"),
    ("an option in apt", "variants:\n  cpu:\n    base: debian:12\n    apt: ['-o=x']", 6, "not allowed here"),
    ("a number as option", "variants:\n  cpu:\n    base: debian:12\n    blocks: [{python: {a: 1}}]", 6, "in quotes"),
    ("a map as option", "variants:\n  cpu:\n    base: debian:12\n    blocks: [{python: {a: {b: c}}}]", 6, "list of"),
    ("a lost parent", "variants:\n  cpu: {base: debian:12}\n  gpu:\n    extends: cpuu", 6, "did you mean cpu?"),
    ("a circle", "variants:\n  a: {extends: b}\n  b: {extends: a}", 5, "leads back to itself"),
    ("itself", "variants:\n  a: {extends: a}", 4, "leads back to itself"),
    ("a wrong default", "default: cpuu\nvariants: {cpu: {base: debian:12}}", 3, "did you mean cpu?"),
    ("a lost variant", "variants: {cpu: {base: debian:12}}\nsmoke:\n  - command: id\n    variants: [cpux]", 6, "cpu?"),
    ("no regex", "variants: {cpu: {base: debian:12}}\nsmoke:\n  - {command: id, expect: '('}", 5, "regular expression"),
    ("no variants", "variants: {}", 3, "variants"),
    ("a list", "variants: [cpu]", 3, "variants"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "says"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_recipe_names_its_line(load, text, line, says):
    with pytest.raises(UsageError) as caught:
        load(text)
    assert caught.value.where == f"paper.yaml:{line}"
    assert says in caught.value.message
    assert "\n" not in caught.value.message.split("\n  also ")[0]


def test_a_git_address_is_https_and_a_commit_is_whole(load):
    source = "variants:\n  cpu:\n    base: debian:12\n    sources:\n      - {name: x, path: /x, git: %s, commit: %s}"
    for address in ("ext::sh -c id", "file:///etc", "git@-oX=id:a/b", "--upload-pack=id", "https://a/../b"):
        with pytest.raises(UsageError, match="https:// address"):
            load(source % (repr(address), "0" * 40))
    with pytest.raises(UsageError, match="not allowed here"):
        load(source % ("https://github.com/a/b", "v1.0"))
    recipe = load(source % ("https://github.com/a/b.git", repr("0" * 40)))
    assert recipe.variants["cpu"].sources[0].git == "https://github.com/a/b"


def test_errors_are_counted_and_placed(load):
    one = "{name: x, path: /x, git: https://github.com/a/b, commit: '" + "0" * 40 + "'}"
    with pytest.raises(UsageError, match="called 'x'") as caught:
        load(f"variants:\n  cpu:\n    base: debian:12\n    sources:\n      - {one}\n      - {one}")
    assert caught.value.where == "paper.yaml:8"
    with pytest.raises(UsageError) as caught:
        load("variants:\n  cpu:\n    base: debian:12\n    blocks: [{python: {a: 1.5}}]")
    assert "also" not in caught.value.message
    with pytest.raises(UsageError) as caught:
        load("variants:\n  cpu:\n    base: debian:12\n    wheel: []\n    ports: [0]")
    assert caught.value.message.count("also paper.yaml:") == 1
    with pytest.raises(UsageError, match=r"\n  also and 2 more$"):
        load("variants:\n  cpu:\n    base: debian:12\n" + "".join(f"    {name}: []\n" for name in "abcdefg"))
    # An inherited error is where the parent wrote it.
    with pytest.raises(UsageError) as caught:
        load("variants:\n  b: {extends: a}\n  a:\n    base: debian:12\n    pins: {gcc: 12}")
    assert caught.value.where == "paper.yaml:7"
    with pytest.raises(UsageError, match="is named 'paper'"):
        load("variants: {cpu: {base: debian:12}}", name="other")


@pytest.mark.parametrize("name", ["blocks", "paper.lock"])
def test_a_recipe_has_no_name_of_own_blocks_or_of_a_lock(name):
    text = starting_recipe("paper")
    assert load_text(text, "paper.yaml", "paper")
    text = text.replace("name: paper", f"name: {name}")
    with pytest.raises(UsageError, match="is a name of own blocks or of a lock"):
        load_text(text, f"{name}.yaml", name)
    with pytest.raises(UsageError, match="is not a valid name"):
        starting_recipe(name)


def test_extends_merges_mappings_and_replaces_lists(load):
    recipe = load(
        """variants:
  a:
    base: debian:12
    pins: {gcc: "12", python: "3.11"}
    apt: [make, cmake]
    env: {X: "1"}
    requires: {memory: 2GiB, disk: 1GB}
  b:
    extends: a
    pins: {gcc: "11", python: null}
    apt: [ninja-build]
  c:
    extends: b
    base: debian:11
    requires: {memory: 4GiB}
"""
    )
    b, c = recipe.variants["b"], recipe.variants["c"]
    assert b.pins == {"gcc": "11"} and b.apt == ["ninja-build"] and b.env == {"X": "1"} and b.base == "debian:12"
    assert c.pins == {"gcc": "11"} and c.base == "debian:11"
    assert (c.requires.memory, c.requires.disk) == (4 * 1024**3, 10**9)


CLAIMS = """\
variants: {cpu: {base: debian:12}}
benchmarks:
  b:
    command: x
    matrix: {n: [1]}
    parse: {values: [{pattern: '(?P<impl>\\S+) (?P<value>\\S+)', metric: b.time, unit: ms}]}
claims:
  - hardware: h
    where: w
    value: 1
    unit: ms
    metric: b.time
"""


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("metric: b.time\n", "metric: b.tim\n", "a metric of its benchmarks; did you mean b.time?"),
        ("metric: b.time\n", "metric: b.time\n    params: {N: 1}\n", "a parameter of b.time; did you mean n?"),
        ("metric: b.time\n", "metric: b.time\n    benchmark: bb\n", "a benchmark; did you mean b?"),
        ("metric: b.time\n", "metric: b.time\n    baseline: {variant: cpuu}\n", "a variant; did you mean cpu?"),
        ("metric: b.time\n", "metric: b.time\n    baseline: {params: {imp: x}}\n", "did you mean impl?"),
        ("metric: b.time\n", "metric: b.time\n    baseline: {metric: b.tme}\n", "did you mean b.time?"),
    ],
)
def test_a_claim_is_about_what_the_recipe_measures(load, before, after, says):
    head, _, tail = CLAIMS.rpartition(before)
    with pytest.raises(UsageError) as caught:
        load(f"{head}{after}{tail}")
    assert says in caught.value.message and caught.value.where.startswith("paper.yaml:1")
    for right in ("b.time\n    params: {n: 1, impl: x}", "speed-up of the whole model"):
        assert load(f"{head}metric: {right}\n").claims


def test_bombs_are_refused_in_no_time(tmp_path):
    big = tmp_path / "paper.yaml"
    big.write_bytes(b"a: " + b"x" * (2 << 20))
    with pytest.raises(UsageError, match="more than 1048576 bytes"):
        load_file(big)
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    with pytest.raises(UsageError, match="alias"):
        load_text(laughs, "paper.yaml", "paper")
    for deep in ("[" * 100_000, "{a: " * 100_000, "- " * 100_000):
        with pytest.raises(UsageError, match=r"nested|not valid"):
            load_text(deep, "paper.yaml", "paper")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"name: \x00", b"", b"just text", b"- a\n- b\n", b"a: 1" + b"0" * 5000])
def test_what_is_no_recipe_at_all(tmp_path, raw):
    file = tmp_path / "paper.yaml"
    file.write_bytes(raw)
    with pytest.raises(UsageError) as caught:
        load_file(file)
    assert str(file) in caught.value.where
    with pytest.raises(UsageError, match=r"cannot read the recipe: Is a directory$"):
        load_file(tmp_path)


SHIPPED = recipe_files()["fused-attention"].read_text()
YAML = st.text() | st.text(alphabet=st.sampled_from("ab: -[]{}&*!|>'\"#%@`,?\n\t0.~<="))
PIECES = st.tuples(st.integers(0, len(SHIPPED)), st.integers(0, 30), st.text(max_size=8))


@settings(max_examples=80)
@given(YAML | PIECES.map(lambda piece: SHIPPED[: piece[0]] + piece[2] + SHIPPED[piece[0] + piece[1] :]))
def test_any_text_is_a_recipe_or_an_error_that_names_the_file(text):
    try:
        load_text(text, "paper.yaml", "fused-attention")
    except UsageError as error:
        assert error.where.startswith("paper.yaml") and error.message
