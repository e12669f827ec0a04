FROM image AS extension_package
ARG REPROKIT_APT_EXTENSION_PACKAGE=
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_EXTENSION_PACKAGE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_EXTENSION_PACKAGE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends gcc-11 g++-11 libc6-dev python3.10-dev git; \
    [ ! -x /usr/bin/python3.10 ] || find /usr/lib/python3* -name '*.cpython-310.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-310.pyc$,\1.py,' | python3.10 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"11 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    expect gcc 11 "$(c++ -dumpfullversion)"; \
    for module in setuptools wheel; do expect "$module" importable "$(python3 -c 'import sys, importlib; importlib.import_module(sys.argv[1]); print("importable")' "$module")"; done
COPY --from=git /product/ /
COPY --from=git /opt/flash /opt/flash
# Nothing is fetched: the Python packages for the build are in the image, at their locked versions. With build
# isolation, pip would build against the newest torch.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block extension_package: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export NVCC_APPEND_FLAGS=--objdir-as-tempdir; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    export CC=/usr/local/bin/gcc CXX=/usr/local/bin/g++ AR=gcc-ar-11; \
    jobs="$(awk -v each=9 '/^MemAvailable:/ { print int($2 / 1048576 / each) }' /proc/meminfo)"; \
    [ "$jobs" -ge 1 ] || jobs=1; [ "$jobs" -le "$(nproc)" ] || jobs="$(nproc)"; export MAX_JOBS="$jobs"; \
    export FORCE_BUILD=TRUE; \
    export 'TORCH_CUDA_ARCH_LIST=8.0;9.0'; \
    cd /opt/flash; \
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
