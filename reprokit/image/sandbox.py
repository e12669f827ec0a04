"""The process that renders one own block: a template of a stranger, which is code.

`own_blocks` starts it and checks its answer. There are three defences, each enough against the known attacks:

- The template can use only the nodes, filters, tests and methods listed here, checked before anything of it runs.
- Jinja's sandbox runs it, and every value needs a quoting filter, as in bundled templates.
- The process has limits: it can open no file and no socket, start no process, and use little memory and time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

# Imported before the limits apply, as no file can be opened afterwards: jinja imports it for an error.
import jinja2.debug  # noqa: F401
from jinja2 import BaseLoader, DictLoader, StrictUndefined, TemplateError, nodes, pass_context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reprokit.errors import UsageError
from reprokit.image import quoting
from reprokit.image.shell import apt_install

if TYPE_CHECKING:
    from jinja2 import Template

MEMORY = 512 << 20
SECONDS = 3
MOST = 256 << 10  # characters of a part

_LIMITS = {
    resource.RLIMIT_AS: MEMORY,
    resource.RLIMIT_CPU: SECONDS,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_NOFILE: 0,
    resource.RLIMIT_NPROC: 0,
}
# No macro, call or filter block: their output is not quoted. No import, no extension, no assignment to attributes.
_NODES = (
    *(nodes.Template, nodes.Block, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Include),
    *(nodes.Name, nodes.Const, nodes.List, nodes.Tuple, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call),
    *(nodes.Filter, nodes.Test, nodes.Keyword, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.CondExpr, nodes.Concat, nodes.Add, nodes.Neg),
)
_FILTERS = (
    *("default", "first", "items", "join", "last", "length", "list", "lower", "map", "reject", "rejectattr", "replace"),
    *("select", "selectattr", "sort", "trim", "unique", "upper"),
)
_TESTS = ("defined", "undefined", "in", "eq", "ne", "equalto", "none", "string", "sequence", "mapping", "boolean")
_METHODS = (
    *("endswith", "get", "items", "keys", "lower", "partition", "removeprefix", "removesuffix", "rpartition"),
    *("split", "startswith", "strip", "upper", "values"),
)


class Refused(Exception):
    """The template does something that own blocks must not do."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def main() -> None:
    """Read a job as JSON from stdin, write the answer to stdout: `{"parts": ...}` or `{"error": ..., "line": ...}`."""
    job = json.load(sys.stdin.buffer)
    _environment({}).from_string("{{ 'a'|word }}").render()  # makes jinja load its late imports, such as a codec
    confine()
    try:
        answer: dict[str, Any] = {"parts": dict(rendered(job["template"], job["includes"], job["parts"]))}
    except Refused as error:
        answer = {"error": str(error), "line": error.line}
    except UsageError as error:
        answer = {"error": error.message, "line": 0}
    except MemoryError:
        answer = {"error": "it needs too much memory", "line": 0}
    except RecursionError:
        answer = {"error": "it is nested too deeply", "line": 0}
    unsent = memoryview(json.dumps(answer).encode())
    while unsent:
        unsent = unsent[os.write(1, unsent) :]


def confine() -> None:
    """Apply the limits to this process, for good."""
    for limit, most in _LIMITS.items():
        resource.setrlimit(limit, (most, most))


def rendered(
    text: str, includes: dict[str, str], parts: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part's text, and its calls of apt. `parts` are the facts for each. Raises Refused."""
    environment = _environment(includes)
    try:
        tree = environment.parse(text)
        _check(tree, includes)
        template = environment.from_string(tree)
    except TemplateError as error:
        raise Refused(str(error.message), getattr(error, "lineno", 0)) from None
    for name, facts in parts.items():
        if name not in template.blocks:
            yield name, {"text": "", "installs": []}
            continue
        installs: list[Any] = []
        try:
            yield name, {"text": _part(template, name, {**facts, "installs": installs}), "installs": installs}
        except (TemplateError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise Refused(str(error) or type(error).__name__, _line(template, error)) from None


def _part(template: Template, name: str, facts: dict[str, Any]) -> str:
    pieces, size = [], 0
    for piece in template.blocks[name](template.new_context(facts)):
        pieces.append(piece)
        size += len(piece)
        if size > MOST:
            raise Refused(f"it writes more than {MOST} characters", 0)
    return "".join(pieces)


def quoting_environment(loader: BaseLoader) -> ImmutableSandboxedEnvironment:
    """An environment in which every value needs a quoting filter. Its templates do not change meanwhile."""
    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        undefined=StrictUndefined,
        finalize=quoting.finished,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters |= {**quoting.FILTERS, "apt_install": pass_context(apt_install)}
    return environment


def _environment(includes: dict[str, str]) -> ImmutableSandboxedEnvironment:
    environment = quoting_environment(DictLoader(includes))
    environment.filters = {name: environment.filters[name] for name in (*_FILTERS, *quoting.FILTERS, "apt_install")}
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    environment.globals = {}
    return environment


def _check(tree: nodes.Template, includes: dict[str, str]) -> None:
    """Raises Refused at the first node that is not on the lists."""
    queue: list[nodes.Node] = [tree]
    while queue:
        node = queue.pop()
        if type(node) not in _NODES:
            raise Refused(f"{type(node).__name__} is not allowed in an own block", node.lineno)
        if isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            raise Refused(f"the attribute {node.attr} is not allowed", node.lineno)
        if isinstance(node, nodes.Call) and not (isinstance(node.node, nodes.Getattr) and node.node.attr in _METHODS):
            raise Refused(f"only these can be called: {', '.join(_METHODS)}", node.lineno)
        if isinstance(node, nodes.For) and node.recursive:
            raise Refused("a recursive loop is not allowed", node.lineno)
        if isinstance(node, nodes.Include) and not (
            isinstance(node.template, nodes.Const) and node.template.value in includes
        ):
            raise Refused(f"only these can be included: {', '.join(includes)}", node.lineno)
        queue.extend(node.iter_child_nodes())


def _line(template: Template, error: BaseException) -> int:
    """The line of the template that raised an error, 0 if unknown."""
    trace, line = error.__traceback__, 0
    while trace:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line
