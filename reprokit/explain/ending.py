"""The line at the end of a log that reads most like an error, whatever program wrote it."""

from __future__ import annotations

import re

# Lines before the end that are searched.
WINDOW = 40
# Where nothing else shows a failure, such a line is one only within so many lines of the end.
LAST_WORDS = 14
_WORDS = re.compile(
    rb"(?i)(?<![\w/.@\"<-])(?:error(?= *[:!(\[]| in |$)|fatal|failed|failure|cannot|can't|could ?n(?:o|')t"
    rb"|unable to|no such|not enough|insufficient|denied|killed|aborted|aborting|panic|crash(?:ed)?|out of memory"
    rb"|does(?:n't| not) exist|not installed|command not found|segmentation fault|core dumped|\w+error|\w+exception"
    rb"|invalid|not allowed|not supported|unsupported|mismatch|does(?:n't| not) match|abort|unterminated"
    rb"|unrecogni[sz]ed|not implemented|problems? while|conflict(?:s|ing)? with"
    rb"|no (?:such )?(?:file|device|module)|refused)(?![\w/(-]|\.\w| =)"
)
_LEVEL = re.compile(rb"(?<![\w/.@\"<-])(?:ERROR|FATAL|Error|Fatal)\b(?![/.-])")
_ASIDE = re.compile(rb"(?<=\s)\([^()]*\)")
# Levels below an error, counts of none, metrics, names of tests and commits, places in sources.
_HARMLESS = re.compile(
    rb"(?i)\b(?:no|0|without(?: any)?|zero) (?:errors?|failures?|failed)\b"
    rb"|\b(?:errors?|failures?|failed|killed) *[:=]+ *\d|\b(?:errors|failures) \d"
    rb"|\b(?:errors|failed)\b[\w ]{0,20}[:=]+ *0\b"
    rb"|\berror (?:rate|code: 0|bound|tolerance)|in case of|\bACPI\b"
    rb"|\b(?:mean|max|avg|abs\w*|rel\w*|l[12]|squared|average|maximum) \w*? ?error"
    rb"|\b(?:warn(?:ing)?|info|debug|pass(?:ed)?|ignor(?:ed|ing)|skip(?:ped|ping)|if|can be)\b|\[ *ok *\]|#"
    rb"|^ok \d|^W: |^[IWD]\d{4} [\d:.]+ |^-|\bnote: |^\S+:\d+:|^\[?(?:\S+ )?[0-9a-f]{7,12}\]? "
)
# The program went on after what it complained about. Command-line tools in Go print INFO[0000] only while they go on,
# and engines end with the ID of what they made.
_WENT_ON = re.compile(
    rb"(?i)succe(?:ss|ed)|retry|falling back|fall back|continuing|trying again|(?<!for )\bcompleted?\b"
    rb"|\b(?:finished|done|epoch|loss|accuracy|throughput|bandwidth|saved|started|ready|listening)\b"
    rb"|(?<![\w.-])\d(?:[\d.,]*\d)? ?(?:ms|us|s|it/s|[GM]B/s|[GT]FLOP/?s|\w+/s(?:ec)?)\b"
    rb"|\b(?:suppress|disable|silence) (?:this|these) (?:warning|message)s?\b"
    rb"|^INFO\[\d+\] (?!.*(?:delet|shut|stopp|clean|roll))|^(?:[0-9a-f]{12}|[0-9a-f]{64})$"
)
# Results: more of them than one after an error show that it ended nothing.
_RESULT = re.compile(
    rb"(?i)\b(?:loss|acc(?:uracy)?|ppl|psnr|throughput|bandwidth|speedup)\b[\w ()/]{0,20}[:='|]* *[1-9\d][\d.]*[1-9]"
    rb"|(?<![\d.])(?:[1-9][\d.,]*|0\.\d*[1-9]\d*) ?(?:it|[KMG]i?B|[GT]FLOPS?|[a-z]{1,12})/s(?:ec(?:ond)?)?\b"
    rb"|\b(?:time|latency|elapsed|step|took)\b[^\d]{0,30}(?:[1-9][\d.]*|0\.\d*[1-9]\d*) ?(?:ms|us|s|sec\w*|seconds)\b"
    rb"|\b100 ?%.{0,20}(?:\||\d+/\d+)|\b(?:finished|completed|succeeded|saved|done)\b(?! with)"
    rb"|^(?:epoch|iter\w*|step)\b.{0,20}\d|\d *\|? *(?:\xc2\xb1|\+/-) *\|? *[\d.]+"
)

# A line at the level of information that holds nothing but an exception.
_INFO_EXCEPTION = re.compile(
    rb"^(?:I\d{4} [^\]]{1,100}\] |(?:[\d:,.T-]+ ){0,3}[\[(]?INFO[\])]?[: -]+(?:[\w.]+ *[:-] *)?)"
    rb"(?=[A-Z]\w*(?:Error|Exception): \S)"
)


def exception_at(line: bytes) -> int | None:
    """Where the exception begins that a line at the level of information holds."""
    match = _INFO_EXCEPTION.match(line[:1000])
    return match.end() if match else None


def reads_like_error(line: bytes) -> bool:
    """Whether a line has words of an error, in a place where they mean one."""
    line = _ASIDE.sub(b"", line[:1000])
    return bool(_WORDS.search(line) or _LEVEL.search(line)) and not _HARMLESS.search(line)


def went_on(line: bytes) -> bool:
    """Whether a line says that something was achieved."""
    return bool(_WENT_ON.search(line[:1000]))


def is_result(line: bytes) -> bool:
    """Whether a line reports a measurement or a finished part."""
    return bool(_RESULT.search(line[:1000])) and not reads_like_error(line)
