"""Files of Zenodo records, as a source of a recipe's data: `source: zenodo:RECORD`.

The record's JSON lists each file with size and md5 (developers.zenodo.org). Its form changed in October 2023 for some
weeks: then a file had `filename` for `key`, a checksum without `md5:`, and a link that did not work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reprokit.errors import SourceError
from reprokit.recipe.spelling import nearest
from reprokit.supply.fetch.http import Client, Refusal
from reprokit.supply.lock.model import RecordFile
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, Limit

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors

ADDRESS = "https://zenodo.org"
# A record takes 100 files.
_FILES = Limit("RECORD_FILES", 10_000)


class _ListedFile(BaseModel):
    model_config = ConfigDict(strict=True)

    key: str = Field(pattern=r"^[^/\\\x00-\x1f]+$", max_length=250)
    size: int = Field(ge=0)
    checksum: str = Field(pattern=r"^(md5:)?[0-9a-f]{32}$")


class _Record(BaseModel):
    model_config = ConfigDict(strict=True)

    files: list[dict[str, Any]]


def find(record: str, name: str, mirrors: Mirrors) -> RecordFile:
    """The file `name` of a record. Raises SourceError for a wrong answer, UsageError beyond a limit."""
    url = f"{ADDRESS}/api/records/{record}"
    try:
        files = _Record.model_validate(parsed(_get(url, mirrors))).files
        _FILES.check(len(files), "files in a record", url)
        listed = [_ListedFile.model_validate({"key": file.get("filename"), **file}) for file in files]
        matches = [file for file in listed if file.key == name]
        if not matches:
            near = nearest(name, [file.key for file in listed])
            raise SourceError(f"the record {record} has no file {name!r}{near}", url)
        if len(matches) > 1:
            raise SourceError(f"the record {record} lists {name!r} twice", url)
        # Built here: a link of the answer could lead anywhere.
        content = f"{ADDRESS}/records/{record}/files/{quote(name, safe='')}?download=1"
        return RecordFile(
            name=name,
            source=f"zenodo:{record}",
            urls=(content,),
            md5=matches[0].checksum.removeprefix("md5:"),
            size=matches[0].size,
        )
    except (ValidationError, ValueError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SourceError(f"the answer about record {record} is invalid: {first}", url) from None


def _get(url: str, mirrors: Mirrors) -> bytes:
    try:
        with Client(mirrors.settings) as client:
            return client.read(url, {"Accept": "application/json"}, DOCUMENT, "bytes in a record")[0]
    except Refusal as refusal:
        hint = "is the record public, and its number right?" if refusal.gone else ""
        raise SourceError(f"cannot read the record: {refusal.why}", url, hint) from None
