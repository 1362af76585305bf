package io.github.idworker.spring.boot3;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.Module;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import io.github.idworker.RowIds;
import io.github.idworker.hibernate.IdworkerSettings;
import io.github.idworker.spring.IdworkerAutoConfiguration;
import io.github.idworker.spring.IdworkerConnection;
import java.io.IOException;
import org.hibernate.SessionFactory;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.orm.jpa.HibernatePropertiesCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * What Spring Boot 3 has in packages of its own: Hibernate takes the IDs of
 * {@link io.github.idworker.hibernate.IdworkerId} from the bean {@link RowIds},
 * health has an indicator {@code idworker}, and Jackson 2 writes long numbers as
 * strings if {@code idworker.jackson.ids-as-strings} is true.
 */
@AutoConfiguration(after = IdworkerAutoConfiguration.class)
public class IdworkerBoot3AutoConfiguration {
    IdworkerBoot3AutoConfiguration() {}

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
    @ConditionalOnClass(ObjectMapper.class)
    @ConditionalOnProperty("idworker.jackson.ids-as-strings")
    static class Jackson {
        Jackson() {}

        @Bean
        Module idworkerIdsAsStrings() {
            return new SimpleModule("idworker-ids-as-strings")
                    .addSerializer(Long.class, ToStringSerializer.instance)
                    .addSerializer(long.class, ToStringSerializer.instance)
                    .addSerializer(new LongArray());
        }
    }

    private static final class LongArray extends StdSerializer<long[]> {
        private static final long serialVersionUID = 1L;

        LongArray() {
            super(long[].class);
        }

        @Override
        public void serialize(long[] numbers, JsonGenerator out, SerializerProvider context) throws IOException {
            out.writeStartArray();
            for (long number : numbers) {
                out.writeString(Long.toString(number));
            }
            out.writeEndArray();
        }
    }
}
