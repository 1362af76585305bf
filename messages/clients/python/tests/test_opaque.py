"""Opaque IDs. vectors.json has the cases that all languages share."""

import base64
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from idworker_client import BadArgumentError, BadTagError
from idworker_client.opaque import OpaqueIdError, OpaqueKeys

KEY = base64.b64encode(bytes(range(32))).decode()
FILE = f"number {KEY}\n1 {KEY}\n"
KEYS = OpaqueKeys(FILE)
LARGEST = 2**63 - 1


def test_each_number_opens_to_its_id_and_none_is_sealed_alike() -> None:
    for bits in (53, 63):
        codec = KEYS.numbers("order", bits=bits)
        largest = 2**bits - 1
        chosen = random.Random(bits)
        ids = {1, 2, largest - 1, largest, *(chosen.randrange(1, largest) for _ in range(500))}
        sealed = {codec.seal(id) for id in ids}
        assert len(sealed) == len(ids)
        assert all(1 <= s <= largest for s in sealed)
        assert {codec.open(s) for s in sealed} == ids


def test_threads_share_a_codec() -> None:
    codec = KEYS.texts("order", "ord")
    ids = range(1, 2001)
    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(codec.seal, ids))
        assert list(threads.map(codec.open, texts)) == list(ids)
    assert texts == [codec.seal(id) for id in ids]


@pytest.mark.parametrize("id", [0, -1, LARGEST + 1, 1.0, True, "1", None, pytest.param(10**5000, id="huge")])
def test_what_is_no_id_is_refused_with_the_bounds(id: int) -> None:
    for seal in (KEYS.numbers("order").seal, KEYS.texts("order", "ord").seal):
        with pytest.raises(
            OpaqueIdError, match=r"^outside the width: ID .{1,40}, allowed is 1 to 2\^63-1$"
        ) as raised:
            seal(id)
        assert raised.value.fault == "range"
        assert isinstance(raised.value, BadArgumentError)


def test_a_tag_and_a_prefix_are_checked() -> None:
    with pytest.raises(BadTagError):
        KEYS.numbers("or der")
    with pytest.raises(OpaqueIdError, match=r'^wrong prefix: "Ord", allowed are a-z 0-9 _$'):
        KEYS.texts("order", "Ord")
    with pytest.raises(OpaqueIdError, match=r"^wrong prefix"):
        KEYS.texts("order", "ord\n")


def test_a_key_file_may_have_comments_in_any_encoding(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"# Schl\xfcssel\r\n\r\n\t" + FILE.replace("\n", "\r\n").encode() + b"# \xe7\xb5\x82")
    assert OpaqueKeys.load(file).fingerprint() == KEYS.fingerprint()
    with pytest.raises(OSError):
        OpaqueKeys.load(tmp_path / "none")


def test_no_message_and_no_repr_shows_a_key() -> None:
    secret = base64.b64encode(b"secret" * 6).decode()  # too long for a key
    with pytest.raises(OpaqueIdError) as raised:
        OpaqueKeys(f"1 {secret}\n")
    shown = [str(raised.value), repr(KEYS), repr(KEYS.texts("order", "ord")), repr(KEYS.numbers("order"))]
    assert not [text for text in shown if secret in text or KEY in text]
    assert raised.value.__context__ is None


def test_without_cryptography_the_import_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None;"
        " import idworker_client.number; import idworker_client.opaque"
    )
    failed = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == (
        "ImportError: idworker_client.opaque needs cryptography: pip install 'idworker-client[opaque]'"
    )
