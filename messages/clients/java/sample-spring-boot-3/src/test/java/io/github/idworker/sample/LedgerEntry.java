package io.github.idworker.sample;

import io.github.idworker.hibernate.IdworkerId;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;

/** A row of a strict tag. */
@Entity
class LedgerEntry {
    @Id
    @IdworkerId("ledger")
    Long id;
}
