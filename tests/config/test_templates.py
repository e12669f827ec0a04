"""Templates of mirrors: what is refused when they are read, and what becomes of them."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.config import templates
from reprokit.config.templates import PLACEHOLDERS, check, fill, git_fields


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("apt", "http://m.test/{archve}/{path}", "{archve} is not a placeholder of apt; did you mean archive?"),
        ("git", "http://m.test/{suite}/{repo}.git", "{suite} is not a placeholder of git"),
        ("git", "http://m.test/mirror.git", "names one place for all git"),
        ("files", "ftp://m.test/{path}", "is not an address"),
        ("wheels", "/srv/wheels", "is not an address; write https://..., http://... or file:///..."),
        ("conda", "https://m.test/conda", "must hold {channel}"),
        ("files", "https://m.test/{path", "a brace without its other half"),
        ("files", "https://m.test/a b/{path}", "characters that an address cannot have; write a space as %20"),
    ],
)
def test_what_is_refused(kind: str, text: str, words: str):
    with pytest.raises(ValueError) as error:
        check(kind, text)
    assert words in str(error.value)


SAFE = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="%?#;{}\\"), min_size=1)


@given(st.sampled_from(sorted(PLACEHOLDERS)), SAFE)
def test_a_value_comes_back_out_of_the_address_as_it_was(kind: str, value: str):
    names = PLACEHOLDERS[kind]
    template = "https://m.test/" + "/-/".join(f"{{{name}}}" for name in names)
    assert check(kind, template) == template
    filled = fill(template, dict.fromkeys(names, value))
    if ".." in value.split("/"):
        assert filled is None
    else:
        assert filled is not None
        assert unquote(urlsplit(filled).path) == "/" + "/-/".join([value] * len(names))


@pytest.mark.parametrize(
    "path",
    ["../p", "a/../../p", "%2e%2e/p", "a/%2E./p", "%252e%252e/p", "..%2fp", "..%5cp", "..\\p", "..?p", "..;/p", "a/.."],
)
def test_no_value_leads_out_of_a_mirrors_folder(path: str):
    assert fill("https://m.test/cache/{path}", {"path": path}) is None


@pytest.mark.parametrize(
    ("template", "fields", "address"),
    [
        *(
            ("cache/{path}", {"path": p}, f"cache/{p}")
            for p in ("a..b/p", "...", "a%2Fb", "%2e/p", "100%", "p?from=a..b")
        ),
        ("{file}", {"file": "torch-1.12.1+cu113.whl"}, "torch-1.12.1%2Bcu113.whl"),  # object stores read + as a space
        ("{as_of}/{path}", {"as_of": "", "path": "a"}, None),
        ("{path}", {}, None),
    ],
)
def test_what_becomes_of_a_template(template: str, fields: dict[str, str], address: str | None):
    assert fill(f"https://m.test/{template}", fields) == (address and f"https://m.test/{address}")


@pytest.mark.parametrize(
    ("url", "owner", "repo", "path"),
    [
        ("https://forge.test/apache/tvm.git", "apache", "tvm", "apache/tvm"),
        ("https://forge.test:8443/group/sub/tool", "group/sub", "tool", "group/sub/tool"),
        ("https://forge.test/alone", "", "alone", "alone"),
    ],
)
def test_parts_of_a_repositorys_address(url: str, owner: str, repo: str, path: str):
    fields = git_fields(url)
    assert (fields["owner"], fields["repo"], fields["path"]) == (owner, repo, path)


def test_an_apt_mirror_of_one_archive():
    assert templates.split_archive("llvm=http://m.test/{path}") == ("llvm", "http://m.test/{path}")
    assert templates.split_archive("http://m.test/{path}?a=b") == ("", "http://m.test/{path}?a=b")
