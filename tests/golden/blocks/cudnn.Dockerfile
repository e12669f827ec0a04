# pitfall cudnn-header: the version is read from where compilers find the header. Since cuDNN 8, cudnn.h holds none.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cudnn: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    header="$(for folder in /usr/local/include /usr/include /usr/include/x86_64-linux-gnu /usr/local/cuda/include; do for file in "$folder"/cudnn_version.h "$folder"/cudnn.h; do [ ! -e "$file" ] || echo "$file"; done; done | head -n 1)"; \
    expect 'header of cudnn' present "${header:+present}"; \
    expect cudnn 8.9.6 "$(sed -n 's/^#define CUDNN_\(MAJOR\|MINOR\|PATCHLEVEL\) *\([0-9][0-9]*\).*/\2/p' "$header" | paste -sd .)"; \
    expect libcudnn.so present "$(ldconfig -p | grep -q 'libcudnn\.so ' && echo present)"
