"""Limits on untrusted input. Each is far above the size of real inputs; a variable raises it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reprokit.errors import UsageError

# Sizes in bytes. RE2's program and caches for one pattern.
PATTERN_MEMORY = 8 << 20
# RE2's program and caches for the patterns of all rules that explain logs.
SET_MEMORY = 64 << 20
# Each output stream of a node before its login is done.
NODE_LOGIN = 1 << 20
# Each output stream of a host program that reports facts, such as nvidia-smi.
COMMAND_ANSWER = 1 << 20
# Characters that are read of a container's facts about its machine: 64 GPUs have 4 KB.
PROBE_ANSWER = 1 << 16
# A build's requests for names that a gateway does not serve: names that are kept, and characters of a name.
GATEWAY_NAMES = 1000
GATEWAY_NAME = 2000
# A git request, which names the client's commits with 50 bytes each; a build has few.
GIT_REQUEST = 16 << 20
# Workspaces that a load unpacks without consent: sources of a paper and small data sets, some seconds of work.
WORKSPACE_ENTRIES = 50_000
WORKSPACE_BYTES = 2 << 30


@dataclass(frozen=True)
class Limit:
    """A limit in bytes or items; `$REPROKIT_LIMIT_NAME` overrides it."""

    name: str
    default: int

    @property
    def variable(self) -> str:
        return f"REPROKIT_LIMIT_{self.name}"

    @property
    def most(self) -> int:
        """The limit in force. Raises UsageError if the variable is not a number."""
        text = os.environ.get(self.variable, "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 19):
            raise UsageError(f"{text[:40]!r} is not an integer", f"${self.variable}")
        return int(text) if text else self.default

    @property
    def hint(self) -> str:
        return self._hint(2 * self.most)

    def _hint(self, enough: int) -> str:
        return f"if you trust it, raise the limit: {self.variable}={enough}"

    def check(self, count: int, what: str, where: str = "") -> None:
        """Raises UsageError if `count` exceeds the limit; `what` continues "more than N ..."."""
        if count > self.most:
            raise UsageError(f"more than {self.most} {what}", where, self._hint(max(count, 2 * self.most)))


# Each stream of a command in a container whose output is judged: more than any benchmark of a paper prints. As text it
# takes up to four times that, and a failure's is copied.
COMMAND_OUTPUT = Limit("COMMAND_OUTPUT", 16 << 20)
# The same for git, pip and uv, and a base's apt: the names of PyTorch's pull requests alone have 20 MB.
PROGRAM_OUTPUT = Limit("PROGRAM_OUTPUT", 64 << 20)
# The samples of all runs of a benchmark, which become records with a limited number of values.
SAMPLES = Limit("SAMPLES", 200_000)
# A node's answer to one script, whose JSON takes 20 times that.
NODE_ANSWER = Limit("NODE_ANSWER", 8 << 20)
# Submodules of a source: large projects have some hundred.
SUBMODULES = Limit("SUBMODULES", 1000)
# One JSON document. Registries accept manifests of 4 MiB; the largest document is a bundle's list of inputs, with
# 90 bytes each.
DOCUMENT = Limit("DOCUMENT", 16 << 20)
# All JSON documents of a bundle, or of an archive that an engine saved.
DOCUMENTS = Limit("DOCUMENTS", 64 << 20)
# Values and keys of one JSON or YAML document; each wrong one needs up to 1 KB. A file of a bundle's inputs has five of
# them, a package of a lock about 18.
VALUES = Limit("VALUES", 300_000)
# Values and keys of the list of files of a conda package, which has up to 13 for each file.
CONDA_VALUES = Limit("CONDA_VALUES", 2_000_000)
# Names and documents of all packages of a conda environment: 100 000 files have 30 MB.
CONDA_TEXT = Limit("CONDA_TEXT", 128 << 20)
# A file of records, and the values of all its records: 100 000 records have 100 to 300 MB, with 60 to 100 values each.
RESULTS = Limit("RESULTS", 1 << 30)
RESULT_VALUES = Limit("RESULT_VALUES", 20_000_000)
# Processor time in which records become tables, and the claims of a recipe are compared with them: 1000 claims and 4000
# cases take 1 s.
CLAIM_SECONDS = Limit("CLAIM_SECONDS", 60)
# Images of a bundle. All variants of all bundled recipes are fewer than 50.
IMAGES = Limit("IMAGES", 256)
# Layers of an image. Docker makes 127 at most, and overlayfs mounts 500.
LAYERS = Limit("LAYERS", 500)
# Nested folders in files of strangers or containers. Sources of large projects have about 20.
DEPTH = Limit("DEPTH", 64)
# Entries of a tar, of a stranger's folder, or of all layers when packages are compared. Images with CUDA, conda and
# torch have about 200 000.
ENTRIES = Limit("ENTRIES", 300_000)
# Paths visited when the layers of images are applied: the folders of each name, and the content of removed folders.
# An image of 300 000 files takes 3 million.
LAYER_PATHS = Limit("LAYER_PATHS", 10_000_000)
# Names and attributes of all entries of a layer that is compared. A layer of 200 000 files has 20 MB.
ENTRY_TEXT = Limit("ENTRY_TEXT", 256 << 20)
# Uncompressed bytes of layers that are written to disk to be compared.
COMPARED = Limit("COMPARED", 64 << 30)
# Extended headers of one entry of a tar: the limit of Go's archive/tar, which engines use.
TAR_HEADER = Limit("TAR_HEADER", 1 << 20)
# The sources of a bundled package, which the user may have changed: those that come with reprokit have 1 MB.
SOURCES = Limit("SOURCES", 16 << 20)
# Package lists and the paths of Python packages of one image: 3000 packages of Debian are 5 MB.
PACKAGES = Limit("PACKAGES", 16 << 20)
# A Debian package's control.tar: the largest have 10 MB of checksums, for 100 000 files.
CONTROL = Limit("CONTROL", 32 << 20)
# A file that is read from a container; for passwd and group also the part of /etc before them.
CONTAINER_FILE = Limit("CONTAINER_FILE", 64 << 20)
# Bytes of a file that an export reads from a container because its other name is excluded.
LINKED_FILE = Limit("LINKED_FILE", 64 << 30)
# One report of a profiler: a trace of some minutes of training has about 1 GB.
PROFILE = Limit("PROFILE", 4 << 30)
# Lines of a table that a profiler prints: ncu prints one for each launch, and takes a second for some of them.
PROFILE_LINES = Limit("PROFILE_LINES", 100_000)
# A container's passwd or group: those of large sites have less than 100 kB.
ACCOUNTS = Limit("ACCOUNTS", 1 << 20)
# A package of a base: the largest, a C library or Perl, have about 10 MB.
PACKAGE = Limit("PACKAGE", 64 << 20)
# The files of a base: Debian's and Ubuntu's minimal systems have 100 to 200 MB in 4000 to 9000 entries.
BASE = Limit("BASE", 1 << 30)
BASE_ENTRIES = Limit("BASE_ENTRIES", 100_000)
# The output of a build's steps in its log. LLVM and TVM write up to 100 MB.
BUILD_LOG = Limit("BUILD_LOG", 1 << 30)
# Memory in bytes and processor time of each program of git. TVM's whole history (766 000 objects, 285 MB) takes 90 MB
# and 21 s.
GIT_MEMORY = Limit("GIT_MEMORY", 512 << 20)
GIT_SECONDS = Limit("GIT_SECONDS", 600)
# The process that reads the lists of conda channels: each list on the disk, memory, and processor time. The list
# of conda-forge for one platform has some hundred MB.
CONDA_BYTES = Limit("CONDA_BYTES", 4 << 30)
CONDA_SECONDS = Limit("CONDA_SECONDS", 300)
# Time of the container in which a base's apt resolves a recipe's packages. From slow mirrors it takes minutes.
APT_SECONDS = Limit("APT_SECONDS", 3600)
# Unpacked bytes beyond `UNPACKED_RATIO` times the packed size. Layers and debs shrink to a third, text to a tenth.
UNPACKED = Limit("UNPACKED", 1 << 30)
UNPACKED_RATIO = 200


def check_unpacked(unpacked: int, packed: int, where: str) -> None:
    """Refuse data that is mostly repetition, such as zeros. Raises UsageError."""
    if unpacked > UNPACKED_RATIO * packed:
        UNPACKED.check(unpacked, f"bytes unpacked from {packed} bytes", where)
