FROM base AS image
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
