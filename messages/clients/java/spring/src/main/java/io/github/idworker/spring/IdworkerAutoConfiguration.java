package io.github.idworker.spring;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import io.github.idworker.BadArgumentException;
import io.github.idworker.IdClient;
import io.github.idworker.IdClientOptions;
import io.github.idworker.PrefetchOptions;
import io.github.idworker.RowIds;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.nats.client.Connection;
import java.nio.file.Path;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.context.properties.source.InvalidConfigurationPropertyValueException;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Makes the beans {@link IdClient} and {@link RowIds} from
 * {@link IdworkerProperties}, and what goes with them: meters, IDs for
 * MyBatis-Plus, and the end of the client's connection at a checkpoint. A bean of
 * the application takes the place of one made here.
 *
 * <p>The client connects in the background, so that an application starts while
 * no server answers, as with other clients of Spring; with {@code
 * idworker.fail-fast} the start fails. If {@code idworker.servers} is not set and
 * there is a bean {@link Connection}, the client uses that, and the application has
 * to close it before a checkpoint.
 */
@AutoConfiguration(
        // Applications of Spring Cloud would get the generator of that configuration.
        beforeName = "com.baomidou.mybatisplus.autoconfigure.IdentifierGeneratorAutoConfiguration")
@EnableConfigurationProperties(IdworkerProperties.class)
public class IdworkerAutoConfiguration {
    IdworkerAutoConfiguration() {}

    @Bean
    IdworkerConnection idworkerConnection(IdworkerProperties properties, ObjectProvider<Connection> connections) {
        return new IdworkerConnection(properties.servers().isEmpty() ? connections.getIfAvailable() : null);
    }

    @Bean
    @ConditionalOnMissingBean
    IdClient idClient(
            IdworkerProperties properties, IdworkerConnection connection, ObjectProvider<SslBundles> bundles,
            ObjectProvider<IdworkerTraceparent> traceparents) {
        String user = properties.user();
        String password = properties.password();
        Path credentials = properties.credentials();
        String inboxPrefix = properties.inboxPrefix();
        String bundle = properties.ssl().bundle();
        IdClientOptions options = IdClientOptions.DEFAULTS;
        options = allowed("prefix", properties.prefix(), options::withPrefix);
        options = allowed("timeout", properties.timeout(), options::withTimeout);
        IdworkerTraceparent traceparent = traceparents.getIfAvailable();
        if (traceparent != null) {
            options = options.withTraceparent(traceparent);
        }
        Connection given = connection.given();
        if (given != null) {
            refuse("user", user);
            refuse("credentials", credentials);
            refuse("ssl.bundle", bundle);
            refuse("inbox-prefix", inboxPrefix);
            return IdClient.of(given, options);
        }
        if (!properties.servers().isEmpty()) {
            options = allowed("servers", properties.servers().toArray(String[]::new), options::withServers);
        }
        if (user != null) {
            if (password == null) {
                throw invalid("user", user, "it needs idworker.password, too");
            }
            if (credentials != null) {
                throw invalid("user", user, "idworker.credentials is set; only one of the two is allowed");
            }
            options = options.withUser(user, password);
        }
        if (credentials != null) {
            options = allowed("credentials", credentials, options::withCredentials);
        }
        if (inboxPrefix != null) {
            options = allowed("inbox-prefix", inboxPrefix, options::withInboxPrefix);
        }
        options = options.withNats(builder -> {
            connection.connecting();
            if (bundle != null) {
                builder.sslContext(bundles.getObject().getBundle(bundle).createSslContext());
            }
            return builder.connectionListener(connection::use);
        });
        return properties.failFast() ? IdClient.connect(options) : IdClient.connectInBackground(options);
    }

    @Bean
    @ConditionalOnMissingBean
    RowIds rowIds(IdworkerProperties properties, IdClient client) {
        IdworkerProperties.Prefetch prefetch = properties.prefetch();
        allowed("prefetch.runway", prefetch.runway(), runway -> new PrefetchOptions(runway, 1, 1));
        allowed("prefetch.limit", prefetch.limit(), limit -> new PrefetchOptions(prefetch.runway(), limit, 1));
        PrefetchOptions options = allowed("prefetch.max-batch", prefetch.maxBatch(),
                maxBatch -> new PrefetchOptions(prefetch.runway(), prefetch.limit(), maxBatch));
        Set<String> except = prefetch.except();
        allowed("prefetch.except", except, tags -> RowIds.of(client, RowIds.DEFAULT_WAIT, options, tags));
        return allowed("row-wait", properties.rowWait(), wait -> RowIds.of(client, wait, options, except));
    }

    @Bean
    IdworkerLifecycle idworkerLifecycle(IdClient client, ConfigurableApplicationContext context) {
        return new IdworkerLifecycle(client, context);
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class Meters {
        Meters() {}

        @Bean
        IdworkerMeters idworkerMeters(IdworkerConnection connection) {
            return new IdworkerMeters(connection);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(IdentifierGenerator.class)
    static class MyBatisPlus {
        MyBatisPlus() {}

        @Bean
        @ConditionalOnMissingBean(IdentifierGenerator.class)
        IdworkerIdentifierGenerator idworkerIdentifierGenerator(RowIds ids) {
            return new IdworkerIdentifierGenerator(ids);
        }
    }

    /** Returns what a property's value makes; the failure names the property and the place where it is set. */
    private static <T, R> R allowed(String property, T value, Function<T, R> make) {
        try {
            return make.apply(value);
        } catch (IllegalArgumentException | BadArgumentException e) {
            throw invalid(property, value, e.getMessage());
        }
    }

    private static void refuse(String property, @Nullable Object value) {
        if (value != null) {
            throw invalid(property, value, "the client uses the bean Connection, which has a login and TLS of its own; "
                    + "set idworker.servers, too, for another connection");
        }
    }

    private static InvalidConfigurationPropertyValueException invalid(
            String property, @Nullable Object value, String reason) {
        return new InvalidConfigurationPropertyValueException("idworker." + property, value, reason);
    }
}
