RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block apt: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    set -- make g++=4:12.2.0-3; \
    apt-get update; \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; \
    rm -rf /var/lib/apt/lists/*; \
    for package do \
        expect "$package" installed "$(dpkg-query -W -f '${db:Status-Status}' "${package%%=*}")"; \
    done
