"""IdBatch."""

from idworker_client import IdBatch


def test_a_batch_yields_the_ids_of_its_ranges() -> None:
    last = 2**63 - 1
    batch = IdBatch(((1, 3), (last, last)))
    assert list(batch) == [1, 2, 3, last]
    assert len(batch) == 4
