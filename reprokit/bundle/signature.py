"""Bundles signed with ssh keys, by `ssh-keygen -Y` of OpenSSH 8.1 and newer.

The signature covers the digests of `index.json` and `reprokit.json`, which name every other byte of a bundle.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from reprokit.bundle.model import METADATA
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.oci.model import INDEX, digest_of

NAMESPACE = "reprokit-bundle"
_LIMIT_S = 120  # a key on a token waits for a touch


def statement(index: bytes, metadata: bytes) -> bytes:
    """The text that is signed, from the contents of both files."""
    return f"{NAMESPACE} 1\n{digest_of(index)} {INDEX}\n{digest_of(metadata)} {METADATA}\n".encode()


def sign(text: bytes, key: Path) -> bytes:
    """The armored signature by a private key, or by a public key whose private key is in an ssh agent.

    Raises UsageError if the key cannot sign, EngineError without ssh-keygen.
    """
    answer = _ssh_keygen(["-Y", "sign", "-n", NAMESPACE, "-f", str(key)], text)
    if answer.returncode or not answer.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        hint = "name an ssh key: a private one without a passphrase, or a public one that `ssh-add -l` lists"
        raise UsageError(f"the key cannot sign: {_last(answer.stderr)}", str(key), hint)
    return answer.stdout


def verify(text: bytes, signature: bytes, allowed: Path | None = None) -> str:
    """Verify a signature; returns the key's fingerprint, with its owner's name if `allowed` has one.

    `allowed` is a file of allowed signers (ssh-keygen(1)), or a public key; without it any key is accepted, for the
    user to judge. Raises WorkFailed if the signature does not match the text or an allowed key, EngineError without
    ssh-keygen.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        of_text = ["-n", NAMESPACE, "-s", str(file)]
        checked = _ssh_keygen(["-Y", "check-novalidate", *of_text], text)
        if checked.returncode:
            raise WorkFailed(
                "the signature does not match the bundle", hint="do not load it; ask its maker for a new copy"
            )
        fingerprint = _last(checked.stdout).rpartition(" ")[2]
        if allowed is None:
            return fingerprint
        signers = _signers(allowed, Path(folder))
        principals = _ssh_keygen(["-Y", "find-principals", "-s", str(file), "-f", str(signers)], b"")
        principal = _last(principals.stdout)
        arguments = ["-Y", "verify", *of_text, "-f", str(signers), "-I", principal]
        if principals.returncode or not principal or _ssh_keygen(arguments, text).returncode:
            raise WorkFailed(f"signed by {fingerprint}, which is not an allowed key", str(allowed))
        return fingerprint if principal == "*" else f"{principal} {fingerprint}"


def _signers(allowed: Path, folder: Path) -> Path:
    """A file of allowed signers; a public key is converted to one."""
    try:
        text = allowed.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the allowed keys: {error}", str(allowed)) from None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    signers = folder / "allowed"
    signers.write_text(
        "".join(f"* {line}\n" if line.startswith(("ssh-", "ecdsa-", "sk-")) else f"{line}\n" for line in lines)
    )
    return signers


def _ssh_keygen(arguments: list[str], text: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=text, capture_output=True, timeout=_LIMIT_S)
    except FileNotFoundError:
        raise EngineError("ssh-keygen is not installed", hint="install the OpenSSH client") from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"ssh-keygen did not answer within {_LIMIT_S} s", hint="use a key without a passphrase"
        ) from None


def _last(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "no answer"
