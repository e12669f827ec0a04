# pitfall submodule-missing: an empty CUTLASS folder fails here instead of in a compiler. CUTLASS 2 has its version in
# CMakeLists.txt, CUTLASS 3 and later in a header.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cutlass: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/cutlass; \
    expect cutlass/cutlass.h present "$(test -s include/cutlass/cutlass.h && echo present)"; \
    if [ -e include/cutlass/version.h ]; then \
        version="$(sed -n 's/^#define CUTLASS_\(MAJOR\|MINOR\|PATCH\) *\([0-9][0-9]*\).*/\2/p' include/cutlass/version.h | paste -sd .)"; \
    else \
        version="$(sed -n 's/^project(CUTLASS VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"; \
    fi; \
    expect cutlass 2.9.0 "$version"
