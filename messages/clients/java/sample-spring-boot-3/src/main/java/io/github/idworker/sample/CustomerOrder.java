package io.github.idworker.sample;

import io.github.idworker.hibernate.IdworkerId;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;

/** An order; Hibernate takes its ID from idworker before the insert. */
@Entity
public class CustomerOrder {
    @Id
    @IdworkerId("order")
    private Long id;

    private String customer;

    /** Called by Hibernate. */
    protected CustomerOrder() {}

    CustomerOrder(String customer) {
        this.customer = customer;
    }

    /** The ID; null before the order is saved. */
    public Long getId() {
        return id;
    }

    /** Who ordered. */
    public String getCustomer() {
        return customer;
    }
}
