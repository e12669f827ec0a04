# fastertransformer, variant cuda
ARG BASE=nvidia/cuda:11.7.1-cudnn8-devel-ubuntu20.04
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
# The key of the vendor's package lists was replaced in April 2022, which breaks `apt-get update` in older images. The
# image already contains what is needed of them.
# Old images have expired certificates (pitfall apt-expired-ca), which are renewed before anything uses TLS.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for list in /etc/apt/sources.list.d/cuda*.list /etc/apt/sources.list.d/nvidia-ml*.list; do [ ! -e "$list" ] || : > "$list"; done; \
    sources=""; [ -z "${REPROKIT_APT_BASE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_BASE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect distribution ubuntu:20.04 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
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
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.8 python3.8-venv; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    python3.8 -m venv /opt/venv; \
    [ ! -e /opt/venv/lib/*/site-packages/setuptools ] || /opt/venv/bin/python3 -m pip uninstall --yes --quiet --disable-pip-version-check setuptools; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.8 "$(python3 -c 'import platform; print(platform.python_version())')"

ENV CUDA_HOME=/usr/local/cuda
# Some images of the vendor do not configure the loader for their libraries.
RUN echo /usr/local/cuda/lib64 > /etc/ld.so.conf.d/cuda-toolkit.conf && ldconfig
# pitfall devel-vs-runtime: a runtime image has no nvcc. pitfall gcc-too-new: nvcc needs a host compiler, and refuses one
# that is too new.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cuda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect nvcc 11.7 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect cuda_runtime.h present "$(test -e "$CUDA_HOME/include/cuda_runtime.h" && echo present)"; \
    expect libcudart.so present "$(ldconfig -p | grep -q 'libcudart\.so' && echo present)"; \
    probe="$(mktemp -d)"; echo '__global__ void kernel() {}' > "$probe/kernel.cu"; \
    expect nvcc 'able to compile' "$(nvcc -c -o "$probe/kernel.o" "$probe/kernel.cu" >&2 && echo 'able to compile')"; \
    rm -r "$probe"

# pitfall cudnn-header: the version is read from where compilers find the header. Since cuDNN 8, cudnn.h holds none.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cudnn: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    header="$(for folder in /usr/local/include /usr/include /usr/include/x86_64-linux-gnu /usr/local/cuda/include; do for file in "$folder"/cudnn_version.h "$folder"/cudnn.h; do [ ! -e "$file" ] || echo "$file"; done; done | head -n 1)"; \
    expect 'header of cudnn' present "${header:+present}"; \
    expect cudnn 8.5.0 "$(sed -n 's/^#define CUDNN_\(MAJOR\|MINOR\|PATCHLEVEL\) *\([0-9][0-9]*\).*/\2/p' "$header" | paste -sd .)"; \
    expect libcudnn.so present "$(ldconfig -p | grep -q 'libcudnn\.so ' && echo present)"

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
        transformers==2.5.1; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check torch numpy transformers | sed -n 's/^Version: //p'); \
    expect torch 1.13.1 "${1:-}"; shift; \
    expect numpy 1.23.5 "${1:-}"; shift; \
    expect transformers 2.5.1 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

ARG REPROKIT_APT_EXTENSION=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_EXTENSION:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_EXTENSION ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-9 g++-9 libc6-dev python3.8-dev ninja-build; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"9 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect c++ runnable "$(c++ --version >&2 && echo runnable)"
# pitfall gcc-too-new: torch and nvcc both use this compiler instead of the distribution's newest.
ENV CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++
# pitfall devel-vs-runtime: extensions for GPUs need the pinned nvcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect gcc 9 "$(gcc -dumpfullversion)"; \
    expect g++ 9 "$(c++ -dumpfullversion)"; \
    expect ninja runnable "$(ninja --version >&2 && echo runnable)"; \
    expect Python.h present "$(test -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" && echo present)"; \
    expect nvcc 11.7 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect torch/extension.h present "$(python3 -c 'import os; from torch.utils.cpp_extension import include_paths; print("present" if any(os.path.exists(p + "/torch/extension.h") for p in include_paths()) else "")')"

FROM base AS git
ARG REPROKIT_APT_GIT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_GIT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_GIT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends git; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
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
    mkdir -p /opt/fastertransformer; cd /opt/fastertransformer; \
    git init -q; git remote add origin https://github.com/NVIDIA/FasterTransformer; \
    git fetch -q --depth 1 origin df4a7534860137e060e18d2ebf019906120ea204 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q df4a7534860137e060e18d2ebf019906120ea204; \
    expect 'commit of fastertransformer' df4a7534860137e060e18d2ebf019906120ea204 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/fastertransformer/3rdparty/cutlass; cd /opt/fastertransformer/3rdparty/cutlass; \
    git init -q; git remote add origin https://github.com/NVIDIA/cutlass; \
    git fetch -q --depth 1 origin cc85b64cf676c45f98a17e3a47c0aafcf817f088 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q cc85b64cf676c45f98a17e3a47c0aafcf817f088 -- CMakeLists.txt include tools/util/include; \
    expect 'commit of cutlass' cc85b64cf676c45f98a17e3a47c0aafcf817f088 "$(git rev-parse 'cc85b64cf676c45f98a17e3a47c0aafcf817f088^{commit}')"; \
    for path in CMakeLists.txt include tools/util/include; do expect "$path" present "$(test -e "$path" && echo present)"; done; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/googletest; cd /opt/googletest; \
    git init -q; git remote add origin https://github.com/google/googletest; \
    git fetch -q --depth 1 origin 58d77fa8070e8cec2dc1ed015d66b454c8d78850 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 58d77fa8070e8cec2dc1ed015d66b454c8d78850; \
    expect 'commit of googletest' 58d77fa8070e8cec2dc1ed015d66b454c8d78850 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/fastertransformer; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /

# pitfall submodule-missing: an empty CUTLASS folder fails here instead of in a compiler. CUTLASS 2 has its version in
# CMakeLists.txt, CUTLASS 3 and later in a header.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cutlass: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/fastertransformer/3rdparty/cutlass; \
    expect cutlass/cutlass.h present "$(test -s include/cutlass/cutlass.h && echo present)"; \
    if [ -e include/cutlass/version.h ]; then \
        version="$(sed -n 's/^#define CUTLASS_\(MAJOR\|MINOR\|PATCH\) *\([0-9][0-9]*\).*/\2/p' include/cutlass/version.h | paste -sd .)"; \
    else \
        version="$(sed -n 's/^project(CUTLASS VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"; \
    fi; \
    expect cutlass 2.10 "$version"

FROM with-git AS cmake
ARG REPROKIT_APT_CMAKE=
COPY --from=git /opt/fastertransformer /opt/fastertransformer
# CMake 4 refuses projects that ask for less than 3.5. Nested builds use the links of the compiler, and Python builds
# use x86_64-linux-gnu-gcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_CMAKE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_CMAKE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build gcc-9 g++-9 libc6-dev git python3-distutils; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"9 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.16 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 9 "$(c++ -dumpfullversion)"
# What the project clones during the build is already here, at its commit and with the requested tag, so that a moved
# tag changes nothing. Other addresses go below REPROKIT_GIT, where undeclared ones are refused by name.
ARG REPROKIT_GIT=https://
RUN git config --global url."$REPROKIT_GIT".insteadOf https:// && git config --global advice.detachedHead false
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    git init -q --bare /fetched/googletest.git; cd /fetched/googletest.git; \
    git fetch -q --depth 1 https://github.com/google/googletest 58d77fa8070e8cec2dc1ed015d66b454c8d78850 || git fetch -q https://github.com/google/googletest '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/remotes/tags/*'; \
    git update-ref refs/heads/fetched 58d77fa8070e8cec2dc1ed015d66b454c8d78850; git symbolic-ref HEAD refs/heads/fetched; \
    git update-ref refs/tags/release-1.12.1 58d77fa8070e8cec2dc1ed015d66b454c8d78850; \
    git config --global url./fetched/googletest.insteadOf https://github.com/google/googletest; \
    expect 'commit that a clone of googletest gives' 58d77fa8070e8cec2dc1ed015d66b454c8d78850 "$(git ls-remote https://github.com/google/googletest HEAD | cut -f 1)"
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    export CUDAHOSTCXX=/usr/bin/g++-9; \
    mkdir -p /opt/fastertransformer/build /product/opt/fastertransformer; cd /opt/fastertransformer; \
    cmake -G Ninja -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=/usr/bin/gcc-9 -DCMAKE_CXX_COMPILER=/usr/bin/g++-9 \
        -DCMAKE_CUDA_HOST_COMPILER=/usr/bin/g++-9 -DCUDA_HOST_COMPILER=/usr/bin/g++-9 \
        -DSM=80 \
        -DBUILD_PYT=ON \
        -DGIT_AUTOCLONE_CUTLASS=OFF \
        -DBUILD_CUTLASS_MIXED_GEMM=OFF \
        -DBUILD_MULTI_GPU=OFF; \
    ninja -C build th_transformer transformer-shared bert_gemm bert_example; \
    test -e build/lib/libth_transformer.so || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/lib/libth_transformer.so built "$(test -e build/lib/libth_transformer.so && echo built)"; cp -a --parents build/lib/libth_transformer.so /product/opt/fastertransformer; \
    test -e build/lib/libtransformer-shared.so || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/lib/libtransformer-shared.so built "$(test -e build/lib/libtransformer-shared.so && echo built)"; cp -a --parents build/lib/libtransformer-shared.so /product/opt/fastertransformer; \
    test -e build/bin/bert_gemm || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/bin/bert_gemm built "$(test -e build/bin/bert_gemm && echo built)"; cp -a --parents build/bin/bert_gemm /product/opt/fastertransformer; \
    test -e build/bin/bert_example || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect build/bin/bert_example built "$(test -e build/bin/bert_example && echo built)"; cp -a --parents build/bin/bert_example /product/opt/fastertransformer; \
    du -sh /product; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-cmake
COPY --from=cmake /product/ /
# pitfall build-ok-artifact-missing
# There is no driver while an image is built; the toolkit's stub of libcuda replaces it.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    cd /opt/fastertransformer; \
    expect 'libraries that its products do not find' 0 "$(find build/lib/libth_transformer.so build/lib/libtransformer-shared.so build/bin/bert_gemm build/bin/bert_example -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"

# pitfall missing-python-package
# There is no driver while an image is built; the toolkit's stub of libcuda replaces it for modules that link it.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    for module in numpy torch transformers.modeling_bert; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
