FROM image AS cmake
ARG REPROKIT_APT_CMAKE=
# CMake 4 refuses projects that ask for less than 3.5. Nested builds use the links of the compiler, and Python builds
# use x86_64-linux-gnu-gcc.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    sources=""; [ -z "${REPROKIT_APT_CMAKE:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT_CMAKE ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends cmake ninja-build gcc-11 g++-11 libc6-dev; \
    apt-get clean; rm -f /var/lib/apt/lists/*_* /tmp/locked.list; \
    for tool in gcc g++; do \
        for name in "$tool" "$(uname -m)-linux-gnu-$tool"; do ln -sf "/usr/bin/$tool-"11 "/usr/local/bin/$name"; done; \
    done; \
    ln -sf gcc /usr/local/bin/cc; ln -sf g++ /usr/local/bin/c++; \
    cmake="$(cmake --version | sed -n 's/^cmake version //p')"; \
    expect cmake 3.25 "$cmake"; \
    expect 'cmake below 4, that is' 3 "$cmake"; \
    expect gcc 11 "$(c++ -dumpfullversion)"
COPY --from=git /opt/project /opt/project
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cmake: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export NVCC_APPEND_FLAGS=--objdir-as-tempdir; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    export CUDAHOSTCXX=/usr/bin/g++-11; \
    mkdir -p /opt/project/out /product/opt/project; cd /opt/project; \
    expect 3rd/cub present "$(test -d 3rd/cub && echo present)"; rm -r 3rd/cub; \
    cmake -G Ninja -S . -B out -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=/usr/bin/gcc-11 -DCMAKE_CXX_COMPILER=/usr/bin/g++-11 \
        -DCMAKE_CUDA_HOST_COMPILER=/usr/bin/g++-11 -DCUDA_HOST_COMPILER=/usr/bin/g++-11; \
    ninja -C out; \
    test -e out/lib/libproject.so || find . -type f '(' -perm /111 -o -name '*.so*' -o -name '*.a' ')' ! -path '*/CMakeFiles/*' ! -path './.git/*' -printf 'reprokit: made %P\n' | head -n 50 >&2; \
    expect out/lib/libproject.so built "$(test -e out/lib/libproject.so && echo built)"; cp -a --parents out/lib/libproject.so /product/opt/project; \
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
    export NVCC_APPEND_FLAGS=--objdir-as-tempdir; \
    stubs="$(mktemp -d)"; \
    [ ! -e /usr/local/cuda/lib64/stubs/libcuda.so ] || ln -s /usr/local/cuda/lib64/stubs/libcuda.so "$stubs/libcuda.so.1"; \
    export LD_LIBRARY_PATH="$stubs:/usr/lib/x86_64-linux-gnu/nvidia/current:${LD_LIBRARY_PATH:-/usr/local/lib}"; \
    cd /opt/project; \
    expect 'libraries that its products do not find' 0 "$(find out/lib/libproject.so -type f '(' -name '*.so*' -o -perm /111 ')' -exec ldd {} + 2>/dev/null | grep -c 'not found')"
