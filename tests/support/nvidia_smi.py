"""A stand-in for nvidia-smi. It answers a query as drivers do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PROGRAM = """#!/bin/sh
[ "$1" != -L ] || {{ cat <<'END'
{listed}
END
exit; }}
fields=$(echo "${{1#--query-gpu=}}" | tr , ' ')
for field in $fields; do
  case " {fields} " in *" $field "*) ;; *) echo "Field \\"$field\\" is not a valid field to query."; exit 2 ;; esac
done
row() {{ line=; for field in $fields; do line="$line, $(eval "cell $field")"; done; echo "${{line#, }}"; }}
{rows}
"""


def smi_program(*gpus: Mapping[str, str], listed: str = "") -> str:
    """The program's text. `gpus` are their fields; `listed` is what `nvidia-smi -L` prints."""
    rows = []
    for gpu in gpus:
        cases = "".join(f"{field}) printf %s '{value}' ;; " for field, value in gpu.items())
        rows.append(f"cell() {{ case $1 in {cases}esac; }}\nrow")
    fields = " ".join(dict.fromkeys(field for gpu in gpus for field in gpu))
    return _PROGRAM.format(fields=fields, rows="\n".join(rows), listed=listed)


def write_smi(file: Path, *gpus: Mapping[str, str], listed: str = "") -> None:
    """Write the program into `file`."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(smi_program(*gpus, listed=listed))
    file.chmod(0o755)
