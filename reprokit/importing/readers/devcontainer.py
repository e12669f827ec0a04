"""`devcontainer.json`: image, features and the commands after its creation."""

from __future__ import annotations

import json5

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table, texts

MOST = 64 << 10  # json5 needs a second for 100 kB


def reads(path: str, size: int) -> bool:
    return path.rpartition("/")[2] in ("devcontainer.json", ".devcontainer.json")


def read(file: SourceFile) -> Statements:
    data = table(json5.loads(file.text))
    if isinstance(image := data.get("image"), str) and "$" not in image:
        yield file.states("base", image, file.line_of('"image"'))
    for feature, options in table(data, "features").items():
        name, version = feature.rpartition("/")[2].partition(":")[0], table(options).get("version")
        if name == "python" and str(version)[:1] == "3":
            yield file.states("python", f"=={'.'.join(str(version).split('.')[:2])}.*", file.line_of(feature))
        if name == "nvidia-cuda" and table(options).get("cudaVersion"):
            yield file.states("cuda", options["cudaVersion"], file.line_of(feature))
    for key in ("onCreateCommand", "updateContentCommand", "postCreateCommand"):
        command = data.get(key)
        script = (
            " ".join(texts(command))
            if isinstance(command, (str, list))
            else "\n".join(map(str, table(command).values()))
        )
        yield from script_statements(file.part(script, file.line_of(f'"{key}"')))
