# reprokit sets REPROKIT_WHEELS and serves exactly the locked set. Without it, pip uses its own indexes. Before Python
# 3.12 an environment has setuptools; where no wheel brings another, it is the distribution's.
ARG REPROKIT_WHEELS=
# The lock pins what ranges and dependencies mean. Sdists are built with the build requirements that it names.
# The archive of a commit: the forge's own, or what reprokit serves of the locked commits.
ARG REPROKIT_ARCHIVES=https://
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block wheels: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    if [ -n "$REPROKIT_WHEELS" ]; then \
        set -- --index-url "$REPROKIT_WHEELS" --trusted-host wheels.reprokit.invalid; \
    else \
        set --; \
    fi; \
    [ -z "$REPROKIT_WHEELS" ] || set -- "$@" --constraint "${REPROKIT_WHEELS}constraints.txt" --trusted-host archives.reprokit.invalid; \
    CFLAGS=-g0 CXXFLAGS=-g0 python3 -m pip install --no-cache-dir --disable-pip-version-check --prefer-binary "$@" \
        numpy==1.26.4 \
        'scipy[all]<2,>=1.7' \
        'tomli; python_version < "3.11"' \
        'tool[x] @ '"$REPROKIT_ARCHIVES"'github.com/o/tool/archive/0123456789012345678901234567890123456789.tar.gz#subdirectory=py ; python_version > "3"'; \
    python3 -c 'import sys, importlib.util; sys.exit(sys.version_info < (3, 12) and not importlib.util.find_spec("setuptools"))' || \
        python3 -m pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /usr/share/python-wheels/setuptools-*.whl; \
    set -- $(python3 -m pip show --disable-pip-version-check numpy scipy | sed -n 's/^Version: //p'); \
    expect numpy 1.26.4 "${1:-}"; shift; \
    expect scipy installed "${1:+installed}"; shift; \
    python3 -m pip check --disable-pip-version-check
