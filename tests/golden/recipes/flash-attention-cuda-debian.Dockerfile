# flash-attention, variant cuda-debian
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
        einops==0.7.0 \
        ninja==1.11.1.1 \
        numpy==1.23.5 \
        packaging==24.0 \
        psutil==5.9.8 \
        setuptools==69.5.1 \
        wheel==0.43.0; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check torch einops ninja numpy packaging psutil setuptools wheel | sed -n 's/^Version: //p'); \
    expect torch 1.13.1 "${1:-}"; shift; \
    expect einops 0.7.0 "${1:-}"; shift; \
    expect ninja 1.11.1.1 "${1:-}"; shift; \
    expect numpy 1.23.5 "${1:-}"; shift; \
    expect packaging 24.0 "${1:-}"; shift; \
    expect psutil 5.9.8 "${1:-}"; shift; \
    expect setuptools 69.5.1 "${1:-}"; shift; \
    expect wheel 0.43.0 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

FROM base AS git
ARG REPROKIT_APT_GIT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_GIT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_GIT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends git; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect git runnable "$(git --version >&2 && echo runnable)"
# Every https:// address is fetched below REPROKIT_GIT, submodules too. It is https:// itself unless reprokit serves the
# locked commits.
ARG REPROKIT_GIT=https://
RUN git config --global url."$REPROKIT_GIT".insteadOf https:// && git config --global advice.detachedHead false
# A commit is fetched by its ID, or with the complete history if the server refuses that. Submodules must be at the
# commits of the tree (pitfall submodule-missing).
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/flash-attention; cd /opt/flash-attention; \
    git init -q; git remote add origin https://github.com/Dao-AILab/flash-attention; \
    git fetch -q --depth 1 origin 9a11f440d3a34f618b4ba814c825b109c6d7e8f5 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 9a11f440d3a34f618b4ba814c825b109c6d7e8f5; \
    expect 'commit of flash-attention' 9a11f440d3a34f618b4ba814c825b109c6d7e8f5 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/flash-attention/csrc/cutlass; cd /opt/flash-attention/csrc/cutlass; \
    git init -q; git remote add origin https://github.com/NVIDIA/cutlass; \
    git fetch -q --depth 1 origin bbe579a9e3beb6ea6626d9227ec32d0dae119a49 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q bbe579a9e3beb6ea6626d9227ec32d0dae119a49 -- include; \
    expect 'commit of cutlass' bbe579a9e3beb6ea6626d9227ec32d0dae119a49 "$(git rev-parse 'bbe579a9e3beb6ea6626d9227ec32d0dae119a49^{commit}')"; \
    for path in include; do expect "$path" present "$(test -e "$path" && echo present)"; done; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/flash-attention; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /opt/flash-attention; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done

# pitfall submodule-missing: an empty CUTLASS folder fails here instead of in a compiler. CUTLASS 2 has its version in
# CMakeLists.txt, CUTLASS 3 and later in a header.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cutlass: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/flash-attention/csrc/cutlass; \
    expect cutlass/cutlass.h present "$(test -s include/cutlass/cutlass.h && echo present)"; \
    if [ -e include/cutlass/version.h ]; then \
        version="$(sed -n 's/^#define CUTLASS_\(MAJOR\|MINOR\|PATCH\) *\([0-9][0-9]*\).*/\2/p' include/cutlass/version.h | paste -sd .)"; \
    else \
        version="$(sed -n 's/^project(CUTLASS VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"; \
    fi; \
    expect cutlass 3.4.1 "$version"

FROM with-git AS extension_package
ARG REPROKIT_APT_EXTENSION_PACKAGE=
COPY --from=git /opt/flash-attention /opt/flash-attention
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_EXTENSION_PACKAGE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_EXTENSION_PACKAGE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-11 g++-11 libc6-dev python3.11-dev git; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"11 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect gcc 11 "$(c++ -dumpfullversion)"; \
    for module in setuptools wheel; do expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module")"; done
# Nothing is fetched: the Python packages for the build are in the image, at their locked versions. With build
# isolation, pip would build against the newest torch.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    export CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++ AR=gcc-ar-11; \
    jobs="$(awk -v each=9 '/^MemAvailable:/ { print int($2 / 1048576 / each) }' /proc/meminfo)"; \
    [ "$jobs" -ge 1 ] || jobs=1; [ "$jobs" -le "$(nproc)" ] || jobs="$(nproc)"; export MAX_JOBS="$jobs"; \
    export FLASH_ATTENTION_FORCE_BUILD=TRUE; \
    export NVCC_THREADS=2; \
    cd /opt/flash-attention; \
    python3 -m pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir --disable-pip-version-check --wheel-dir /wheel .; \
    packages="$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')"; \
    python3 -m pip install --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check --target "/product$packages" /wheel/*.whl; \
    python3 -m compileall -q -d "$packages" "/product$packages" || true; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-extension_package
COPY --from=extension_package /product/ /
# pitfall build-ok-artifact-missing. The block imports tests whether it can be imported.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    found="$(python3 -m pip show --disable-pip-version-check flash-attn | sed -n 's/^Version: //p')"; \
    expect flash-attn 2.5.8 "$found"

# pitfall missing-python-package
# There is no driver while an image is built; the toolkit's stub of libcuda replaces it for modules that link it.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    for module in einops flash_attn flash_attn.utils.benchmark; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
