package io.github.idworker.sample;

import com.fasterxml.jackson.annotation.JsonFormat;
import io.github.idworker.hibernate.IdworkerId;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;

/** An order; Hibernate takes its ID from idworker before the insert. */
@Entity
public class CustomerOrder {
    @Id
    @IdworkerId("order")
    @JsonFormat(shape = JsonFormat.Shape.STRING)
    private Long id;

    private String customer;

    private long cents;

    /** Called by Hibernate. */
    protected CustomerOrder() {}

    CustomerOrder(String customer) {
        this.customer = customer;
    }

    /** The ID; null before the order is saved. */
    public Long getId() {
        return id;
    }

    /** The price. */
    public long getCents() {
        return cents;
    }

    /** Who ordered. */
    public String getCustomer() {
        return customer;
    }
}
