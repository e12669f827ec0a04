# Linkers need library names without versions, and compilers do not search the wheel.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cudnn: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    root="$(python3 -c 'import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0])')"; \
    ln -s "$root"/include/cudnn*.h /usr/local/include/; \
    for file in "$root"/lib/libcudnn*.so.*; do \
        name="${file##*/}"; ln -s "$file" "/usr/local/lib/$name"; ln -s "$file" "/usr/local/lib/${name%.so.*}.so"; \
    done; \
    ldconfig
# pitfall cudnn-header: the version is read from where compilers find the header. Since cuDNN 8, cudnn.h holds none.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cudnn: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    header="$(for folder in /usr/local/include /usr/include /usr/include/x86_64-linux-gnu /usr/local/cuda/include; do for file in "$folder"/cudnn_version.h "$folder"/cudnn.h; do [ ! -e "$file" ] || echo "$file"; done; done | head -n 1)"; \
    expect 'header of cudnn' present "${header:+present}"; \
    expect cudnn 8.9.6 "$(sed -n 's/^#define CUDNN_\(MAJOR\|MINOR\|PATCHLEVEL\) *\([0-9][0-9]*\).*/\2/p' "$header" | paste -sd .)"; \
    expect libcudnn.so present "$(ldconfig -p | grep -q 'libcudnn\.so ' && echo present)"
