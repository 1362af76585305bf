package io.github.idworker.spring;

import io.github.idworker.BadConfigException;
import io.github.idworker.ConnectFailedException;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DataObjectPropertyName;
import org.springframework.boot.context.properties.bind.UnboundConfigurationPropertiesException;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.annotation.Order;

/** Says in words why an application did not start; Spring Boot explains wrong values itself. */
final class StartFailures {
    private static final ConfigurationPropertyName PREFIX = ConfigurationPropertyName.of("idworker");

    private StartFailures() {}

    /** Names the properties that exist, which Spring Boot's own analyzer of the same failure does not. */
    @Order(0)
    static final class UnknownProperty extends AbstractFailureAnalyzer<UnboundConfigurationPropertiesException> {
        UnknownProperty() {}

        @Override
        protected @Nullable FailureAnalysis analyze(
                Throwable failure, UnboundConfigurationPropertiesException cause) {
            List<String> unknown = cause.getUnboundProperties().stream()
                    .filter(property -> PREFIX.isAncestorOf(property.getName()))
                    .map(UnknownProperty::describe)
                    .toList();
            if (unknown.isEmpty()) {
                return null;
            }
            List<String> known = new ArrayList<>();
            collect(PREFIX.toString(), IdworkerProperties.class, known);
            return new FailureAnalysis(
                    "Unknown property: " + String.join(", ", unknown) + ".",
                    "Correct or remove it. Allowed are " + String.join(", ", known) + ".",
                    cause);
        }

        private static String describe(ConfigurationProperty property) {
            return property.getOrigin() == null
                    ? property.getName().toString()
                    : property.getName() + " (" + property.getOrigin() + ")";
        }

        private static void collect(String prefix, Class<?> type, List<String> names) {
            for (RecordComponent component : type.getRecordComponents()) {
                String name = prefix + "." + DataObjectPropertyName.toDashedForm(component.getName());
                if (component.getType().isRecord()) {
                    collect(name, component.getType(), names);
                } else {
                    names.add(name);
                }
            }
        }
    }

    /** Names the properties that decide where and how the client connects. */
    static final class NoConnection extends AbstractFailureAnalyzer<ConnectFailedException> {
        NoConnection() {}

        @Override
        protected FailureAnalysis analyze(Throwable failure, ConnectFailedException cause) {
            return new FailureAnalysis(
                    "The idworker client did not connect: " + cause.getMessage() + ".",
                    "Check that a NATS server runs at idworker.servers, and that it accepts idworker.user and "
                            + "idworker.password, or idworker.credentials. Without idworker.fail-fast the application "
                            + "starts, and the client keeps trying.",
                    cause);
        }
    }

    /** A wrong option of the connection, which only shows as it is made. */
    static final class BadConnection extends AbstractFailureAnalyzer<BadConfigException> {
        BadConnection() {}

        @Override
        protected FailureAnalysis analyze(Throwable failure, BadConfigException cause) {
            return new FailureAnalysis(
                    "The idworker client did not connect: " + cause.getMessage() + ".",
                    "Correct idworker.servers, idworker.credentials or idworker.ssl.bundle.",
                    cause);
        }
    }
}
