"""A recipe as commented YAML, written from a decision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import yaml as pyyaml
from packaging.requirements import Requirement
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from reprokit.compat.facts import Facts
from reprokit.importing.changes import comment, text_of
from reprokit.importing.decision import Choice, Decision, Versions
from reprokit.importing.model import accepts
from reprokit.importing.system_choice import TorchBuild, torch_block, torch_build
from reprokit.recipe.fields import HttpUrl
from reprokit.recipe.pin_names import NOT_ON_PYPI, PACKAGES, PIN_NAMES
from reprokit.untrusted.terminal import escaped

_LONGEST = 200
_MOST_OVERRULED = 4
_MOST_TRIED = 50
_WITHOUT_METADATA = ("3.5", "3.6", "3.7")  # Pythons without importlib.metadata
_MOST_SHOWN = 80  # characters of a value in a comment, which ends with file, line and reason


def draft(
    decision: Decision, versions: Versions, address: str, commit: str, facts: Facts, build: TorchBuild | None = None
) -> str:
    """The recipe's text. Without `address` and `commit` the code itself is not part of the image.

    `build` replaces the build of torch that the decision chooses.
    """
    build = build or torch_build(decision, versions, facts)
    return text_of(Writer(decision, versions, address if commit else "", commit, facts, build).recipe())


class Writer:
    """Builds the recipe of one decision."""

    def __init__(
        self, decision: Decision, versions: Versions, address: str, commit: str, facts: Facts, build: TorchBuild
    ) -> None:
        self.decision, self.versions, self.facts, self.build = decision, versions, facts, build
        self.address, self.commit = address, commit
        self.path = f"/opt/{decision.name}"
        self.installed = decision.project is not None and bool(address) and not decision.project_folder
        self.variant_name = "cuda" if "cuda" in decision.pins else "cpu"
        self.torch, self.torch_index = self.build.version, self.build.index
        self.torch_block = torch_block(self.torch, facts)

    def recipe(self) -> CommentedMap:
        decision = self.decision
        recipe = CommentedMap(name=decision.name)
        title = decision.title.value if decision.title else decision.project or decision.name
        licence = decision.licence.value if decision.licence else "none"
        paper = CommentedMap(title=_line(title), venue="unknown", year=decision.day.year)
        if self.address:
            paper["urls"] = CommentedMap(code=self.address)
        paper["licence"] = _line(licence)
        paper.yaml_add_eol_comment("question: where was it published?", "venue")
        _note(paper, "title", decision.title)
        _note(paper, "licence", decision.licence)
        recipe["paper"] = paper
        recipe["variants"] = CommentedMap({self.variant_name: self.variant()})
        recipe["smoke"] = self.smoke()
        if decision.commands:
            ran = [f"The files run: {c.value} ({c.origins[0]})" for c in decision.commands]
            recipe.yaml_set_comment_before_after_key("smoke", before="\n".join(map(comment, ran)))
        head = [
            f"Read from {self.address or 'a folder'}{f' at {self.commit[:12]}' if self.commit else ''}; versions as of"
        ]
        head[0] += f" {decision.day}."
        questions = [*decision.questions, *self.versions.questions]
        if not self.address:
            head += [f"question: the code has no https:// address and commit; put it into workspaces/{decision.name}"]
            if decision.compiled and not decision.project_folder:
                where = _whence(decision.compiled[0]) or "its .pyx files"
                head += [f"question: the recipe does not build its extension; build it in the workspace ({where})"]
            if decision.submodules:
                head += ["question: the workspace needs the submodules: git submodule update --init --recursive"]
        if self._tried()[1] == "started":
            head += ["question: no file imports or installs anything: which command shows that the image works?"]
        head += [f"question: {q.text}" + (f" ({q.origin})" if q.origin else "") for q in questions]
        if not self.torch:
            why = "no code is compiled for CUDA here, and torch is not installed"
            head += [f"not used: CUDA {c.value} ({c.origins[0]}): {why}" for c in decision.cuda]
        head += [f"not used: {u.value[:_MOST_SHOWN]} ({u.origin}): {u.why}" for u in decision.unused]
        recipe.yaml_set_start_comment("\n".join(map(comment, head)))
        return recipe

    def variant(self) -> CommentedMap:
        decision = self.decision
        variant = CommentedMap()
        what = f"{decision.base_choice.value}, versions as of {decision.day}"
        variant["description"] = what
        variant["base"] = decision.base.distro
        self._explain(variant, "base", decision.base_choice, 4)
        variant["pins"] = self.pins()
        if decision.cxx and decision.cxx.value in ("11", "14", "17", "20"):
            variant["cxx_standard"] = Quoted(decision.cxx.value)
            _note(variant, "cxx_standard", decision.cxx)
        if self.address:
            source = CommentedMap(name=decision.name, git=self.address, commit=self.commit, path=self.path)
            if decision.submodules:
                source["submodules"] = True
            variant["sources"] = CommentedSeq([source])
        if apt := self.apt():
            variant["apt"] = apt
        variant["wheels"] = self.wheels()
        if not variant["wheels"]:
            del variant["wheels"]
        indexes = [
            *([self.torch_index] if self.torch_index else []),
            *(index for index in decision.indexes if accepts(HttpUrl, index)),
        ]
        if indexes:
            variant["wheel_indexes"] = CommentedSeq(dict.fromkeys(indexes))
        if self.versions.sdists:
            variant["sdists"] = CommentedSeq(
                CommentedMap(package=s.package, requires=CommentedSeq(s.requires)) for s in self.versions.sdists
            )
        variant["blocks"] = self.blocks("wheels" in variant)
        if env := self.env():
            variant["env"] = env
        gpu = "required" if "cuda" in decision.pins else "optional" if "torch" in self.versions.pins else "none"
        big = "torch" in self.versions.pins or "tensorflow" in self.versions.pins
        variant["requires"] = CommentedMap(gpu=gpu)
        if gpu == "required" and decision.architectures:
            variant["requires"]["compute_capability"] = CommentedSeq(Quoted(a.value) for a in decision.architectures)
        variant["requires"] |= CommentedMap(memory="8GiB" if big else "2GiB", disk="20GiB" if big else "6GiB")
        return variant

    def pins(self) -> CommentedMap:
        decision = self.decision
        pins = CommentedMap(distro=Quoted(decision.base.distro), python=Quoted(decision.base.python))
        for name, choice in decision.pins.items():
            if name != "gcc" or self.installed or "cuda" in decision.pins:
                pins[name] = Quoted(choice.value)
                self._explain(pins, name, choice, 6)
        for name, version in self.versions.pins.items():
            pin = name.replace("-", "_")
            if pin in PIN_NAMES and pin not in (*pins, *NOT_ON_PYPI, *PACKAGES, "cmake"):  # pip has matched PACKAGES
                pins[pin] = Quoted(self.torch if pin == "torch" else version)
                if pin == "torch":
                    self._explain(pins, pin, self.build.choice, 6, self._unlocked(pin))
        return pins

    def apt(self) -> CommentedSeq:
        names = CommentedSeq()
        for choice in self.decision.apt:
            names.append(choice.value)
            names.yaml_add_eol_comment(comment(_whence(choice)), len(names) - 1)
        python = self.decision.base.python
        for name in ("gcc", "g++", "libc6-dev", "make", f"python{python}-dev") if self.versions.sdists else ():
            if name not in names:
                names.append(name)
                names.yaml_add_eol_comment("builds the sdists", len(names) - 1)
        return names

    def wheels(self) -> CommentedSeq:
        """Wheels that files name, then their dependencies: a lock of another day keeps all of them."""
        # The block torch installs torch, so that recipes share the layer.
        wheels, pins = (
            CommentedSeq(),
            {n: v for n, v in self.versions.pins.items() if n != "torch" or not self.torch_block},
        )
        required = [name for name in pins if name in self.decision.requirements]
        for name in (*required, *(name for name in pins if name not in self.decision.requirements)):
            version = self.torch if name == "torch" else pins[name]
            if name.startswith("nvidia-") and self.torch_index and name not in required:
                continue  # for PyPI's build of torch
            version += self.build.local_of(name, version)
            wheels.append(f"{name}=={version}")
            choice = self.decision.requirements.get(name)
            if choice:
                wheels.yaml_add_eol_comment(comment(f"{choice.value}: {_whence(choice)}"), len(wheels) - 1)
            lost = [f"not {o.value} ({o.origin}): {o.why}" for o in choice.lost[:_MOST_OVERRULED]] if choice else []
            for text in [*lost, *self._unlocked(name)]:
                wheels.yaml_set_comment_before_after_key(len(wheels) - 1, before=comment(text), indent=6)
        if len(wheels) > len(required) > 0:
            wheels.yaml_set_comment_before_after_key(len(required), before="Needed by those above.", indent=6)
        return wheels

    def _unlocked(self, project: str) -> list[str]:
        """The versions of lock files that lost, as comments."""
        locked, version = self.decision.locked.get(project, ()), self.versions.pins[project]
        if version.partition("+")[0] in {choice.value.partition("+")[0] for choice in locked}:
            return []
        required = self.decision.requirements.get(project, Choice(project))
        lines = []
        for choice in locked:
            fits = Requirement(required.value).specifier.contains(choice.value, prereleases=True)
            why = "it does not fit the others, or has no wheel here" if fits else f"{required.value} is required"
            lines.append(f"not {choice.value} ({choice.origins[0]}): {why}")
        return lines

    def blocks(self, wheels: bool) -> CommentedSeq:
        decision = self.decision
        blocks = CommentedSeq()
        if self.decision.apt or self.versions.sdists:
            blocks.append("apt")
        blocks.append("python")
        if "cuda" in decision.pins:
            blocks.append("cuda")
        if self.torch_block:
            blocks.append(self.torch_block)
        if wheels or self.versions.sdists:
            blocks.append("wheels")
        if self.address:
            options = CommentedMap(writable=CommentedSeq([decision.name]))
            if not self.installed:
                options["python_paths"] = CommentedSeq(f"{self.path}/{f}".rstrip("/") for f in decision.python_paths)
            blocks.append(CommentedMap(git=options))
        if self.installed:
            package = CommentedMap(source=decision.name)
            if decision.project:
                package["package"] = decision.project
            # Tests and scripts run in the source's folder, and would not import the installed package.
            package["in_place"] = True
            settings = self._build_env()
            if settings:
                package["env"] = CommentedSeq(settings)
            if "cmake" in self.versions.pins or any(choice.value == "cmake" for choice in decision.compiled):
                package["packages"] = CommentedSeq(["make"])  # CMake's own generator, which setup.py may start itself
            blocks.append(CommentedMap(extension_package=package))
        if self.installed and decision.modules:
            # Private modules may be for some platforms or options only.
            modules = CommentedSeq([m for m in decision.modules if not m.startswith("_")] or decision.modules)
            blocks.append(CommentedMap(imports=CommentedMap(modules=modules)))
        return blocks

    def _build_env(self) -> list[str]:
        decision, settings = self.decision, []
        if decision.counts_version:
            version = decision.version or "0.0.0"
            settings += [f"SETUPTOOLS_SCM_PRETEND_VERSION={version}", f"PBR_VERSION={version}"]
        if "cuda" in decision.pins:
            listed = ";".join(a.value for a in decision.architectures)
            settings += ["FORCE_CUDA=1", *([f"TORCH_CUDA_ARCH_LIST={listed}"] if listed else [])]
        return settings

    def env(self) -> CommentedMap:
        env = CommentedMap()
        for choice in self.decision.env:
            name, _, value = choice.value.partition("=")
            env[name] = Quoted(value)
            _note(env, name, choice)
        if not self.address and self.decision.python_paths:
            roots = [f"/workspace/{path}".rstrip("/") for path in self.decision.python_paths]
            env.setdefault("PYTHONPATH", ":".join(roots))
        return env

    def smoke(self) -> CommentedSeq:
        command, shown = self._tried()
        smoke = CommentedSeq([CommentedMap(command=f"python3 -c '{command}; print(\"{shown}\")'", expect=shown)])
        if self.decision.tests:
            folder = self.path if self.address else "/workspace"
            collect = "set -o pipefail && python3 -m pytest --collect-only -q | tail -n 100"
            smoke.append(CommentedMap(command=f"cd {folder} && {collect}"))
        return smoke

    def _tried(self) -> tuple[str, str]:
        """Python code that tests the image, and the word that it prints on success."""
        left_out = self.versions.left_out
        modules = [m for m, project in self.decision.imports.items() if m.isidentifier() and project not in left_out]
        modules = modules or [m for m in self.decision.modules if self.installed and m.isidentifier()]
        if modules:
            return f"import {', '.join(modules)}", "imported"
        installed = [name for name in self.decision.requirements if name in self.versions.pins]
        if installed and self.decision.base.python not in _WITHOUT_METADATA:
            names = ", ".join(f'"{name}"' for name in installed[:_MOST_TRIED])
            return f"from importlib.metadata import version; [version(name) for name in ({names},)]", "installed"
        return "import sys", "started"

    def _explain(self, place: CommentedMap, key: str, choice: Choice, indent: int, more: Sequence[str] = ()) -> None:
        lines = [_whence(choice)] if _whence(choice) else []
        lines += [f"not {lost.value} ({lost.origin}): {lost.why}" for lost in choice.lost]
        lines += more
        if lines:
            place.yaml_set_comment_before_after_key(key, before="\n".join(map(comment, lines)), indent=indent)


def _whence(choice: Choice) -> str:
    return "; ".join(filter(None, (", ".join(map(str, choice.origins)), choice.why)))


def _note(place: CommentedMap, key: str, choice: Choice | None) -> None:
    if choice and choice.origins:
        place.yaml_add_eol_comment(comment(_whence(choice)), key)


def _line(text: str) -> str:
    line = escaped(" ".join(text.split()))[:_LONGEST] or "unknown"
    # ruamel writes YAML 1.2, but recipes are read as YAML 1.1. There `Yes` is a boolean and `12:30` a number.
    with suppress(pyyaml.YAMLError):
        return line if isinstance(pyyaml.safe_load(line), str) else Quoted(line)
    return line
