package io.github.idworker.spring.boot4;

import io.github.idworker.RowIds;
import io.github.idworker.hibernate.IdworkerSettings;
import io.github.idworker.spring.IdworkerAutoConfiguration;
import io.github.idworker.spring.IdworkerConnection;
import org.hibernate.SessionFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.hibernate.autoconfigure.HibernatePropertiesCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import tools.jackson.core.JsonGenerator;
import tools.jackson.databind.JacksonModule;
import tools.jackson.databind.SerializationContext;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.module.SimpleModule;
import tools.jackson.databind.ser.std.StdSerializer;
import tools.jackson.databind.ser.std.ToStringSerializer;

/**
 * What Spring Boot 4 has in packages of its own: Hibernate takes the IDs of
 * {@link io.github.idworker.hibernate.IdworkerId} from the bean {@link RowIds},
 * health has an indicator {@code idworker}, and Jackson 3 writes long numbers as
 * strings if {@code idworker.jackson.ids-as-strings} is true.
 */
@AutoConfiguration(after = IdworkerAutoConfiguration.class)
public class IdworkerBoot4AutoConfiguration {
    IdworkerBoot4AutoConfiguration() {}

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HibernatePropertiesCustomizer.class, SessionFactory.class})
    static class Hibernate {
        Hibernate() {}

        @Bean
        HibernatePropertiesCustomizer idworkerHibernate(RowIds ids) {
            return settings -> settings.put(IdworkerSettings.ROW_IDS, ids);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
    static class Indicator {
        Indicator() {}

        @Bean
        @ConditionalOnMissingBean(name = "idworkerHealthIndicator")
        @ConditionalOnEnabledHealthIndicator("idworker")
        HealthIndicator idworkerHealthIndicator(IdworkerConnection connection) {
            return () -> Health.status(connection.state().name()).withDetails(connection.details()).build();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(JsonMapper.class)
    @ConditionalOnProperty("idworker.jackson.ids-as-strings")
    static class Jackson {
        Jackson() {}

        @Bean
        JacksonModule idworkerIdsAsStrings() {
            return new SimpleModule("idworker-ids-as-strings")
                    .addSerializer(Long.class, ToStringSerializer.instance)
                    .addSerializer(long.class, ToStringSerializer.instance)
                    .addSerializer(new LongArray());
        }
    }

    private static final class LongArray extends StdSerializer<long[]> {
        LongArray() {
            super(long[].class);
        }

        @Override
        public void serialize(long[] numbers, JsonGenerator out, SerializationContext context) {
            out.writeStartArray();
            for (long number : numbers) {
                out.writeString(Long.toString(number));
            }
            out.writeEndArray();
        }
    }
}
