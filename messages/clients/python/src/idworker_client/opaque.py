"""IDs that show no count: opaque IDs, which do not show how many IDs there are, which came
first, or when it was made.

    keys = OpaqueKeys.load("opaque.keys")  # of idworker opaque keygen
    orders = keys.texts("order", "ord")
    text = orders.seal(1)  # "ord_164g7p0fvrzk7g6"
    id = orders.open(text)  # 1

All of it happens here: no request is sent, and workers have no keys. Text is the
form to recommend. It has a prefix, the generation of its key, 13 digits and a
check digit. Keys of texts can be replaced: the last generation in the file seals,
and a text opens as long as its generation is in the file. A number has no room
for a generation, so its key is for ever.

A codec belongs to a tag, or to any other name of that form: a table's, for
snowflake IDs. Two codecs with other keys, tags, forms or widths can make the same
opaque ID of two IDs. So services that share opaque IDs need the same keys; they
should log the fingerprint.

Opaque IDs are no authorization: every number within the width opens to some ID,
and so does each 32nd text. Check rights as if the caller had given the ID.

The package messages/opaque of the Go module states the algorithm. Needs the extra
opaque: pip install 'idworker-client[opaque]'. Any number of threads may share a codec.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ._arguments import check_tag
from ._errors import BadArgumentError
from ._quote import number, quote

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import ECB
except ImportError as error:
    raise ImportError(
        "idworker_client.opaque needs cryptography: pip install 'idworker-client[opaque]'"
    ) from error

__all__ = ["Fault", "NumberCodec", "OpaqueIdError", "OpaqueKeys", "TextCodec"]

Fault = Literal["keys", "bits", "no_key", "range", "prefix", "length", "alphabet", "generation", "check"]
"""What is wrong.

keys: the key file is malformed. bits: the width is neither 63 nor 53. no_key: the
file has no key of the form. range: the ID or the sealed number is below 1, or too
large for the width. prefix: the text has another prefix, or that for a codec is
malformed. length: the text has too few or too many digits. alphabet: it has a
character that is no digit. generation: the file has no key of its generation.
check: its check digit is wrong, because it was sealed for another tag or with
another key, or was mistyped.
"""

_WORDS: dict[Fault, str] = {
    "keys": "malformed key file",
    "bits": "bad width",
    "no_key": "no key",
    "range": "outside the width",
    "prefix": "wrong prefix",
    "length": "wrong length",
    "alphabet": "not a digit",
    "generation": "unknown generation",
    "check": "wrong check digit",
}

# The digits of texts, in ASCII order, without those that look like others.
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_KEY_BYTES = 32
_FULL_BITS = 63  # of any ID, and of the number in a text
_DOUBLE_BITS = 53  # of integers that doubles hold exactly
_NUMBER_LENGTH = (_FULL_BITS + 4) // 5
_LENGTH = 1 + _NUMBER_LENGTH + 1  # with generation and check digit
_LOWER_ASCII = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}  # the Kelvin sign is no K


class OpaqueIdError(BadArgumentError):
    """A key file, a codec's arguments, an ID or an opaque ID is not as it has to be."""

    fault: Fault

    def __init__(self, fault: Fault, why: str) -> None:
        super().__init__(f"{_WORDS[fault]}: {why}")
        self.fault = fault


class OpaqueKeys:
    """The keys of a file, which make codecs. They print as their fingerprint."""

    def __init__(self, key_file: str) -> None:
        """Read the text of a key file.

        Each line has a name, spaces or tabs, and a key: 32 bytes in standard, padded
        base64. The name is number, or the generation of a key for texts, a digit of
        0123456789abcdefghjkmnpqrstvwxyz. No name comes twice. The last generation
        seals. Empty lines and those that begin with # are ignored, and lines may end
        in CRLF. Raises OpaqueIdError, which names the line, and shows no key.
        """
        self._masters: dict[str, bytes] = {}  # in the file's order
        for i, line in enumerate(key_file.split("\n"), start=1):
            fields = re.split("[ \t\r]+", line.strip(" \t\r"))
            if fields != [""] and not fields[0].startswith("#"):
                self._add(f"line {i}", fields)
        if not self._masters:
            raise OpaqueIdError("keys", "no keys")

    @classmethod
    def load(cls, file: str | os.PathLike[str]) -> OpaqueKeys:
        """Read a key file. Raises OSError, too, if it cannot be read."""
        # Comments may be in any encoding, and all else is ASCII.
        return cls(Path(file).read_bytes().decode("latin-1"))

    def _add(self, where: str, fields: list[str]) -> None:
        name = fields[0]
        if len(fields) != 2 or not (name == "number" or (len(name) == 1 and name in _DIGITS)):
            raise OpaqueIdError("keys", f"{where}: expected number, or a generation of {_DIGITS}, and a key")
        if name in self._masters:
            raise OpaqueIdError("keys", f"{where}: {name} has a key already")
        key = _decode_key(fields[1])
        if key is None:
            raise OpaqueIdError("keys", f"{where}: the key of {name} is not base64 of {_KEY_BYTES} bytes")
        self._masters[name] = key

    def numbers(self, tag: str, *, bits: int = _FULL_BITS) -> NumberCodec:
        """Return the codec for numbers of a tag.

        bits is 63, or 53 for callers whose numbers are doubles, as in JavaScript. Raises
        OpaqueIdError (bits, no_key), BadTagError.
        """
        if bits not in (_FULL_BITS, _DOUBLE_BITS):
            raise OpaqueIdError("bits", f"width {number(bits)}, allowed are {_FULL_BITS} and {_DOUBLE_BITS}")
        check_tag(tag)
        if "number" not in self._masters:
            raise OpaqueIdError("no_key", "the key file has no line number")
        return NumberCodec(bits, _Permutation(_derive(self._masters["number"], "number", bits, tag), bits))

    def texts(self, tag: str, prefix: str) -> TextCodec:
        """Return the codec for texts of a tag, which begin with a prefix and a further _.

        prefix has characters of a-z 0-9 _, or none. Raises OpaqueIdError (prefix, no_key),
        BadTagError.
        """
        if not re.fullmatch("[a-z0-9_]*", prefix):
            raise OpaqueIdError("prefix", f"{quote(prefix)}, allowed are a-z 0-9 _")
        check_tag(tag)
        generations = [
            _Generation(
                digit,
                _Permutation(_derive(master, "text", _FULL_BITS, tag), _FULL_BITS),
                _derive(master, "check", _FULL_BITS, tag),
            )
            for digit, master in self._masters.items()
            if digit != "number"
        ]
        if not generations:
            raise OpaqueIdError("no_key", "the key file has no generation")
        return TextCodec(prefix + "_", generations)

    def fingerprint(self) -> str:
        """Identify the keys without showing them, in the file's order.

        As in ``number:af27d53ede339836 1:3d808385ee667c0e``.
        """
        return " ".join(
            f"{name}:{_expand(master, 'fingerprint')[:8].hex()}" for name, master in self._masters.items()
        )

    def __repr__(self) -> str:
        return f"<opaque keys {self.fingerprint()}>"


class NumberCodec:
    """Seals IDs of one tag as numbers. OpaqueKeys.numbers makes it."""

    def __init__(self, bits: int, cipher: _Permutation) -> None:
        self._bits = bits
        self._cipher = cipher

    def seal(self, id: int) -> int:
        """Return the opaque number of an ID. Both are from 1 to 2^bits−1.

        Raises OpaqueIdError (range).
        """
        _check_range("ID", id, self._bits)
        return self._cipher.seal(id)

    def open(self, sealed: int) -> int:
        """Return the ID of an opaque number. Both are from 1 to 2^bits−1.

        A number that seal never returned opens to some ID, too. Raises OpaqueIdError
        (range).
        """
        _check_range("sealed number", sealed, self._bits)
        return self._cipher.open(sealed)

    def __repr__(self) -> str:
        return f"<opaque numbers of {self._bits} bits>"


class TextCodec:
    """Seals IDs of one tag as texts. OpaqueKeys.texts makes it."""

    def __init__(self, prefix: str, generations: Sequence[_Generation]) -> None:
        self._prefix = prefix  # with the _
        self._generations = generations  # in the file's order; the last one seals

    def seal(self, id: int) -> str:
        """Return the opaque text of an ID from 1 to 2^63−1.

        It is in lower case: the prefix, _, and 15 digits. Raises OpaqueIdError (range).
        """
        _check_range("ID", id, _FULL_BITS)
        generation = self._generations[-1]
        sealed = generation.cipher.seal(id)
        digits = "".join(_DIGITS[sealed >> shift & 31] for shift in range(5 * (_NUMBER_LENGTH - 1), -1, -5))
        text = self._prefix + generation.digit + digits
        return text + generation.check_digit(text)

    def open(self, text: str) -> int:
        """Return the ID of an opaque text, from 1 to 2^63−1.

        Upper case is accepted in the whole text. A text that seal never returned opens
        to some ID in 1 of 32 cases. Raises OpaqueIdError (prefix, length, alphabet, range,
        generation, check).
        """
        lower = text.translate(_LOWER_ASCII)
        split = lower.rfind("_") + 1
        body = lower[split:]
        if lower[:split] != self._prefix:
            raise OpaqueIdError("prefix", f"{quote(text[:split])}, allowed is {self._prefix}")
        for i, digit in enumerate(body, start=split):
            if digit not in _DIGITS:
                raise OpaqueIdError(
                    "alphabet", f"{quote(text[i])} after {i} characters, allowed are {_DIGITS}"
                )
        if len(body) != _LENGTH:
            raise OpaqueIdError("length", f"{len(body)} digits after {self._prefix}, allowed is {_LENGTH}")
        sealed = 0
        for digit in body[1:-1]:
            sealed = sealed << 5 | _DIGITS.index(digit)
        if not 0 < sealed < 1 << _FULL_BITS:
            raise OpaqueIdError(
                "range", f"sealed number {body[1:-1]}, allowed is 0000000000001 to 7zzzzzzzzzzzz"
            )
        generation = next((g for g in self._generations if g.digit == body[0]), None)
        if generation is None:
            raise OpaqueIdError("generation", f"{body[0]} is not in the key file")
        if generation.check_digit(lower[:-1]) != body[-1]:
            raise OpaqueIdError("check", "the text is of another tag or key, or mistyped")
        return generation.cipher.open(sealed)

    def __repr__(self) -> str:
        return f"<opaque texts of {self._prefix}>"


class _Generation(NamedTuple):
    """What a generation's key yields for a tag."""

    digit: str
    cipher: _Permutation
    check: bytes

    def check_digit(self, text: str) -> str:
        """The check digit of a text that lacks only that: the first 8 bytes of its MAC, mod 32."""
        return _DIGITS[hmac.digest(self.check, text.encode("ascii"), "sha256")[7] & 31]

    def __repr__(self) -> str:
        return f"<generation {self.digit}>"  # without the key


class _Permutation:
    """FF1 of NIST SP 800-38G (algorithms 7 and 8) of the numbers below 2^bits: AES-256,
    radix 2, an empty tweak.

    The standard computes with strings of digits. bits is from 34 to 64, so each half
    has at most 32, and a round is one block of AES and one addition.
    """

    _ROUNDS = 10

    def __init__(self, key: bytes, bits: int) -> None:
        self._aes = Cipher(AES(key), ECB())
        left = bits // 2
        self._right = bits - left  # bits of the half B
        self._left_mask = (1 << left) - 1
        self._right_mask = (1 << self._right) - 1
        # The block P of the standard, encrypted. P is: version 1, method 2, addition 1;
        # radix 2; rounds; the lengths of the left half, of the whole and of the tweak.
        p = bytes((1, 2, 1, 0, 0, 2, self._ROUNDS, left, 0, 0, 0, bits, 0, 0, 0, 0))
        self._start = int.from_bytes(self._aes.encryptor().update(p), "big")

    def seal(self, id: int) -> int:
        """0 is no ID: where the cipher yields it, it is sealed once more."""
        return self._encrypt(id) or self._encrypt(0)

    def open(self, sealed: int) -> int:
        """Reverse seal."""
        return self._decrypt(sealed) or self._decrypt(0)

    def _encrypt(self, x: int) -> int:
        aes = self._aes.encryptor()  # one serves one thread at a time
        a, b = x >> self._right, x & self._right_mask
        for i in range(0, self._ROUNDS, 2):
            a = (a + self._mix(aes, i, b)) & self._left_mask
            b = (b + self._mix(aes, i + 1, a)) & self._right_mask
        return a << self._right | b

    def _decrypt(self, x: int) -> int:
        aes = self._aes.encryptor()
        a, b = x >> self._right, x & self._right_mask
        for i in range(self._ROUNDS - 2, -1, -2):
            b = (b - self._mix(aes, i + 1, a)) & self._right_mask
            a = (a - self._mix(aes, i, b)) & self._left_mask
        return a << self._right | b

    def _mix(self, aes: CipherContext, i: int, half: int) -> int:
        """The number y of a round: the CBC-MAC of P and Q, where Q has the round and a half
        in its last 5 bytes."""
        block = self._start ^ (i << 32 | half)
        return int.from_bytes(aes.update(block.to_bytes(16, "big"))[:8], "big")


def _derive(master: bytes, form: str, bits: int, tag: str) -> bytes:
    """The key of a codec."""
    return _expand(master, f"{form} {bits} {tag}")


def _expand(master: bytes, purpose: str) -> bytes:
    """The 32 bytes that only the master and a purpose yield: HKDF-SHA256 without salt, whose
    first block suffices."""
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), master, "sha256")
    return hmac.digest(extracted, f"idworker opaque v1 {purpose}".encode("ascii") + b"\x01", "sha256")


def _decode_key(text: str) -> bytes | None:
    """Return the key, or None. Python's decoder also takes what no encoder makes."""
    try:
        key = base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None  # its message may show a part of the key
    is_strict = base64.b64encode(key).decode("ascii") == text
    return key if is_strict and len(key) == _KEY_BYTES else None


def _check_range(what: str, n: int, bits: int) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n < 1 << bits:
        raise OpaqueIdError("range", f"{what} {number(n)}, allowed is 1 to 2^{bits}-1")
