# featgraph, variant cuda-debian
ARG BASE=debian:11
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
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect distribution debian:11 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
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
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3.9 python3.9-venv; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    python3.9 -m venv --system-site-packages /opt/venv; \
    [ ! -e /opt/venv/lib/*/site-packages/setuptools ] || /opt/venv/bin/python3 -m pip uninstall --yes --quiet --disable-pip-version-check setuptools; \
    expect 'first python on PATH' /opt/venv/bin/python3 "$(command -v python3)"; \
    expect python 3.9 "$(python3 -c 'import platform; print(platform.python_version())')"

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
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends nvidia-cuda-toolkit libcuda1 g++-10; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"10 "/usr/local/bin/$name"; done; \
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
    expect nvcc 11.2 "$(nvcc --version | sed -n 's/.*, V//p')"; \
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

ARG REPROKIT_APT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block apt: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends python3-attr python3-decorator python3-numpy python3-psutil python3-scipy; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for package in python3-attr python3-decorator python3-numpy python3-psutil python3-scipy; do \
        expect "$package" installed "$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}")"; \
    done

ARG REPROKIT_APT_LLVM=
# pitfall llvm-from-source: the distribution's packages need 0.5 GB and save an hour of compiling.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block llvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_LLVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_LLVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends libllvm11; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    expect llvm 11 "$(dpkg-query -W -f '${Version}' libllvm11 | sed 's/^[0-9]*://')"

FROM base AS git
ARG REPROKIT_APT_GIT=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_GIT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_GIT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends git; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
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
    mkdir -p /opt/tvm; cd /opt/tvm; \
    git init -q; git remote add origin https://github.com/apache/tvm; \
    git fetch -q --depth 1 origin 728b829575e5e690870b111ae2256cbe0f3dbe6f || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q 728b829575e5e690870b111ae2256cbe0f3dbe6f; \
    expect 'commit of tvm' 728b829575e5e690870b111ae2256cbe0f3dbe6f "$(git rev-parse HEAD)"; \
    git submodule -q update --init --recursive --depth 1 || { \
        git submodule -q deinit --all --force; rm -rf .git/modules; git submodule -q update --init --recursive; \
    }; \
    expect 'submodules away from their commits' 0 "$(git submodule status --recursive | grep -c '^[^ ]')"; \
    find . -name .git -prune -exec rm -rf {} +
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export GIT_TERMINAL_PROMPT=0; \
    mkdir -p /opt/featgraph; cd /opt/featgraph; \
    git init -q; git remote add origin https://github.com/amazon-science/FeatGraph; \
    git fetch -q --depth 1 origin f0a380f276f27cdc00f8bc1706a722faf8342474 || git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; \
    git checkout -q f0a380f276f27cdc00f8bc1706a722faf8342474; \
    expect 'commit of featgraph' f0a380f276f27cdc00f8bc1706a722faf8342474 "$(git rev-parse HEAD)"; \
    find . -name .git -prune -exec rm -rf {} +
# With the folders above them, as COPY would make those with the time of the build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /product; cd /; \
    for path in /opt/featgraph; do path="$(realpath "$path")"; cp -a --parents "${path#/}" /product; done

FROM image AS with-git
COPY --from=git /product/ /
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    for path in /opt/featgraph; do \
        expect "$path" present "$(test -e "$path" && echo present)"; \
    done
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block git: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    printf '%s\n' /opt/featgraph/python > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/sources.pth"; \
    for path in /opt/featgraph/python; do \
        expect "$path" 'on sys.path' "$(python3 -c 'import sys; print("on sys.path" if sys.argv[1] in sys.path else "not on sys.path")' "$path")"; \
    done

FROM with-git AS tvm
ARG REPROKIT_APT_TVM=
COPY --from=git /opt/tvm /opt/tvm
# CMake 4 refuses projects that ask for less than 3.5, such as TVM up to 0.8 and its dmlc-core.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_TVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_TVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build g++-10 llvm-11-dev libedit-dev libtinfo-dev libxml2-dev zlib1g-dev; \
    [ ! -x /usr/bin/python3.9 ] || find /usr/lib/python3* -name '*.cpython-39.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-39.pyc$,\1.py,' | python3.9 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.18 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 10 "$(g++-10 -dumpfullversion)"; \
    expect llvm 11 "$(/usr/bin/llvm-config-11 --version)"
# llvm-config by its absolute path, as another environment's would shadow /usr/bin (pitfall llvm-config-path). Without
# it TVM builds, but reports "Target llvm is not enabled" (pitfall tvm-llvm-off). Options are appended to config.cmake,
# as its own set() lines override the command line. libbacktrace only improves traces, and needs an autotools build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /opt/tvm/build; cd /opt/tvm/build; cp ../cmake/config.cmake .; \
    printf 'set(%s)\n' 'USE_LLVM /usr/bin/llvm-config-11' 'USE_LIBBACKTRACE OFF' 'USE_CUDA ON' >> config.cmake; \
    cmake -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SKIP_RPATH=ON -DCMAKE_C_COMPILER=gcc-10 -DCMAKE_CXX_COMPILER=g++-10 ..; \
    ninja tvm tvm_runtime; \
    mkdir -p /product/opt/tvm/build; cp libtvm.so libtvm_runtime.so /product/opt/tvm/build; \
    cp -r ../python /product/opt/tvm; \
    expect libtvm.so present "$(test -s /product/opt/tvm/build/libtvm.so && echo present)"; \
    cd /product; find . -mindepth 1 -type d | while IFS= read -r folder; do \
        [ ! -d "/$folder" ] || { chmod --reference="/$folder" "$folder"; chown --reference="/$folder" "$folder"; }; \
    done

FROM with-git AS with-tvm
COPY --from=tvm /product/ /
# pitfalls build-ok-artifact-missing, tvm-llvm-off, tvm-cuda-off, cublas-not-found
# There is no driver while an image is built. The toolkit's stub of libcuda is enough to ask whether a backend was
# compiled.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    echo /opt/tvm/python > "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/tvm.pth"; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    expect 'libraries that libtvm.so does not find' 0 "$(ldd /opt/tvm/build/libtvm.so | grep -c 'not found')"; \
    expect tvm 0.7.0 "$(python3 -c 'import tvm; print(tvm.__version__)')"; \
    expect numpy 1.19 "$(python3 -c 'import numpy; print(numpy.__version__)')"; \
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
    for module in scipy.sparse tvm.topi.util featgraph.module featgraph.util; do \
        expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module" | sed -n '$s/^importable$/&/p')"; \
    done

WORKDIR /workspace
SHELL ["/bin/sh", "-c"]
