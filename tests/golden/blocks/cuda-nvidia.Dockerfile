ENV CUDA_HOME=/usr/local/cuda
# Not every image of the vendor tells the loader where its libraries are.
RUN echo /usr/local/cuda/lib64 > /etc/ld.so.conf.d/cuda-toolkit.conf && ldconfig
# pitfall devel-vs-runtime: a runtime image has no nvcc. pitfall gcc-too-new: nvcc refuses a host compiler that is newer
# than it knows, and is no use without one.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cuda: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect nvcc 11.8 "$(nvcc --version | sed -n 's/.*, V//p')"; \
    expect cuda_runtime.h present "$(test -e "$CUDA_HOME/include/cuda_runtime.h" && echo present)"; \
    expect libcudart.so present "$(ldconfig -p | grep -q 'libcudart\.so' && echo present)"; \
    probe="$(mktemp -d)"; echo '__global__ void kernel() {}' > "$probe/kernel.cu"; \
    expect nvcc 'able to compile' "$(nvcc -c -o "$probe/kernel.o" "$probe/kernel.cu" >&2 && echo 'able to compile')"; \
    rm -r "$probe"
