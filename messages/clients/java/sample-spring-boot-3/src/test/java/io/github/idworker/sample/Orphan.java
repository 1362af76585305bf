package io.github.idworker.sample;

import io.github.idworker.hibernate.IdworkerId;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;

/** A row of a tag that does not exist. */
@Entity
class Orphan {
    @Id
    @IdworkerId("orphan")
    Long id;
}
