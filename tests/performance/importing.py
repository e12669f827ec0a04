"""How often a repository becomes an image that runs: `new --from` alone, and with `--repair`, over a list of releases.

The list has a line `NAME VERSION KIND` a release. Its sdist on the package index stands in for the repository, as a
commit of the upload's date. `OWNER/NAME COMMIT KIND` is a repository of GitHub, of which WORK/OWNER/NAME.git is asked
first. Rows are JSON lines in the file `--rows`, so that an interrupted run goes on; `--table` prints them. Images are
removed after each row; the folder `--work` keeps downloads, recipes and pages.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reprokit.commands.new import imported
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.importing.repair import Failure, Fit, RepairLoop, Round, page
from reprokit.recipe import find
from reprokit.smoke.repair import attempt as attempted
from reprokit.smoke.run import fresh_container
from reprokit.supply.kinds.wheels.listing import Listing
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store

LIST = Path(__file__).with_name("repositories.txt")
LIMIT_S = 1500
# What must go right before the smoke commands run.
BUILD = ("check", "lock", "build", "container")


def listed(path: Path) -> Iterator[tuple[str, str, str]]:
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, version, kind = line.split(maxsplit=2)
            yield name, version, kind


def repository(root: Path, name: str, version: str) -> str:
    """The address of a bare repository with the files of the sdist. They go into git's objects; nothing is run."""
    if "/" in name:
        return f"https://github.com/{name}"
    listing = Listing(Mirrors(Store()))
    files = [f for f in listing.files(name) if not f.is_wheel and str(f.version) == version]
    if not files:
        raise ReprokitError(f"the index has no sdist of {name} {version}")
    bare = root / "sdists" / f"{name}-{version}.git"
    if not (bare / "refs/heads/main").exists():
        bare.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
        stream = b"".join(fast_import(listing.content(files[0]), files[0].uploaded))
        subprocess.run(["git", "fast-import", "--quiet"], cwd=bare, input=stream, check=True)
    return f"https://forge.test/sdists/{name}-{version}"


def fast_import(sdist: bytes, uploaded: str) -> Iterator[bytes]:
    seconds = int(datetime.fromisoformat(uploaded.replace("Z", "+00:00")).timestamp())
    yield f"commit refs/heads/main\ncommitter t <t@example.org> {seconds} +0000\ndata 7\nrelease\n".encode()
    with tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as tar:
        for member in tar:
            opened, path = tar.extractfile(member) if member.isfile() else None, member.name.partition("/")[2]
            if opened is None or not path or {"..", ".git"} & set(path.split("/")) or '"' in path or "\n" in path:
                continue
            data, mode = opened.read(), "100755" if member.mode & 0o100 else "100644"
            yield f"M {mode} inline {path}\ndata {len(data)}\n".encode() + data + b"\n"


def row(name: str, version: str, root: Path) -> dict[str, Any]:
    """Import, build, try and repair one release, in the current folder."""
    own = label(name, version)
    source, path = repository(root, name, version), Path("recipes") / f"{own}.yaml"
    for old in (path, path.with_suffix(".md"), path.with_suffix(".lock.yaml")):
        old.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    began = time.monotonic()
    found, versions = imported(own, source, version if "/" in name else "main", "")
    path.write_text(found.text)
    engine, attempts = Engine.connect(), []

    def attempt() -> list[Failure]:
        attempts.append(attempted(engine, own))
        return attempts[-1]

    def keep(rounds: Any) -> None:
        path.with_suffix(".md").write_text(page(own, source, found, rounds, "A row of the table"))

    variant = find.target(own).variant_name
    loop = RepairLoop(own, variant, found.text, attempt, versions.of, Fit(versions.facts, versions.of),
                      path.write_text, keep)  # fmt: skip
    rounds: list[Round] = loop.run()
    target, modules, resolved = find.target(own), found.decision.imports, 0
    if not rounds or rounds[-1].changes or rounds[-1].failures[0].step not in BUILD:
        with fresh_container(engine, target) as execute:
            resolved = sum(
                execute(["python3", "-c", f"import {m}"], workdir="/").exit_code == 0
                for m in modules
                if m.isidentifier()
            )
    last = rounds[-1] if rounds and not rounds[-1].changes else None
    return {
        "day": str(found.decision.day), "base": found.decision.base.distro, "tests": found.decision.tests,
        "first": steps(attempts[0]), "last": steps(attempts[-1]), "rounds": len(attempts),
        "changes": [change for each in rounds for change in each.changes],
        "modules": len(modules), "resolved": resolved, "seconds": round(time.monotonic() - began),
        "cause": cause(last) if last else "",
    }  # fmt: skip


def label(name: str, version: str) -> str:
    """The name of a row's recipe and files."""
    return f"{name.rpartition('/')[2]}-{version[:12]}".lower().replace("_", "-")


def steps(failures: list[Failure]) -> list[str]:
    """`build` for anything before the smoke commands, `imports`, `collect`."""
    return [f.step if f.step in BUILD else "collect" if "pytest" in f.step else "imports" for f in failures]


def cause(last: Round) -> str:
    failure = last.failures[0]
    known = [c for c in failure.causes if c.rule != "unexplained"]
    text = f"{known[0].cause}" if known else failure.message
    return f"{failure.step[:40]}: {' '.join(text.split())[:200]}"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| release | kind | day | base | unchanged | `--repair` | imports | collects | changed, or why it fails |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in rows:
        release = f"{each['name']} {each['version'][:12]}"
        if "refused" in each:
            yield f"| {release} | {each['kind']} | | | no | no | | | {shown(each['refused'])} |"
            continue
        what = each["cause"] or "; ".join(each["changes"])
        collected = ("no" if "collect" in each["last"] else "yes") if each["tests"] and built(each["last"]) else ""
        numbers = f"{each['resolved']} of {each['modules']}"
        cells = [release, each["kind"], each["day"], each["base"], yes(built(each["first"])), yes(built(each["last"])),
                 numbers, collected, shown(what)]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    known = [each for each in rows if "refused" not in each]
    good = [each for each in known if built(each["last"])]
    first = sum(built(each["first"]) for each in known)
    tested = [each for each in good if each["tests"]]
    modules, resolved = sum(each["modules"] for each in good), sum(each["resolved"] for each in good)
    collected = sum("collect" not in each["last"] for each in tested)
    yield ""
    yield (
        f"{len(rows)} releases: {first} built without manual changes, {len(good)} with `--repair`; in those, {resolved}"
        f" of {modules} imports resolve, and {collected} of {len(tested)} with tests collect them."
    )


def built(failed: list[str]) -> bool:
    return not set(failed) & set(BUILD)


def yes(value: bool) -> str:
    return "yes" if value else "no"


def shown(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:240]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/reprokit-importing"))
    parser.add_argument("--rows", type=Path, default=None, help="WORK/rows.jsonl by default")
    parser.add_argument("--table", action="store_true", help="only print the rows")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "VERSION"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    work, file = chosen.work, chosen.rows or chosen.work / "rows.jsonl"
    if chosen.one:
        print("ROW " + json.dumps(row(*chosen.one, work)))
        return 0
    work.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if not chosen.table:
        (work / "config.yaml").write_text(f'mirrors:\n  git: ["file://{work}/{{owner}}/{{repo}}.git"]\n')
        environment = {**os.environ, "REPROKIT_CONFIG": str(work / "config.yaml"), "REPROKIT_HOME": str(work / "home")}
        done = {(each["name"], each["version"]) for each in rows}
        for name, version, kind in listed(chosen.list):
            if (name, version) in done:
                continue
            new = {"name": name, "version": version, "kind": kind, **tried(name, version, work, environment)}
            rows.append(new)
            with file.open("a") as out:
                out.write(json.dumps(new) + "\n")
            print(json.dumps(new), flush=True)
    print(*table(rows), sep="\n")
    return 0


def tried(name: str, version: str, work: Path, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).resolve()), "--work", str(work), "--one", name, version]
    try:
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"refused": f"it took more than {LIMIT_S} s"}
    own = label(name, version)
    (work / f"{own}.log").write_text(done.stdout + done.stderr)
    image = f"reprokit/{own}"
    listed = subprocess.run(["docker", "images", "-q", image], capture_output=True, text=True).stdout.split()
    subprocess.run(["docker", "rmi", "--force", *listed], capture_output=True) if listed else None
    for line in done.stdout.splitlines():
        if line.startswith("ROW "):
            return dict(json.loads(line[4:]))
    return {"refused": (done.stderr.strip().splitlines() or ["no output"])[-1]}


if __name__ == "__main__":
    sys.exit(main())
