"""`Pipfile` of pipenv."""

from __future__ import annotations

from reprokit.importing.model import Scope, SourceFile, Statements
from reprokit.importing.poetry import index_statements, placed_statements
from reprokit.importing.toml_tables import table, texts
from reprokit.untrusted import toml

MOST = 1 << 20


def reads(path: str, size: int) -> bool:
    return path.rpartition("/")[2] == "Pipfile"


def read(file: SourceFile) -> Statements:
    data = toml.loads(file.text)
    for key in ("python_version", "python_full_version"):
        if version := table(data, "requires").get(key):
            number = ".".join(str(version).split(".")[:2])
            yield file.states("python", f"=={number}.*", file.line_of("[requires]", key))
    yield from index_statements(file, data.get("source"))
    sections: list[tuple[str, Scope | None]] = [("packages", None), ("dev-packages", "test")]
    for section, scope in sections:
        for name, value in table(data, section).items():
            line = file.line_of(f"[{section}]", f"\n{name}") + 1
            fields = value if isinstance(value, dict) else {"version": value}
            if isinstance(git := fields.get("git"), str):
                commit = f"@{fields['ref']}" if fields.get("ref") else ""
                yield file.states("source", git.removesuffix(".git") + commit, line, scope, name)
            elif where := fields.get("path") or fields.get("file"):
                yield from placed_statements(file, name, str(where), line, scope)
            else:
                version = str(fields.get("version", "*"))
                extras = f"[{','.join(texts(fields.get('extras', [])))}]" if fields.get("extras") else ""
                marker = f"; {fields['markers']}" if fields.get("markers") else ""
                yield file.states("package", f"{name}{extras}{'' if version == '*' else version}{marker}", line, scope)
