"""Git commits, each with its submodules, fetched by the host's git."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reprokit.recipe.fields import git_requirement
from reprokit.recipe.model import Source
from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, SbomEntry, Tools, UpstreamChange, refs_of

if TYPE_CHECKING:
    from reprokit.recipe.model import Variant
    from reprokit.supply.lock.model import GitCommit, VariantLock
    from reprokit.supply.mirrors import Mirrors

_GITHUB = re.compile(r"https://github\.com/([^/]+)/([^/]+?)(?:\.git)?/?")


class Git(Kind):
    def resolved_from(self, request: InputRequest) -> list[Any]:
        sources = [[source.git, source.commit, source.submodules] for source in request.target.variant.sources]
        projects = filter(None, map(git_requirement, request.target.requirements))
        return [*sources, *([project.git, project.ref] for project in projects)]

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        return {source.name for source in variant.sources}

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.git.resolve import lock_commits

        target, refs = request.target, refs_of(request.old.git) if request.old else {}
        return {"git": lock_commits(target.variant.sources, target.requirements, refs, tools.mirrors)}

    def unlocked(self, request: InputRequest, mirrors: Mirrors) -> tuple[GitCommit, ...]:
        from reprokit.supply.kinds.git.resolve import lock_commits

        return lock_commits(request.target.variant.sources, request.target.requirements, {}, mirrors)

    def upstream_changes(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[UpstreamChange]:
        from reprokit.supply.kinds.git.resolve import changed_commits

        projects = [
            Source(name="requirement", git=entry.url, commit=entry.commit, ref=entry.ref, path="/")
            for entry in lock.git
            if entry.ref
        ]
        return changed_commits([*request.target.variant.sources, *projects], lock.git, tools.mirrors)

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        for commit in lock.git:
            if match := _GITHUB.fullmatch(commit.url):
                yield SbomEntry("github", match[1], match[2], commit.commit)
            else:
                name = posixpath.basename(commit.url.rstrip("/")).removesuffix(".git") or "source"
                qualifiers = {"vcs_url": f"git+{commit.url}@{commit.commit}"}
                yield SbomEntry("generic", None, name, commit.commit, qualifiers)

    def fetch(self, entries: Sequence[GitCommit], mirrors: Mirrors, offline: bool) -> int:
        from reprokit.supply.kinds.git.fetch import fetch_git

        return fetch_git(entries, mirrors, offline)

    def server(self, entries: Sequence[GitCommit]) -> InputServer:
        from reprokit.supply.kinds.git.serve import Repositories

        return Repositories(entries)

    def other_servers(self, entries: Sequence[GitCommit]) -> Mapping[str, InputServer]:
        from reprokit.supply.kinds.git.serve import archives

        return {"REPROKIT_ARCHIVES": archives(entries)}


KIND = Git("git", "git commits", always=True, first=True)
