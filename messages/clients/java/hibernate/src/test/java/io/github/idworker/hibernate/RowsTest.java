package io.github.idworker.hibernate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.hibernate.Model.CardPayment;
import io.github.idworker.hibernate.Model.Customer;
import io.github.idworker.hibernate.Model.Event;
import io.github.idworker.hibernate.Model.Order;
import io.github.idworker.hibernate.Model.Part;
import io.github.idworker.hibernate.Model.Shelf;
import jakarta.persistence.PersistenceException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.hibernate.SessionFactory;
import org.hibernate.StatelessSession;
import org.hibernate.Version;
import org.hibernate.exception.ConstraintViolationException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** Each row gets one ID, of its tag, in every way that Hibernate inserts rows. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class RowsTest {
    private final FakeIds ids = new FakeIds(1_000);
    private final SessionFactory factory = Databases.open(
            Map.of(IdworkerSettings.CLIENT, ids.client, "hibernate.jdbc.batch_size", "50"), Model.ALL);

    @BeforeEach
    void empty() {
        factory.getSchemaManager().truncateMappedObjects();
        ids.forget();
    }

    @AfterAll
    void close() {
        factory.close();
    }

    private List<Long> stored(String entity, String id) {
        return factory.fromSession(session ->
                session.createSelectionQuery("select " + id + " from " + entity + " order by 1", Long.class)
                        .getResultList());
    }

    /** The rows have the IDs that the tag gave, each once, and no tag gave more. */
    private void assertRows(int rows, String tag, List<Long> stored) {
        assertEquals(rows, stored.size());
        assertEquals(rows, stored.stream().distinct().count());
        assertEquals(Map.of(tag, stored), ids.given());
    }

    private int execute(String hql) {
        return factory.fromTransaction(session -> session.createMutationQuery(hql).executeUpdate());
    }

    @Test
    void persisted() {
        factory.inTransaction(session -> IntStream.range(0, 120).forEach(i ->
                session.persist(new Order("o" + i, "line", "line"))));
        assertRows(120, "order", stored("Order", "id"));
    }

    @Test
    void snowflakeInPrimitive() {
        factory.inTransaction(session -> Stream.of("a", "b").forEach(name -> session.persist(new Event(name))));
        assertRows(2, FakeIds.SNOWFLAKE, stored("Event", "id"));
    }

    @Test
    void twoTablesForARow() {
        factory.inTransaction(session -> IntStream.range(0, 3).forEach(i -> session.persist(new CardPayment())));
        assertRows(3, "payment", stored("Payment", "id"));
    }

    @Test
    void partOfIdClass() {
        factory.inTransaction(session -> IntStream.range(0, 3).forEach(i -> session.persist(new Part())));
        assertRows(3, "part", stored("Part", "number"));
    }

    @Test
    void partOfEmbeddedId() {
        factory.inTransaction(session -> IntStream.range(0, 3).forEach(i -> session.persist(new Shelf())));
        assertRows(3, "shelf", stored("Shelf", "id.number"));
    }

    @Test
    void typeVariable() {
        factory.inTransaction(session -> IntStream.range(0, 3).forEach(i -> session.persist(new Customer())));
        assertRows(3, "customer", stored("Customer", "id"));
    }

    @Test
    void stateless() {
        factory.inStatelessTransaction(session -> IntStream.range(0, 3).forEach(i ->
                session.insert(new Event("e" + i))));
        assertRows(3, FakeIds.SNOWFLAKE, stored("Event", "id"));
    }

    @Test
    void statelessMultiple() throws ReflectiveOperationException {
        Method insertMultiple;
        try {
            insertMultiple = StatelessSession.class.getMethod("insertMultiple", List.class);
        } catch (NoSuchMethodException e) {
            Assumptions.abort("Hibernate 6 has no insertMultiple");
            return;
        }
        try (StatelessSession session = factory.openStatelessSession()) {
            session.beginTransaction();
            insertMultiple.invoke(session, IntStream.range(0, 120).mapToObj(i -> new Event("e" + i)).toList());
            session.getTransaction().commit();
        }
        assertRows(120, FakeIds.SNOWFLAKE, stored("Event", "id"));
    }

    @Test
    void hqlValues() {
        for (int run = 0; run < 2; run++) {
            assertEquals(3, execute("insert into Event (name) values ('a'), ('b'), ('c')"));
        }
        assertRows(6, FakeIds.SNOWFLAKE, stored("Event", "id"));
    }

    @Test
    void hqlValuesOfVersionedRows() {
        assertEquals(2, execute("insert into Order (name) values ('a'), ('b')"));
        assertRows(2, "order", stored("Order", "id"));
    }

    /** Hibernate 6 leaves out the ID, which the database refuses. */
    @Test
    void hqlValuesInTwoTables() {
        for (int run = 0; run < 2; run++) {
            try {
                assertEquals(2, execute("insert into CardPayment (amount, card) values (1L, 'a'), (2L, 'b')"));
            } catch (ConstraintViolationException e) {
                assertTrue(Version.getVersionString().startsWith("6."), e::getMessage);
                assertEquals(List.of(), stored("Payment", "id"));
                return;
            }
        }
        assertRows(4, "payment", stored("Payment", "id"));
    }

    @Test
    void hqlSelectIsRefused() {
        factory.inTransaction(session -> Stream.of("a", "b").forEach(name -> session.persist(new Event(name))));
        for (String hql : List.of(
                "insert into Order (name) select name from Event",
                "insert into Event (name) select e.name from Event e",
                "insert into CardPayment (amount, card) select 1L, name from Event")) {
            Exception refused = assertThrows(IllegalArgumentException.class, () -> execute(hql), hql);
            assertTrue(refused.getMessage().contains("@IdworkerId"), refused.getMessage());
        }
        assertRows(2, FakeIds.SNOWFLAKE, stored("Event", "id"));
        assertEquals(List.of(), stored("Order", "id"));
        assertEquals(List.of(), stored("Payment", "id"));
    }

    @Test
    void mergedNew() {
        Order merged = factory.fromTransaction(session -> session.merge(new Order("a")));
        assertEquals(List.of(merged.id), stored("Order", "id"));
        assertRows(1, "order", stored("Order", "id"));
    }

    @Test
    void mergedDetached() {
        Order order = new Order("a");
        factory.inTransaction(session -> session.persist(order));
        order.name = "b";
        factory.inTransaction(session -> session.merge(order));
        assertRows(1, "order", stored("Order where name = 'b'", "id"));
    }

    @Test
    void retriedTransaction() {
        Order first = new Order("a");
        assertThrows(IllegalStateException.class, () -> factory.inTransaction(session -> {
            session.persist(first);
            session.flush();
            throw new IllegalStateException();
        }));
        Order second = new Order("a");
        factory.inTransaction(session -> session.persist(second));
        assertNotEquals(first.id, second.id);
        assertEquals(List.of(second.id), stored("Order", "id"));
        assertEquals(Map.of("order", List.of(first.id, second.id)), ids.given());
    }

    @Test
    void failedFlush() {
        Order a = new Order("a");
        Order twin = new Order("a");
        assertThrows(PersistenceException.class, () -> factory.inTransaction(session -> {
            session.persist(a);
            session.persist(twin);
        }));
        Order next = new Order("a");
        factory.inTransaction(session -> session.persist(next));
        assertEquals(List.of(next.id), stored("Order", "id"));
        assertEquals(Map.of("order", List.of(a.id, twin.id, next.id)), ids.given());
    }

    /** As for any generated identifier of Hibernate. */
    @Test
    void assignedByApplication() {
        Event event = new Event("a");
        event.id = 7;
        assertThrows(PersistenceException.class, () -> factory.inTransaction(session -> session.persist(event)));
        assertThrows(PersistenceException.class, () -> factory.inTransaction(session -> session.merge(event)));
        assertEquals(Map.of(), ids.given());

        factory.inStatelessTransaction(session -> session.insert(event));
        assertRows(1, FakeIds.SNOWFLAKE, stored("Event", "id"));

        assertEquals(1, execute("insert into Event (id, name) values (8L, 'b')"));
        assertEquals(1, ids.given().size());
    }
}
