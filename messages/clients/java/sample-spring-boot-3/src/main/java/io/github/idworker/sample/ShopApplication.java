package io.github.idworker.sample;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A shop whose orders are stored by Hibernate, and whose invoices are stored by MyBatis-Plus. */
@SpringBootApplication
public class ShopApplication {
    ShopApplication() {}

    /** Runs the shop against the NATS server of {@code idworker.servers}. */
    public static void main(String[] arguments) {
        SpringApplication.run(ShopApplication.class, arguments);
    }
}
