package io.github.idworker.hibernate;

import java.util.Map;
import java.util.UUID;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Makes session factories, each on an empty H2 database of its own. */
final class Databases {
    /** A strong reference, or the level is lost. */
    private static final Logger LOG = Logger.getLogger("org.hibernate");

    static {
        LOG.setLevel(Level.OFF);
    }

    private Databases() {}

    /** The settings of an empty database. */
    static Map<String, Object> settings() {
        return Map.of(
                "hibernate.connection.url", "jdbc:h2:mem:" + UUID.randomUUID() + ";DB_CLOSE_DELAY=-1",
                "hibernate.connection.pool_size", "16",
                "hibernate.hbm2ddl.auto", "create");
    }

    static SessionFactory open(Map<String, Object> more, Class<?>... entities) {
        Configuration configuration = new Configuration();
        configuration.getProperties().putAll(settings());
        configuration.getProperties().putAll(more);
        for (Class<?> entity : entities) {
            configuration.addAnnotatedClass(entity);
        }
        return configuration.buildSessionFactory();
    }
}
