# paper, variant v
ARG BASE=debian:12
FROM ${BASE} AS base

ENV LANG=C.UTF-8
# An old image has expired certificates (pitfall apt-expired-ca): they are renewed before anything uses TLS.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    apt-get update; \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates; \
    rm -rf /var/lib/apt/lists/*; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"
