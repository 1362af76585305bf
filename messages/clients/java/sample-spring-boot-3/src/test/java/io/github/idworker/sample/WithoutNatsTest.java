package io.github.idworker.sample;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.idworker.IdClient;
import org.junit.jupiter.api.Test;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;

/** The shop without NATS, as docs/java.md shows it: Hibernate and MyBatis-Plus take IDs of the client in memory. */
class WithoutNatsTest {
    @TestConfiguration(proxyBeanMethods = false)
    static class IdsInMemory {
        @Bean
        IdClient idClient() {
            return IdClient.inMemory();
        }
    }

    @Test
    void anOrderAndAnInvoiceGetTheFirstIds() {
        try (ConfigurableApplicationContext shop =
                new SpringApplicationBuilder(ShopApplication.class, IdsInMemory.class).run("--server.port=0",
                        "--spring.datasource.url=jdbc:h2:mem:without-nats")) {
            assertEquals(1, shop.getBean(CustomerOrders.class).save(new CustomerOrder("Ada")).getId());
            Invoice invoice = new Invoice("Ada");
            shop.getBean(InvoiceMapper.class).insert(invoice);
            assertEquals(1, invoice.getId());
        }
    }
}
