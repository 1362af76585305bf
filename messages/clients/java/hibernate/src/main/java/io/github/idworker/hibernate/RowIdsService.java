package io.github.idworker.hibernate;

import static io.github.idworker.hibernate.IdworkerSettings.CLIENT;
import static io.github.idworker.hibernate.IdworkerSettings.CREDENTIALS;
import static io.github.idworker.hibernate.IdworkerSettings.FAIL_FAST;
import static io.github.idworker.hibernate.IdworkerSettings.INBOX_PREFIX;
import static io.github.idworker.hibernate.IdworkerSettings.PASSWORD;
import static io.github.idworker.hibernate.IdworkerSettings.PREFIX;
import static io.github.idworker.hibernate.IdworkerSettings.ROW_IDS;
import static io.github.idworker.hibernate.IdworkerSettings.SERVERS;
import static io.github.idworker.hibernate.IdworkerSettings.USER;

import io.github.idworker.IdClient;
import io.github.idworker.IdClientOptions;
import io.github.idworker.IdworkerException;
import io.github.idworker.RowIds;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.hibernate.boot.registry.StandardServiceInitiator;
import org.hibernate.service.Service;
import org.hibernate.service.spi.ServiceException;
import org.hibernate.service.spi.ServiceRegistryImplementor;
import org.hibernate.service.spi.Stoppable;
import org.jspecify.annotations.Nullable;

/**
 * The IDs of a service registry, which is Hibernate's unit of configuration: one
 * for each {@code SessionFactory}, as a rule. Hibernate makes it when the first
 * generator asks, and stops it with the registry.
 */
final class RowIdsService implements Service, Stoppable {
    private static final long serialVersionUID = 1L;

    private static final List<String> TEXTS =
            List.of(SERVERS, USER, PASSWORD, CREDENTIALS, PREFIX, INBOX_PREFIX, FAIL_FAST);

    /** A {@link ServiceException} passes through Hibernate as it is, others get a longer message. */
    static final StandardServiceInitiator<RowIdsService> INITIATOR = new StandardServiceInitiator<>() {
        @Override
        public Class<RowIdsService> getServiceInitiated() {
            return RowIdsService.class;
        }

        @Override
        public RowIdsService initiateService(Map<String, Object> settings, ServiceRegistryImplementor registry) {
            try {
                return from(settings);
            } catch (IdworkerException e) {
                throw new ServiceException("@IdworkerId has no client: " + e.getMessage(), e);
            }
        }
    };

    private final transient RowIds ids;
    private final transient Runnable end;

    private RowIdsService(RowIds ids, Runnable end) {
        this.ids = ids;
        this.end = end;
    }

    private static RowIdsService from(Map<String, Object> settings) {
        RowIds ids = object(settings, ROW_IDS, RowIds.class);
        if (ids != null) {
            return new RowIdsService(ids, () -> {});
        }
        IdClient client = object(settings, CLIENT, IdClient.class);
        if (client != null) {
            RowIds made = RowIds.of(client);
            return new RowIdsService(made, made::close);
        }
        IdClientOptions options = options(settings);
        boolean failFast = Boolean.parseBoolean(text(settings, FAIL_FAST));
        IdClient own = failFast ? IdClient.connect(options) : IdClient.connectInBackground(options);
        return new RowIdsService(RowIds.of(own), own::close);
    }

    private static <T> @Nullable T object(Map<String, Object> settings, String key, Class<T> type) {
        Object value = settings.get(key);
        if (value != null && !type.isInstance(value)) {
            throw new ServiceException(key + " is " + value.getClass().getName() + ", but must be " + type.getName());
        }
        return type.cast(value);
    }

    private static IdClientOptions options(Map<String, Object> settings) {
        TreeSet<String> unknown = new TreeSet<>(settings.keySet());
        unknown.removeIf(key -> !key.startsWith("idworker.") || TEXTS.contains(key));
        if (!unknown.isEmpty()) {
            throw new ServiceException("Hibernate's configuration has the unknown key " + unknown.first()
                    + "; known are " + ROW_IDS + ", " + CLIENT + ", " + String.join(", ", TEXTS));
        }
        String servers = text(settings, SERVERS);
        if (servers == null) {
            throw new ServiceException("@IdworkerId has no client: set " + ROW_IDS + ", " + CLIENT + " or " + SERVERS
                    + " in Hibernate's configuration");
        }
        IdClientOptions options = IdClientOptions.DEFAULTS.withServers(servers.trim().split("\\s*,\\s*"));
        String user = text(settings, USER);
        String password = text(settings, PASSWORD);
        if ((user == null) != (password == null)) {
            throw new ServiceException(USER + " and " + PASSWORD + " must be set together");
        }
        if (user != null && password != null) {
            options = options.withUser(user, password);
        }
        String credentials = text(settings, CREDENTIALS);
        if (credentials != null) {
            options = options.withCredentials(Path.of(credentials));
        }
        String prefix = text(settings, PREFIX);
        if (prefix != null) {
            options = options.withPrefix(prefix);
        }
        String inboxPrefix = text(settings, INBOX_PREFIX);
        return inboxPrefix == null ? options : options.withInboxPrefix(inboxPrefix);
    }

    private static @Nullable String text(Map<String, Object> settings, String key) {
        Object value = settings.get(key);
        return value == null ? null : value.toString();
    }

    RowIds ids() {
        return ids;
    }

    @Override
    public void stop() {
        end.run();
    }
}
