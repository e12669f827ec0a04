# pitfall submodule-missing: an empty folder where CUTLASS should be is found here, not by a compiler.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block cutlass: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    cd /opt/cutlass/include/cutlass; \
    expect cutlass/cutlass.h present "$(test -s cutlass.h && echo present)"; \
    expect cutlass 2.9.0 "$(sed -n 's/^#define CUTLASS_\(MAJOR\|MINOR\|PATCH\) *\([0-9][0-9]*\).*/\2/p' version.h | paste -sd .)"
