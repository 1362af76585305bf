package io.github.idworker.hibernate;

import org.hibernate.boot.registry.StandardServiceRegistryBuilder;
import org.hibernate.service.spi.ServiceContributor;

/** Lets Hibernate find the source of IDs. Hibernate loads it by its service file; nothing else needs this class. */
public final class RowIdsContributor implements ServiceContributor {
    /** Called by Java's service loader. */
    public RowIdsContributor() {}

    @Override
    public void contribute(StandardServiceRegistryBuilder builder) {
        builder.addInitiator(RowIdsService.INITIATOR);
    }
}
