FROM image AS tvm
ARG REPROKIT_APT_TVM=
# CMake 4 refuses projects that ask for less than 3.5, such as TVM up to 0.8 and its dmlc-core.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_TVM:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_TVM ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    touch /tmp/installing; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build g++-11 llvm-14-dev libedit-dev libtinfo-dev libxml2-dev zlib1g-dev; \
    [ ! -x /usr/bin/python3.10 ] || find /usr/lib/python3* -name '*.cpython-310.pyc' -newer /tmp/installing | sed 's,__pycache__/\(.*\).cpython-310.pyc$,\1.py,' | python3.10 -m py_compile -; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 11 "$(g++-11 -dumpfullversion)"; \
    expect llvm 14 "$(/usr/bin/llvm-config-14 --version)"
COPY --from=git /opt/tvm /opt/tvm
# llvm-config by its absolute path, as another environment's would shadow /usr/bin (pitfall llvm-config-path). Without
# it TVM builds, but reports "Target llvm is not enabled" (pitfall tvm-llvm-off). Options are appended to config.cmake,
# as its own set() lines override the command line. libbacktrace only improves traces, and needs an autotools build.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block tvm: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    mkdir /opt/tvm/build; cd /opt/tvm/build; cp ../cmake/config.cmake .; \
    printf 'set(%s)\n' 'USE_LLVM /usr/bin/llvm-config-14' 'USE_LIBBACKTRACE OFF' 'USE_CUDA ON' 'USE_CUBLAS ON' 'USE_CUDNN ON' >> config.cmake; \
    cmake -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SKIP_RPATH=ON -DCMAKE_C_COMPILER=gcc-11 -DCMAKE_CXX_COMPILER=g++-11 ..; \
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
    export NVCC_APPEND_FLAGS=--objdir-as-tempdir; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    expect 'libraries that libtvm.so does not find' 0 "$(ldd /opt/tvm/build/libtvm.so | grep -c 'not found')"; \
    expect tvm 0.8.0 "$(python3 -c 'import tvm; print(tvm.__version__)')"; \
    expect 'libcublas in libtvm.so' 1 "$(ldd /opt/tvm/build/libtvm.so | grep -c libcublas.so)"; \
    expect 'libcudnn in libtvm.so' 1 "$(ldd /opt/tvm/build/libtvm.so | grep -c libcudnn.so)"; \
    for backend in llvm cuda; do \
        expect "tvm.runtime.enabled $backend" 1 "$(python3 -c 'import sys, tvm; print(int(tvm.runtime.enabled(sys.argv[1])))' "$backend")"; \
    done
