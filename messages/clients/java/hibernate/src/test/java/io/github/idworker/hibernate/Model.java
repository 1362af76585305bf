package io.github.idworker.hibernate;

import jakarta.persistence.Column;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Embeddable;
import jakarta.persistence.EmbeddedId;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.IdClass;
import jakarta.persistence.Inheritance;
import jakarta.persistence.InheritanceType;
import jakarta.persistence.MappedSuperclass;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;

/** The entities of the tests: one for each way to have an identifier. */
final class Model {
    static final Class<?>[] ALL = {
        Order.class, Event.class, Payment.class, CardPayment.class, Part.class, Shelf.class, Customer.class
    };

    private Model() {}

    /** A versioned row of a tag, with rows in a table of its own. */
    @Entity(name = "Order")
    @Table(name = "orders")
    static class Order {
        @Id
        @IdworkerId("order")
        Long id;

        @Version
        Integer version;

        @Column(unique = true)
        String name;

        @ElementCollection
        List<String> lines = List.of();

        Order() {}

        Order(String name, String... lines) {
            this.name = name;
            this.lines = List.of(lines);
        }
    }

    /** A snowflake ID in a primitive. */
    @Entity(name = "Event")
    static class Event {
        @Id
        @IdworkerId(snowflake = true)
        long id;

        String name;

        Event() {}

        Event(String name) {
            this.name = name;
        }
    }

    /** Two tables for a row; the annotation is on a getter. */
    @Entity(name = "Payment")
    @Inheritance(strategy = InheritanceType.JOINED)
    abstract static class Payment {
        private Long id;
        private long amount;

        @Id
        @IdworkerId("payment")
        Long getId() {
            return id;
        }

        void setId(Long id) {
            this.id = id;
        }

        long getAmount() {
            return amount;
        }

        void setAmount(long amount) {
            this.amount = amount;
        }
    }

    @Entity(name = "CardPayment")
    static class CardPayment extends Payment {
        private String card = "visa";

        String getCard() {
            return card;
        }

        void setCard(String card) {
            this.card = card;
        }
    }

    /** A composite identifier, of which a part is an ID. */
    @Entity(name = "Part")
    @IdClass(PartId.class)
    static class Part {
        @Id
        String region = "north";

        @Id
        @IdworkerId("part")
        Long number;

        String name = "bolt";
    }

    static class PartId implements Serializable {
        private static final long serialVersionUID = 1L;

        String region;
        Long number;

        @Override
        public boolean equals(Object other) {
            return other instanceof PartId id && Objects.equals(region, id.region) && Objects.equals(number, id.number);
        }

        @Override
        public int hashCode() {
            return Objects.hash(region, number);
        }
    }

    /** As {@link Part}, embedded. */
    @Entity(name = "Shelf")
    static class Shelf {
        @EmbeddedId
        ShelfId id = new ShelfId();

        String name = "top";
    }

    @Embeddable
    static class ShelfId implements Serializable {
        private static final long serialVersionUID = 1L;

        String hall = "a";

        @IdworkerId("shelf")
        Long number;

        @Override
        public boolean equals(Object other) {
            return other instanceof ShelfId id && Objects.equals(hall, id.hall) && Objects.equals(number, id.number);
        }

        @Override
        public int hashCode() {
            return Objects.hash(hall, number);
        }
    }

    /** The type of the identifier is a type variable. */
    @MappedSuperclass
    static class Keyed<T> {
        @Id
        @IdworkerId("customer")
        T id;
    }

    @Entity(name = "Customer")
    static class Customer extends Keyed<Long> {
        String name = "ann";
    }

    /** A row of a strict tag. */
    @Entity(name = "Ticket")
    static class Ticket {
        @Id
        @IdworkerId("ticket")
        Long id;
    }
}
