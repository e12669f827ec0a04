"""The types of a recipe's values. Each refuses values that are not safe for their use."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BeforeValidator, PlainValidator, StringConstraints, WithJsonSchema

from reprokit.formatting import parse_size
from reprokit.recipe.pin_names import PIN_NAMES
from reprokit.recipe.spelling import nearest
from reprokit.untrusted import patterns

_Scalar = str | int | float | bool
MOST_DIGITS = 24  # of an integer in a record

_NAME = r"[a-z0-9]+([._-][a-z0-9]+)*"
# The name of an image without its digest, as Docker reads it (github.com/distribution/reference).
_PART = "[a-z0-9]+((\\.|__?|-+)[a-z0-9]+)*"
_IMAGE = re.compile(rf"([a-z0-9.-]+(:[0-9]{{1,5}})?/)?{_PART}(/{_PART})*(:[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?")
# Public data archives, each with a module in `reprokit.supply.kinds`, and the pattern of their records.
DATA_SOURCES = {"zenodo": r"[0-9]{1,12}"}


# The parser recurses for each parenthesis of a marker.
LONGEST_REQUIREMENT, MOST_PARENTHESES = 2000, 50
# The name of a secret is also the name of a variable and the last part of an address.
SECRET_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}"


def _requirement(text: str) -> str:
    parsed = _parsed(text)
    if parsed.url:
        git_requirement(text)
    return text


def _exact_requirement(text: str) -> str:
    parsed = _parsed(text)
    if parsed.url:
        raise ValueError(f"{text!r} names an address; write NAME==VERSION instead")
    if exact_version(parsed) is None:
        raise ValueError(f"{text!r} is not exact; write {parsed.name}==VERSION")
    return text


def _parsed(text: str) -> Requirement:
    _plain_line(text)
    if len(text) > LONGEST_REQUIREMENT or text.count("(") > MOST_PARENTHESES:
        raise ValueError(f"a requirement has at most {LONGEST_REQUIREMENT} characters, {MOST_PARENTHESES} of them (")
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement such as numpy==1.23.5 ({error})") from None


def exact_version(requirement: Requirement) -> str | None:
    """The version of NAME==VERSION, None for ranges."""
    pinned = [s for s in requirement.specifier if s.operator in ("==", "===") and not s.version.endswith(".*")]
    return pinned[0].version if len(pinned) == 1 == len(requirement.specifier) else None


@dataclass(frozen=True)
class GitRequirement:
    """`NAME[EXTRAS] @ git+https://HOST/REPOSITORY@REF#subdirectory=PATH`; `ref` is a commit, tag or branch."""

    project: str
    git: str
    ref: str
    subdirectory: str = ""

    @property
    def commit(self) -> str:
        """The commit, empty if `ref` is a tag or branch."""
        return self.ref if re.fullmatch("[0-9a-f]{40}", self.ref) else ""

    @property
    def archive(self) -> str:
        """The address of GitHub's archive of `ref`, without `https://`; pip reads the fragment."""
        place = f"{repository_name(self.git)}/archive/{self.ref}.tar.gz"
        return f"{place}#subdirectory={self.subdirectory}" if self.subdirectory else place


def git_requirement(text: str) -> GitRequirement | None:
    """The parts of a requirement at a git address, None for one of an index. Raises ValueError for other addresses."""
    parsed = Requirement(text)
    if not parsed.url:
        return None
    # Another address could name a path of the host, or a file that nothing checks.
    address, _, fragment = parsed.url.partition("#")
    place, at, ref = address.removeprefix("git+").rpartition("@")
    if not address.startswith("git+") or not at or "/" not in place.partition("://")[2]:
        raise ValueError(
            f"{text!r} names an address; write NAME==VERSION, or NAME @ git+https://HOST/REPOSITORY@COMMIT"
        )
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+/-]{0,199}", ref) or ".." in ref:
        raise ValueError(f"{ref[:60]!r} is not a commit, tag or branch")
    parts = dict(part.partition("=")[::2] for part in fragment.split("&") if part)
    subdirectory = parts.pop("subdirectory", "")
    parts.pop("egg", None)
    if parts or (subdirectory and _workspace_path(subdirectory) != subdirectory):
        raise ValueError(f"{fragment[:60]!r} is not subdirectory=PATH")
    return GitRequirement(parsed.name, _git_url(place), ref, subdirectory)


def container_path(text: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._/+-]*", text) or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not an absolute path of letters, digits and . _ + -")
    # A work folder in /proc/self/fd has led out of containers (CVE-2024-21626).
    if PurePosixPath(text).parts[1:2] in (("proc",), ("sys",), ("dev",)):
        raise ValueError(f"{text!r} is a folder of the kernel; name another one")
    return text


def _link_path(text: str) -> str:
    parts = PurePosixPath("/", text.strip("/")).parts
    if len(parts) == 1 or parts[1] == "workspace":
        raise ValueError(f"{text!r} cannot be a link; name a path outside /workspace")
    return str(PurePosixPath(*parts))


def not_read_only(value: Any) -> Any:
    """Raises ValueError for `true`."""
    if value:
        raise ValueError(
            "a recipe's mount is a link into the workspace, which is writable; remove `read_only`, or mount a "
            "folder yourself with -v SOURCE:TARGET:ro"
        )
    return value


def _workspace_path(text: str) -> str:
    # A recipe may come from a stranger: it can only mount folders of its workspace.
    if text.startswith("/") or ".." in text.split("/") or not re.fullmatch(r"[A-Za-z0-9._/-]+", text):
        raise ValueError(f"{text!r} is not a path inside the workspace; mount other folders with -v")
    return text


def _beside_path(text: str) -> str:
    if ".." in text.split("/") or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}", text):
        raise ValueError(f"{text!r} is not a path below the recipe's folder")
    return text


def _git_url(text: str) -> str:
    # git's short form of ssh addresses.
    short = re.fullmatch(
        r"([A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*):([A-Za-z0-9._~+-][A-Za-z0-9._/~+-]*)", text
    )
    address = f"ssh://{short[1]}/{short[2]}" if short else text
    # With ext::, file:// or a leading dash git would run commands or read files on the host.
    place = r"(https://[A-Za-z0-9.-]+|ssh://[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*)(:\d+)?"
    if not re.fullmatch(place + r"/[A-Za-z0-9._/~+-]+", address) or ".." in address:
        raise ValueError(f"{text!r} is not an https:// address of a git repository, nor ssh://USER@HOST/PATH")
    return address.removesuffix(".git").rstrip("/")


def repository_name(url: str) -> str:
    """`HOST[:PORT]/OWNER/REPOSITORY` of a git address, the same for https:// and ssh://."""
    return url.partition("://")[2].rpartition("@")[2]


def _http_url(text: str) -> str:
    address = urlsplit(text)  # refuses `http://[::1`
    if "[" in address.netloc:
        ipaddress.IPv6Address(address.hostname or "")  # Python before 3.11.4 takes any text in brackets
    if not address.hostname or address.port == 0:  # and a port above 65535
        raise ValueError(f"{text!r} names no host")
    return text


def _data_source(text: str) -> str:
    scheme, _, record = text.partition(":")
    if scheme not in DATA_SOURCES:
        raise ValueError(f"{text!r} is not a source of data{nearest(scheme, DATA_SOURCES)}; write zenodo:RECORD")
    if not re.fullmatch(DATA_SOURCES[scheme], record):
        raise ValueError(f"{record!r} is not a record of {scheme}")
    return text


def _build_arg(text: str) -> str:
    if re.match(r"(?i)(REPROKIT|BUILDKIT|DOCKER)_|BASE$|\w+_proxy$", text):
        raise ValueError(f"{text} is set by reprokit or the builder; use another name")
    return text


def _image_ref(text: str) -> str:
    scheme, separator, name = text.rpartition("://")
    if separator:
        raise ValueError(f"{text!r} begins with {scheme}://; write {name}")
    if not _IMAGE.fullmatch(text.partition("@")[0]):
        raise ValueError(f"{text!r} is not the name of an image, such as debian:12 or HOST/NAME:TAG")
    return text


def _plain_line(text: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise ValueError("control characters are not allowed here")
    return text


def _pin_name(text: str) -> str:
    if text not in PIN_NAMES:
        raise ValueError(f"not a pin{nearest(text, PIN_NAMES)} (`reprokit help fields` lists them)")
    return text


def _block_option(value: Any) -> Any:
    if isinstance(value, (bool, str)) or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        return value
    raise ValueError(f"{value!r} is not true, false, text or a list of texts; write numbers in quotes")


def _recipe_name(text: str) -> str:
    # In a folder of recipes, `blocks` contains own blocks, and NAME.lock.yaml is a lock.
    if text == "blocks" or text.endswith(".lock"):
        raise ValueError(f"{text!r} is a name of own blocks or of a lock; use another one")
    return text


def _regex(text: str) -> str:
    try:
        patterns.compiled(text)
    except ValueError as error:
        raise ValueError(f"not a regular expression of RE2: {error}") from None
    return text


def variable(value: _Scalar) -> _Scalar:
    """Raises ValueError for a number that no record can hold."""
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise ValueError(f"an integer of more than {MOST_DIGITS} digits; write it in quotes")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number; write it in quotes")
    return value


Line = Annotated[str, AfterValidator(_plain_line)]
Name = Annotated[str, StringConstraints(pattern=rf"^{_NAME}$", max_length=60)]
RecipeName = Annotated[Name, AfterValidator(_recipe_name)]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9][0-9A-Za-z.+~-]*$", max_length=60)]
PinValue = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~:/@_-]*$", max_length=200)]
ImageRef = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$", max_length=400
    ),
    AfterValidator(_image_ref),
]
AptPackage = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]*$", max_length=120)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_CONDA_VERSION = r"[0-9A-Za-z._+!-]+\*?"
CondaSpec = Annotated[
    str,
    StringConstraints(
        pattern=rf"^[a-z0-9_][a-z0-9_.-]*(==?{_CONDA_VERSION}(=[0-9A-Za-z_.*]+)?"
        rf"|([<>]=?|[!~]=){_CONDA_VERSION}(,([<>]=?|[!~=]=){_CONDA_VERSION})*)?$",
        max_length=200,
    ),
]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Variable = Annotated[_Scalar, AfterValidator(variable)]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
BuildArg = Annotated[EnvName, AfterValidator(_build_arg)]
DataSource = Annotated[str, AfterValidator(_data_source)]
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s\"'`$\\<>]+$"), AfterValidator(_http_url)]
Capability = Annotated[str, StringConstraints(pattern=r"^\d{1,2}\.\d$")]
_SIZE_SCHEMA = {"type": ["string", "integer"], "pattern": r"^\d+(\.\d+)?\s*([KMGTkmgt]([Ii]?[Bb])?|[Bb])?$"}
Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(_SIZE_SCHEMA, mode="validation")]
PinName = Annotated[str, AfterValidator(_pin_name)]
BlockOption = Annotated[Any, PlainValidator(_block_option)]
WheelRequirement = Annotated[str, AfterValidator(_requirement)]
ExactRequirement = Annotated[str, AfterValidator(_exact_requirement)]
ContainerPath = Annotated[str, AfterValidator(container_path)]
LinkPath = Annotated[ContainerPath, AfterValidator(_link_path)]
WorkspacePath = Annotated[str, AfterValidator(_workspace_path)]
SubmodulePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]*(/[A-Za-z0-9_][A-Za-z0-9._+-]*)*$", max_length=200)
]
BesidePath = Annotated[str, AfterValidator(_beside_path)]
GitUrl = Annotated[str, AfterValidator(_git_url)]
Regex = Annotated[str, AfterValidator(_regex)]
