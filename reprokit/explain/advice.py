"""What a log itself advises, and how to search for its error elsewhere."""

from __future__ import annotations

import re

from reprokit.explain.place import unstamped

_MOST = 2
_LONGEST = 300
# Sentences in which programs tell their users what to do.
_ADVICE = re.compile(
    r"(?:^|[.;:!] |\b(?:hint|help|note|tip|suggestion): )(?P<advice>(?:Please |Perhaps |Maybe |Did you "
    r"|[Yy]ou (?:must|need|should|may|might|can|could) |[Tt]o (?:fix|solve|resolve|avoid|install|enable|disable)\b"
    r"|(?:Check|Make sure|Ensure|Verify|Try|Consider|Use|Set|Install|Run|Specify|Add|Re-?run|Update|Upgrade|Reinstall"
    r"|Consult|See)\b ).{8,})|\b(?:[Hh]int|[Hh]elp|[Tt]ip|[Ss]uggestion): (?P<hint>.{8,})"
)
# What is different in the next person's log.
_OWN = re.compile(
    r"\w+://\S+|(?:[\w.~-]*/)+[\w.+~-]*|\b(?:0x)?[0-9a-f]{7,}\b|\b\d[\d:.,]* ?(?:[KMGT]?i?B|ms|s|%)?\b"
    r"|[#@=<>|*`'\"()\[\]{}:;,]"
)
_WORDS = 12


def advice(context: list[tuple[int, str]], line: int) -> list[tuple[int, str]]:
    """Advice at and below a line, with the numbers of its lines."""
    quoted = []
    for number, text in context:
        match = _ADVICE.search(unstamped(text)) if number >= line else None
        if match:
            quoted.append((number, (match["advice"] or match["hint"]).strip()[:_LONGEST]))
    return quoted[:_MOST]


def query(text: str) -> str:
    """The words of an error without paths, numbers, times and addresses, to search for."""
    words = [word.strip(".-") for word in _OWN.sub(" ", unstamped(text)).split()]
    return " ".join([word for word in words if len(word) > 1][:_WORDS])
