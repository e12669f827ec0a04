# fused-attention, variant cuda-debian12
ARG BASE=debian:12
FROM ${BASE} AS base
# What each RUN below begins and ends with, so that the same inputs give the same layers: no random names and seeds, no
# logs, and one date for all that it changed. A removed file of a lower layer leaves a mark that keeps the time of the
# build, so logs and caches are emptied instead. The fraction of a second grows from step to step for engines that find
# changes by date; layers do not hold it. The pause keeps apart what this step and the one before it changed.
SHELL ["/bin/sh", "-c", "\
    export SOURCE_DATE_EPOCH=946684800 PYTHONHASHSEED=0 PERL_HASH_SEED=0 PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME=/tmp; \
    start=\"$(date +%s.%N)\"; second=\"${start%.*}\"; sleep 0.02; \
    /bin/sh -c \"$0\" || exit; \
    find /tmp /var/tmp -mindepth 1 -depth -newerct \"@$start\" '(' ! -type d -o -empty ')' -delete; \
    for path in /var/log /var/cache/fontconfig /var/cache/ldconfig /etc/machine-id /var/lib/dbus/machine-id; do \
        [ ! -e \"$path\" ] || find \"$path\" -type f -newerct \"@$start\" -exec truncate --size=0 {} +; \
    done; \
    find / -xdev '(' -path /dev -o -path /proc -o -path /sys ')' -prune \
        -o '(' -newermt \"@$start\" -o -type d -newerct \"@$start\" ')' \
        -exec touch --no-dereference --date=\"@$SOURCE_DATE_EPOCH.${second#?}\" {} + # step:"]

ARG REPROKIT_APT_BASE=
ENV LANG=C.UTF-8
# Old images have expired certificates (pitfall apt-expired-ca), which are renewed before anything uses TLS.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_BASE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_BASE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect distribution debian:12 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
    mkdir -p /workspace; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"

FROM base AS image
ARG REPROKIT_APT_PYTHON=
# One environment, first on PATH in the image itself: build, run, shell and exec use the same python
# (pitfall conda-wrong-python).
ENV PATH=/opt/venv/bin:${PATH}
# Without setuptools, which older Pythons add: a later layer that replaces it could not remove it without a trace. The
# block wheels adds it where no wheel brings it.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block python: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_PYTHON:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_PYTHON ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.11 python3.11-venv; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    python3.11 -m venv /opt/venv; \
    [ ! -e /opt/venv/lib/*/site-packages/setuptools ] || /opt/venv/bin/python3 -m pip uninstall --yes --quiet --disable-pip-version-check setuptools; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.11 "$(python3 -c 'import platform; print(platform.python_version())')"

ARG REPROKIT_APT_CUDA=
# contrib and non-free of the main archive only: those of the security archive list a libcuda1 that cannot be
# downloaded. The links to Debian's own driver are removed: a container gets the driver of its host, and fails to
# initialise a second libcuda.so.1 of another version. nvcc finds the pinned compiler on PATH. One package holds all
# development files of CUDA, so other components than the variant's are deleted here, 3.7 of 5.7 GB in CUDA 11.8. nvcc
# links libcudart_static.a itself.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cuda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    suite="$(. /etc/os-release; echo "$VERSION_CODENAME")"; \
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do \
        [ ! -f "$file" ] || sed -i -E "s/^(deb .* $suite main)$/\1 contrib non-free/; /^Suites: $suite( |$)/,/^Components:/ s/^(Components: main)$/\1 contrib non-free/" "$file"; \
    done; \
    sources=""; [ -z "${REPROKIT_APT_CUDA:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_CUDA ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends nvidia-cuda-toolkit libcuda1 g++-11; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"11 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    for name in libcuda libnvidia-ml libnvidia-ptxjitcompiler; do rm -f "/usr/lib/x86_64-linux-gnu/$name.so.1"; done; \
    for name in cupti nvperf cusolver lapack_static metis_static npp nvjpeg accinj cuinj; do rm -f /usr/lib/*-linux-gnu/lib"$name"* /usr/lib/*-linux-gnu/stubs/lib"$name"*; done; \
    dpkg -L nvidia-cuda-dev | grep '_static[_a-z]*\.a$' | grep -v /libcudart_static | xargs rm -f; \
    ldconfig
ENV CUDA_HOME=/usr
# pitfall devel-vs-runtime: a runtime image has no nvcc. pitfall gcc-too-new: nvcc needs a host compiler, and refuses one
# that is too new.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cuda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect nvcc 11.8 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect cuda_runtime.h present "$(test -e "$CUDA_HOME/include/cuda_runtime.h" && echo present)"; \
    expect libcudart.so present "$(ldconfig -p | grep -q 'libcudart\.so' && echo present)"; \
    expect cublas present "$(ls /usr/lib/*-linux-gnu/libcublas*.so >&2 && echo present)"; \
    expect cufft present "$(ls /usr/lib/*-linux-gnu/libcufft*.so >&2 && echo present)"; \
    expect curand present "$(ls /usr/lib/*-linux-gnu/libcurand*.so >&2 && echo present)"; \
    expect cusparse present "$(ls /usr/lib/*-linux-gnu/libcusparse*.so >&2 && echo present)"; \
    expect nvrtc present "$(ls /usr/lib/*-linux-gnu/libnvrtc*.so >&2 && echo present)"; \
    expect nvtx present "$(ls /usr/lib/*-linux-gnu/libnvToolsExt*.so >&2 && echo present)"; \
    probe="$(mktemp -d)"; echo '__global__ void kernel() {}' > "$probe/kernel.cu"; \
    expect nvcc 'able to compile' "$(nvcc -c -o "$probe/kernel.o" "$probe/kernel.cu" >&2 && echo 'able to compile')"; \
    rm -r "$probe"

# torch and its dependencies only: the variant's own versions are installed over them, by the block wheels.
ARG REPROKIT_WHEELS_TORCH=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS_TORCH" ]; then \
        set -- --index-url "$REPROKIT_WHEELS_TORCH" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    printf '%s\n' 'numpy<2' 'setuptools<70' 'setuptools<82' > /tmp/bounds; set -- "$@" --constraint /tmp/bounds; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" torch==1.13.1; \
    python3 -m pip check --disable-pip-version-check
# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 1.13.1 "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' 11.7 "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"

# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        torch==1.13.1 \
        numpy==1.23.5 \
        ninja==1.11.1.4 \
        setuptools==69.5.1; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check torch numpy ninja setuptools | sed -n 's/^Version: //p'); \
    expect torch 1.13.1 "${1:-}"; shift; \
    expect numpy 1.23.5 "${1:-}"; shift; \
    expect ninja 1.11.1.4 "${1:-}"; shift; \
    expect setuptools 69.5.1 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

ARG REPROKIT_APT_EXTENSION=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_EXTENSION:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_EXTENSION ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-11 g++-11 libc6-dev python3.11-dev; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"11 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect c++ runnable "$(c++ --version >&2 && echo runnable)"
# pitfall gcc-too-new: torch and nvcc both use this compiler instead of the distribution's newest.
ENV CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++
# pitfall devel-vs-runtime: extensions for GPUs need the pinned nvcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect gcc 11 "$(gcc -dumpfullversion)"; \
    expect g++ 11 "$(c++ -dumpfullversion)"; \
    expect ninja runnable "$(ninja --version >&2 && echo runnable)"; \
    expect Python.h present "$(test -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" && echo present)"; \
    expect nvcc 11.8 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect torch/extension.h present "$(python3 -c 'import os; from torch.utils.cpp_extension import include_paths; print("present" if any(os.path.exists(p + "/torch/extension.h") for p in include_paths()) else "")')"

ENV TORCH_CUDA_ARCH_LIST="7.0;7.5;8.0;8.6;8.9"
WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
