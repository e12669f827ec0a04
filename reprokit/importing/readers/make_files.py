"""`CMakeLists.txt` and Makefiles: versions, languages, libraries, C++ standards, GPU architectures and installs."""

from __future__ import annotations

import tree_sitter_cmake
import tree_sitter_make

from reprokit.importing.installs import parser, script_statements, text_of, walk
from reprokit.importing.model import SourceFile, Statements


def read_cmake(file: SourceFile) -> Statements:
    for node in walk(parser(tree_sitter_cmake.language).parse(file.text.encode("utf-8", "replace")).root_node):
        if node.type != "normal_command":
            continue
        name = next((text_of(child).lower() for child in node.children if child.type == "identifier"), "")
        words = [text_of(inner).strip('"') for inner in walk(node) if inner.type == "argument"]
        yield from _cmake_command(file, name, words, node.start_point[0] + 1)


def _cmake_command(file: SourceFile, name: str, words: list[str], line: int) -> Statements:
    if name == "cmake_minimum_required" and words[:1] == ["VERSION"] and len(words) > 1:
        yield file.states("cmake", f">={words[1].partition('...')[0]}", line)
    elif name == "find_package" and words:
        yield from _library(file, words, line)
    elif name in ("enable_language", "project") and "CUDA" in words[0 if name == "enable_language" else 1 :]:
        yield file.states("extension", "cuda", line)
    elif name == "set" and len(words) > 1 and "$" not in words[1]:
        if words[0] in ("CMAKE_CXX_STANDARD", "CMAKE_CUDA_STANDARD"):
            yield file.states("cxx", words[1], line)
        elif words[0] in ("CMAKE_CUDA_ARCHITECTURES", "TORCH_CUDA_ARCH_LIST"):
            yield from architectures(file, words[1], line)
    elif name in ("target_compile_features", "set_target_properties", "set_property"):
        for word, value in zip(words, [*words[1:], ""], strict=True):
            if word.startswith("cxx_std_"):
                yield file.states("cxx", word.removeprefix("cxx_std_"), line)
            elif word in ("CXX_STANDARD", "CUDA_STANDARD") and value.isdigit():
                yield file.states("cxx", value, line)
            elif word == "CUDA_ARCHITECTURES":
                yield from architectures(file, value, line)


def _library(file: SourceFile, words: list[str], line: int) -> Statements:
    package, version = words[0], words[1] if len(words) > 1 and words[1][:1].isdigit() else ""
    if package in ("CUDA", "CUDAToolkit"):
        yield file.states("extension", "cuda", line)
        if version:
            yield file.states(
                "cuda", f">={version.partition('...')[0]}", line, "run" if "REQUIRED" in words else "other"
            )
    elif package in ("Python", "Python3", "PythonInterp", "PythonLibs"):
        if version:
            yield file.states("python", f">={version.partition('...')[0]}", line)
    elif "$" not in package:
        yield file.states("library", f"{package} {version}", line, "run" if "REQUIRED" in words else "other")


def architectures(file: SourceFile, text: str, line: int) -> Statements:
    """Compute capabilities such as `70;80`, `7.0 8.0+PTX` or `sm_86`."""
    for word in text.replace(";", " ").replace(",", " ").split():
        number = word.partition("+")[0].partition("-")[0].rpartition("_")[2]
        if "." not in number and number.isdigit() and len(number) > 1:
            number = f"{number[:-1]}.{number[-1]}"
        major, dot, minor = number.partition(".")
        if dot and major.isdigit() and len(major) < 3 and minor.isdigit() and len(minor) == 1:
            yield file.states("architecture", number, line)


def read_makefile(file: SourceFile) -> Statements:
    for node in walk(parser(tree_sitter_make.language).parse(file.text.encode("utf-8", "replace")).root_node):
        line = node.start_point[0] + 1
        if node.type == "shell_text":
            yield from script_statements(file.part(text_of(node), line))
        for word in text_of(node).split() if node.type in ("shell_text", "variable_assignment") else ():
            for option in ("-arch=", "code=", "arch="):
                value = word.partition(option)[2].partition(",")[0]
                if value.startswith(("sm_", "compute_")):
                    yield from architectures(file, value, line)
                    break
