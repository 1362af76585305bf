package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.DocumentNumberException.Fault;
import io.github.idworker.NumberFormat.Parsed;
import java.lang.reflect.Proxy;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class NumberFormatTest {
    /**
     * Of every format of up to five parts, a number has one tag and one ID, and is
     * read back. The dates and IDs are chosen to look alike.
     */
    @Test
    void noNumberComesTwice() {
        List<Instant> dates = Stream.of("1112-01-01", "1112-11-12", "1111-11-11", "1111-12-11", "2012-11-11")
                .map(day -> LocalDate.parse(day).atStartOfDay(ZoneOffset.UTC).toInstant()).toList();
        int accepted = 0;
        List<String> formats = List.of("");
        for (int parts = 1; parts <= 5; parts++) {
            List<String> longer = new ArrayList<>();
            for (String before : formats) {
                for (String part : List.of("1", "{yyyy}", "{yy}", "{MM}", "{dd}", "{seq}", "{seq:2}")) {
                    longer.add(before + part);
                    try {
                        checkUnique(NumberFormat.of("t", before + part, ZoneOffset.UTC), dates);
                        accepted++;
                    } catch (DocumentNumberException e) {
                        assertEquals(Fault.FORMAT, e.fault(), before + part);
                    }
                }
            }
            formats = longer;
        }
        // Widths of the ID and of the year, and their places without a date, with a
        // year, a month and a day.
        assertEquals(2 * 15 + 4 * (40 + 90 + 144), accepted);
    }

    private static void checkUnique(NumberFormat format, List<Instant> dates) {
        Map<String, String> origins = new HashMap<>();
        for (Instant at : dates) {
            for (long id : new long[] {1, 2, 11, 12, 111, 1112, 111211}) {
                String number = format.number(at, id);
                String origin = format.tag(at) + " " + id;
                String other = origins.put(number, origin);
                assertTrue(other == null || other.equals(origin), () -> format + ": DUPLICATE " + number);
                Parsed read = format.parse(number);
                assertEquals(origin, read.tag() + " " + read.seq(), () -> format + ": " + number);
            }
        }
    }

    private final List<String> calls = new ArrayList<>();

    /** A client whose IDs are 3 and 5, or which fails. */
    private IdClient client(boolean works) {
        return (IdClient) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {IdClient.class},
                (self, method, arguments) -> {
                    calls.add(method.getName() + List.of(arguments));
                    if (!works) {
                        throw Failure.CLIENT_CLOSED.exception();
                    }
                    return arguments.length == 1 ? (Object) 3L
                            : new IdBatch(List.of(new IdBatch.Range(3, 3), new IdBatch.Range(5, 5)));
                });
    }

    /** Numbers come from the tag of the document's day, and the client's errors stay what they are. */
    @Test
    void next() {
        NumberFormat format = NumberFormat.of("invoice", "INV-{yyyyMMdd}-{seq:3}", ZoneOffset.ofHours(8));
        Instant at = Instant.parse("2026-11-26T16:00:00Z"); // tomorrow there
        assertEquals("INV-20261127-003", format.next(client(true), at));
        assertEquals(List.of("INV-20261127-003", "INV-20261127-005"), format.next(client(true), at, 2));
        assertEquals(List.of("next[invoice.20261127]", "next[invoice.20261127, 2]"), calls);
        assertThrows(ClosedException.class, () -> format.next(client(false), at));
        assertThrows(ClosedException.class, () -> format.next(client(false), at, 2));
        calls.clear();
        for (Instant bad : List.of(Instant.MIN, Instant.MAX, Instant.parse("0001-01-01T00:00:00Z"))) {
            for (var call : List.<Executable>of(
                    () -> format.next(client(true), bad), () -> format.next(client(true), bad, 2))) {
                assertEquals(Fault.DATE, assertThrows(DocumentNumberException.class, call).fault());
            }
        }
        assertEquals(List.of(), calls);
    }

    /** A day has a noon, unless the zone skipped it. */
    @Test
    void noon() {
        NumberFormat format = NumberFormat.of("t", "{yyyyMMdd}-{seq}", ZoneId.of("Pacific/Apia"));
        assertEquals("20111231-1", format.number(format.noon(LocalDate.of(2011, 12, 31)), 1));
        DocumentNumberException error = assertThrows(DocumentNumberException.class,
                () -> format.noon(LocalDate.of(2011, 12, 30)));
        assertEquals("bad date: there was no 2011-12-30 in Pacific/Apia", error.getMessage());
    }

    /** Half a character is none: two formats with such text would look alike. */
    @Test
    void halfACharacter() {
        assertThrows(DocumentNumberException.class, () -> NumberFormat.of("t", "\ud800{seq}", ZoneOffset.UTC));
    }
}
