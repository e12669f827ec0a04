# paper, variant v
ARG BASE=nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04
ARG REPROKIT_APT=
FROM ${BASE} AS base
ARG REPROKIT_APT

ENV LANG=C.UTF-8
# The key of the vendor's package lists was replaced in April 2022, which breaks `apt-get update` in older images. The
# image already contains what is needed of them.
# Old images have expired certificates (pitfall apt-expired-ca), which are renewed before anything uses TLS.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    rm -f /etc/apt/sources.list.d/cuda*.list /etc/apt/sources.list.d/nvidia-ml*.list; \
    sources=""; [ -z "${REPROKIT_APT:-}" ] || { echo "deb [trusted=yes] $REPROKIT_APT ./" > /tmp/locked.list; sources="-o Dir::Etc::SourceList=/tmp/locked.list -o Dir::Etc::SourceParts=-"; }; \
    apt-get $sources update; \
    DEBIAN_FRONTEND=noninteractive apt-get $sources install -y --no-install-recommends ca-certificates bash; \
    apt-get clean; rm -rf /var/lib/apt/lists/* /tmp/locked.list; \
    expect distribution ubuntu:22.04 "$(. /etc/os-release; echo "$ID:$VERSION_ID")"; \
    expect certificates present "$(test -s /etc/ssl/certs/ca-certificates.crt && echo present)"
# pitfall readme-prints-nothing: with dash, os.system("cmd &> log") empties the log and runs cmd in the background.
RUN set -eu; \
    expect() { case "$3" in "$2"|"$2"[.+-]*) ;; *) echo "reprokit: block base: expected $1 $2, found ${3:-nothing}" >&2; exit 1 ;; esac; }; \
    ln -sf bash /bin/sh; \
    expect sh bash "$(sh -c 'echo "${BASH:+bash}"')"
