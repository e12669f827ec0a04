"""The wheel of fused_attention: the package, its C++ and CUDA sources, and a library for the torch that is here.

Where the library does not fit, the installed package compiles the sources, so they are always in it.
"""

import os
import re
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "fused_attention"
BENCH = PACKAGE + ".bench"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        # An editable install runs from this folder, and compiles on its first call.
        if not getattr(self, "editable_mode", False):
            sys.path.insert(0, HERE)
            from fused_attention import build

            build.ahead_of_time(os.path.join(self.build_lib, PACKAGE, "prebuilt"))


class WithLibrary(Distribution):
    def has_ext_modules(self):
        """The wheel is for one Python and one machine."""
        return True


def version():
    with open(os.path.join(HERE, PACKAGE, "__init__.py")) as file:
        return re.search(r'^__version__ = "(.+)"$', file.read(), re.MULTILINE).group(1)


def sources(name):
    package = os.path.join(HERE, *name.split("."))
    return [
        os.path.relpath(os.path.join(folder, name), package)
        for folder, _, names in os.walk(os.path.join(package, "csrc"))
        for name in names
    ]


with open(os.path.join(HERE, "README.md"), encoding="utf-8") as readme:
    DESCRIPTION = readme.read()

setup(
    name="reprokit-fused-attention",
    version=version(),
    description="Masked attention in one kernel, as a torch operator for CPU and CUDA",
    long_description=DESCRIPTION,
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=[PACKAGE, BENCH],
    package_data={PACKAGE: sources(PACKAGE), BENCH: sources(BENCH)},
    python_requires=">=3.6",
    install_requires=["torch>=1.8", "ninja"],
    cmdclass={"build_py": BuildWithLibrary},
    distclass=WithLibrary,
)
