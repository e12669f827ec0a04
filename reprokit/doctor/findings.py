"""Make findings of checks on a machine."""

from __future__ import annotations

from reprokit.compat.model import Finding


def error(rule: str, subject: str, reason: str, remedy: str, fix: str = "") -> Finding:
    return Finding("error", rule, (subject,), reason, remedy=remedy, fix=fix)


def warning(rule: str, subject: str, reason: str, remedy: str, fix: str = "") -> Finding:
    return Finding("warning", rule, (subject,), reason, remedy=remedy, fix=fix)


def unknown(rule: str, subject: str, reason: str, remedy: str) -> Finding:
    return Finding("unknown", rule, (subject,), reason, remedy=remedy)


def info(rule: str, subject: str, reason: str = "") -> Finding:
    """A fact that `doctor` reports; it needs no remedy."""
    return Finding("info", rule, (subject,), reason)
