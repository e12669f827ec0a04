# faith, variant cuda
ARG BASE=nvidia/cuda:11.1.1-cudnn8-devel-ubuntu20.04
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
    expect nvcc 11.1 "$(nvcc --version | sed -n 's/.*, V//p')"; \
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
    expect cudnn 8.0.5 "$(sed -n 's/^#define CUDNN_\(MAJOR\|MINOR\|PATCHLEVEL\) *\([0-9][0-9]*\).*/\2/p' "$header" | paste -sd .)"; \
    expect libcudnn.so present "$(ldconfig -p | grep -q 'libcudnn\.so ' && echo present)"

# torch and its dependencies only: the variant's own versions are installed over them, by the block wheels.
ARG REPROKIT_WHEELS_TORCH=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS_TORCH" ]; then \
        set -- --index-url "$REPROKIT_WHEELS_TORCH" --trusted-host wheels.reprokit.invalid; \
    else \
        set -- --extra-index-url https://download.pytorch.org/whl/cu111; \
    fi; \
    printf '%s\n' 'numpy<2' 'setuptools<70' 'setuptools<82' > /tmp/bounds; set -- "$@" --constraint /tmp/bounds; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" torch==1.8.0+cu111; \
    python3 -m pip check --disable-pip-version-check
# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 1.8.0+cu111 "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' 11.1 "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"

# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set -- --extra-index-url https://download.pytorch.org/whl/cu111; \
    fi; \
    python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        torch==1.8.0+cu111 \
        attrs==21.2.0 \
        cloudpickle==2.0.0 \
        xgboost==1.5.2 \
        decorator==5.1.0 \
        ninja==1.10.2.3 \
        nltk==3.6.7 \
        numpy==1.19.5 \
        pandas==1.1.5 \
        psutil==5.8.0 \
        scikit-learn==1.0.2 \
        scipy==1.5.4 \
        synr==0.5.0 \
        tornado==6.1 \
        tqdm==4.62.3; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check torch attrs cloudpickle xgboost decorator ninja nltk numpy pandas psutil scikit-learn scipy synr tornado tqdm | sed -n 's/^Version: //p'); \
    expect torch 1.8.0+cu111 "${1:-}"; shift; \
    expect attrs 21.2.0 "${1:-}"; shift; \
    expect cloudpickle 2.0.0 "${1:-}"; shift; \
    expect xgboost 1.5.2 "${1:-}"; shift; \
    expect decorator 5.1.0 "${1:-}"; shift; \
    expect ninja 1.10.2.3 "${1:-}"; shift; \
    expect nltk 3.6.7 "${1:-}"; shift; \
    expect numpy 1.19.5 "${1:-}"; shift; \
    expect pandas 1.1.5 "${1:-}"; shift; \
    expect psutil 5.8.0 "${1:-}"; shift; \
    expect scikit-learn 1.0.2 "${1:-}"; shift; \
    expect scipy 1.5.4 "${1:-}"; shift; \
    expect synr 0.5.0 "${1:-}"; shift; \
    expect tornado 6.1 "${1:-}"; shift; \
    expect tqdm 4.62.3 "${1:-}"; shift; \
    python3 -m pip check --disable-pip-version-check

ARG REPROKIT_APT_EXTENSION=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_EXTENSION:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_EXTENSION ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-9 g++-9 libc6-dev python3.8-dev; \
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
    expect nvcc 11.1 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect torch/extension.h present "$(python3 -c 'import os; from torch.utils.cpp_extension import include_paths; print("present" if any(os.path.exists(p + "/torch/extension.h") for p in include_paths()) else "")')"

ARG REPROKIT_APT_LLVM=
# pitfall llvm-from-source: the distribution's packages need 0.5 GB and save an hour of compiling.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block llvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_LLVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_LLVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends libllvm10; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect llvm 10 "$(dpkg-query -W -f '${Version}' libllvm10 | sed 's/^[0-9]*://')"

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
    mkdir -p /home/boyuan/verification_tianqi; cd /home/boyuan/verification_tianqi; \
    git init -q; git remote add origin https://github.com/BoyuanFeng/Faith; \
    git fetch -q --depth 1 origin a5b894ff13014b02209e429933bd6ac027005fda || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q a5b894ff13014b02209e429933bd6ac027005fda; \
    expect 'commit of faith' a5b894ff13014b02209e429933bd6ac027005fda "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +; \
    chmod -R a+rwX .
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /home/boyuan/verification_tianqi/cutlass; cd /home/boyuan/verification_tianqi/cutlass; \
    git init -q; git remote add origin https://github.com/NVIDIA/cutlass; \
    git fetch -q --depth 1 origin 319a389f42b776fae5701afcb943fc03be5b5c25 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 319a389f42b776fae5701afcb943fc03be5b5c25 -- CMakeLists.txt include tools/util/include examples/common; \
    expect 'commit of cutlass' 319a389f42b776fae5701afcb943fc03be5b5c25 "$(git rev-parse '319a389f42b776fae5701afcb943fc03be5b5c25^{commit}')"; \
    for path in CMakeLists.txt include tools/util/include examples/common; do expect "$path" present "$(test -e "$path" && echo present)"; done; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/tvm; cd /opt/tvm; \
    git init -q; git remote add origin https://github.com/apache/tvm; \
    git fetch -q --depth 1 origin 7b3a22e465dd6aca4729504a19beb4bc23312755 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 7b3a22e465dd6aca4729504a19beb4bc23312755; \
    expect 'commit of tvm' 7b3a22e465dd6aca4729504a19beb4bc23312755 "$(git rev-parse HEAD)"; \
    git submodule -q update --init --recursive --depth 1 || { \
        git submodule -q deinit --all --force; rm -rf .git/modules; git submodule -q update --init --recursive; \
    }; \
    expect 'submodules away from their commits' 0 "$(git submodule status --recursive | grep -c '^[^ ]')"; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /home/boyuan/verification_tianqi; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /home/boyuan/verification_tianqi; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done

# pitfall submodule-missing: an empty CUTLASS folder fails here instead of in a compiler. CUTLASS 2 has its version in
# CMakeLists.txt, CUTLASS 3 and later in a header.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cutlass: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /home/boyuan/verification_tianqi/cutlass; \
    expect cutlass/cutlass.h present "$(test -s include/cutlass/cutlass.h && echo present)"; \
    if [ -e include/cutlass/version.h ]; then \
        version="$(sed -n 's/^#define CUTLASS_\(MAJOR\|MINOR\|PATCH\) *\([0-9][0-9]*\).*/\2/p' include/cutlass/version.h | paste -sd .)"; \
    else \
        version="$(sed -n 's/^project(CUTLASS VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"; \
    fi; \
    expect cutlass 2.9.0 "$version"

FROM image AS tvm
ARG REPROKIT_APT_TVM=
# CMake 4 refuses projects that ask for less than 3.5, such as TVM up to 0.8 and its dmlc-core.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_TVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_TVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build g++-9 llvm-10-dev libedit-dev libtinfo-dev libxml2-dev zlib1g-dev; \
    [ ! -x /usr/bin/python3.8 ] || find /usr/lib/python3* -name '*.cpython-38.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-38.pyc$,\1.py,' | python3.8 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.16 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 9 "$(g++-9 -dumpfullversion)"; \
    expect llvm 10 "$(/usr/bin/llvm-config-10 --version)"
COPY --from=git /product/ /
COPY --from=git /opt/tvm /opt/tvm
# llvm-config by its absolute path, as another environment's would shadow /usr/bin (pitfall llvm-config-path). Without
# it TVM builds, but reports "Target llvm is not enabled" (pitfall tvm-llvm-off). Options are appended to config.cmake,
# as its own set() lines override the command line. libbacktrace only improves traces, and needs an autotools build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /opt/tvm/build; cd /opt/tvm/build; cp ../cmake/config.cmake .; \
    printf 'set(%s)\n' 'USE_LLVM /usr/bin/llvm-config-10' 'USE_LIBBACKTRACE OFF' 'USE_CUDA ON' 'USE_CUBLAS ON' 'USE_CUDNN ON' >> config.cmake; \
    cmake -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SKIP_RPATH=ON -DCMAKE_C_COMPILER=gcc-9 -DCMAKE_CXX_COMPILER=g++-9 ..; \
    ninja tvm tvm_runtime; \
    mkdir -p /product/opt/tvm/build; cp libtvm.so libtvm_runtime.so /product/opt/tvm/build; \
    cp -r ../python /product/opt/tvm; \
    expect libtvm.so present "$(test -s /product/opt/tvm/build/libtvm.so && echo present)"; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-tvm
COPY --from=tvm /product/ /
RUN echo /opt/tvm/python > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/tvm.pth"
# pitfalls build-ok-artifact-missing, tvm-llvm-off, tvm-cuda-off, cublas-not-found
# There is no driver while an image is built. The toolkit's stub of libcuda is enough to ask whether a backend was
# compiled.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    expect 'libraries that libtvm.so does not find' 0 "$(ldd /opt/tvm/build/libtvm.so | grep -c 'not found')"; \
    expect tvm 0.8.0 "$(python3 -c 'import tvm; print(tvm.__version__)')"; \
    expect numpy 1.19.5 "$(python3 -c 'import numpy; print(numpy.__version__)')"; \
    expect 'libcublas in libtvm.so' 1 "$(ldd /opt/tvm/build/libtvm.so | grep -c libcublas.so)"; \
    expect 'libcudnn in libtvm.so' 1 "$(ldd /opt/tvm/build/libtvm.so | grep -c libcudnn.so)"; \
    for backend in llvm cuda; do \
        expect "tvm.runtime.enabled $backend" 1 "$(python3 -c 'import sys, tvm; print(int(tvm.runtime.enabled(sys.argv[1])))' "$backend")"; \
    done

# pitfall missing-python-package
# There is no driver while an image is built; the toolkit's stub of libcuda replaces it for modules that link it.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block imports: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    for module in cloudpickle nltk pandas scipy sklearn xgboost tvm.relay tvm.auto_scheduler tvm.contrib.graph_executor; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

# pitfall readme-prints-nothing: with dash, os.system("cmd &> log") empties the log and runs cmd in the background.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    ln -sf bash /bin/sh; \
    expect sh bash "$(sh -c 'echo "${BASH:+bash}"')"

ENV TORCH_CUDA_ARCH_LIST="8.0;8.6"
WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
