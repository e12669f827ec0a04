"""No module imports itself through others."""

from __future__ import annotations

import graphlib

import grimp


def test_modules_can_be_sorted_by_their_imports():
    graph = grimp.build_graph("reprokit", exclude_type_checking_imports=True, cache_dir=None)
    sorter = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    sorter.prepare()  # raises CycleError, which names the modules
    assert len(graph.modules) > 100
