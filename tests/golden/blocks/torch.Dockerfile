# pitfall cuda-mismatch: the wheel's own CUDA is tested.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block torch: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    expect torch 1.8.0+cu111 "$(python3 -c 'import torch; print(torch.__version__)')"; \
    expect 'CUDA of torch' 11.1 "$(python3 -c 'import torch; print(torch.version.cuda or "none")')"
