"""The contract as data, as far as it needs no server."""

import vectors


def test_opaque_ids_and_numbers_of_vectors_json() -> None:
    cases, failed = vectors.check(vectors.FILE)
    assert failed == []
    assert cases["opaque"] >= 88
    assert cases["numbers"] >= 143
