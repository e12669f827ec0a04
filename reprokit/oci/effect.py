"""The effect of a layer on the files below it, which is the same whichever engine writes the layer.

Engines repeat entries that did not change, mark a folder that replaces another one or name all that it lost, and take
the files of a hard link in another order. Layers are applied as Docker applies them (moby, pkg/archive/diff.go).
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reprokit.errors import UsageError
from reprokit.oci.entries import FOLDER, HARD_LINK, LINK, EntryTotal, LayerEntry
from reprokit.untrusted.limits import LAYER_PATHS

_REMOVED, _OPAQUE, _META = ".wh.", ".wh..wh..opq", ".wh..wh."
_MOST_LINKS = 40


@dataclass(frozen=True)
class Effect:
    """`made` are paths that changed for containers, `times` those whose time alone changed."""

    made: Mapping[str, LayerEntry]
    times: Mapping[str, LayerEntry]
    removed: frozenset[str]

    @property
    def digest(self) -> str:
        """SHA-256 of the files as containers see them, without times and names of owners."""
        sha256 = hashlib.sha256()
        for path in sorted({*self.made, *self.removed}):
            row = [path, *self.made[path].seen] if path in self.made else [path]
            sha256.update(json.dumps(row).encode() + b"\n")
        return f"sha256:{sha256.hexdigest()}"

    def entry(self, path: str) -> LayerEntry | None:
        return self.made.get(path) or self.times.get(path)

    def __bool__(self) -> bool:
        return bool(self.made or self.removed)


class Files:
    """The files of an image, to which layers are applied from the base up."""

    def __init__(self, total: EntryTotal | None = None) -> None:
        self._total = total or EntryTotal()
        self._paths: dict[str, LayerEntry] = {}
        self._inside: dict[str, set[str]] = {}
        self._before: dict[str, LayerEntry | None] = {}
        self._linked: dict[str, set[str]] = {}

    def copy(self) -> Files:
        other = Files(self._total)
        other._paths = dict(self._paths)
        other._inside = {folder: set(names) for folder, names in self._inside.items()}
        return other

    def apply(self, layer: Iterable[tuple[str, LayerEntry]], where: str) -> Effect:
        """Raises UsageError naming `where` for a hard link to nothing, an ambiguous whiteout, and beyond a limit.

        By OCI's specification a whiteout hides only what lower layers have; moby also removes what its own layer made
        before, and the folder above for `.wh...`.
        """
        self._before, self._linked = {}, {}
        new: set[str] = set()
        for name, entry in layer:
            LAYER_PATHS.check(self._total.paths, "paths looked at to apply layers", where)
            path = self._resolved(name)
            folder, base = posixpath.split(path)
            if base == _OPAQUE:
                self._remove(self._below(folder, but=new))
            elif base.startswith(_META):
                continue
            elif base.startswith(_REMOVED):
                hidden = posixpath.normpath(posixpath.join(folder, base[len(_REMOVED) :]))
                removed = [*self._below(hidden), hidden]
                if base == f"{_REMOVED}.." or not new.isdisjoint(removed):
                    raise UsageError(f"a layer is damaged: engines understand {path[:200]} differently", where)
                self._remove(removed)
            elif entry.kind == HARD_LINK:
                self._link(path, self._resolved(entry.target), new, where)
                new.add(path)
            else:
                self._put(path, entry)
                new.add(path)
        return self._effect()

    def _link(self, path: str, target: str, new: set[str], where: str) -> None:
        """Make a hard link to another path."""
        if (entry := self._paths.get(target)) and target != path:
            self._put(path, entry if target in new else replace(entry, offset=-1))
        if target == path or target not in self._paths:
            raise UsageError(f"a layer is damaged: the hard link {path[:200]} leads to nothing", where)
        group = self._linked.setdefault(target, {target})
        group.add(path)
        self._linked[path] = group

    def _put(self, path: str, entry: LayerEntry) -> None:
        old = self._paths.get(path)
        if entry.kind != FOLDER or (old and old.kind != FOLDER):
            self._remove([*self._below(path), path])
        self._before.setdefault(path, old)
        self._paths[path] = entry
        self._inside.setdefault(posixpath.dirname(path), set()).add(path)

    def _below(self, folder: str, but: set[str] | None = None) -> list[str]:
        """All paths below a folder, except those in `but`."""
        paths, waiting = [], [folder]
        while waiting:
            for path in self._inside.get(waiting.pop(), ()):
                self._total.paths += 1
                waiting.append(path)
                if not but or path not in but:
                    paths.append(path)
        return paths

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            entry = self._paths.pop(path, None)
            if entry:
                self._before.setdefault(path, entry)
                self._inside[posixpath.dirname(path)].discard(path)
                if group := self._linked.pop(path, None):
                    group.discard(path)

    def _resolved(self, name: str) -> str:
        """A path whose folders are no links."""
        parts = posixpath.normpath(f"/{name}").strip("/").split("/")
        path, links = "/", 0
        while len(parts) > 1:
            self._total.paths += 1
            path = posixpath.normpath(posixpath.join(path, parts.pop(0)))
            entry = self._paths.get(path)
            if entry and entry.kind == LINK and links < _MOST_LINKS:
                links += 1
                target = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.target))
                parts, path = [*target.strip("/").split("/"), *parts], "/"
        return posixpath.normpath(posixpath.join(path, parts[0]))

    def _effect(self) -> Effect:
        made, times, removed = {}, {}, set()
        # All further paths of a file name its first path, whatever the order in the layer.
        groups = {id(group): group for group in self._linked.values()}
        first = {key: min(group) for key, group in groups.items()}
        for path, was in self._before.items():
            name = path[1:] or "."
            entry = self._paths.get(path)
            if entry is None:
                if was:
                    removed.add(name)
                continue
            same = first.get(id(self._linked.get(path)), path)
            self._paths[path] = entry = entry.same_file_as("" if same == path else same)
            if was is None or was.seen != entry.seen:
                made[name] = entry
            elif was.unseen[0] != entry.unseen[0]:
                times[name] = entry
        return Effect(made, times, frozenset(removed))
