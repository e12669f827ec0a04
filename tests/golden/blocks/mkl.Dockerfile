# The wheels only have libmkl_*.so.1 in the environment, where linkers and loader do not search; linkers need another
# name too.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block mkl: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    root="$(python3 -c 'import sys; print(sys.prefix)')"; \
    ln -s "$root"/include/*.h /usr/local/include/; \
    ln -s "$root/lib/libiomp5.so" /usr/local/lib/; \
    for file in "$root"/lib/libmkl_*.so.1; do \
        name="${file##*/}"; ln -s "$file" "/usr/local/lib/$name"; ln -s "$name" "/usr/local/lib/${name%.1}"; \
    done; \
    ldconfig; \
    expect mkl.h present "$(test -s /usr/local/include/mkl.h && echo present)"
# MKL loads its kernels at the first call, and they need global symbols of the other libraries. Python does not load
# those globally, so MKL fails with `undefined symbol`. LD_PRELOAD loads them globally.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block mkl: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    export LD_PRELOAD="/usr/local/lib/libiomp5.so /usr/local/lib/libmkl_core.so.1 /usr/local/lib/libmkl_intel_thread.so.1 /usr/local/lib/libmkl_intel_lp64.so.1"; \
    expect 'scalar product by MKL' 25.0 "$(python3 -c 'import ctypes as c; ddot = c.CDLL(None).cblas_ddot; ddot.restype = c.c_double; v = (c.c_double * 2)(3, 4); print(ddot(2, v, 1, v, 1))')"
