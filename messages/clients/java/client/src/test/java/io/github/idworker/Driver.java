package io.github.idworker;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * The driver of testing/conformance for Java, which specifies the operations. It
 * is part of the tests, since it needs clocks and buffers, which callers cannot
 * reach.
 */
public final class Driver {
    /** How an error is answered. */
    private record Fault(String kind, @Nullable Integer code, String text, @Nullable String reason,
            @Nullable Long tries, boolean retryable) {
        static Fault of(Throwable error) {
            if (!(error instanceof IdworkerException e)) {
                return new Fault(kindOf(error), null, error.toString(), null, null, false);
            }
            String reason = e.reason() == null ? null : e.reason().name().toLowerCase(Locale.ROOT);
            return new Fault(kindOf(e), e.code().isPresent() ? e.code().getAsInt() : null, e.getMessage(), reason,
                    e.tries() == 0 ? null : e.tries(), e.isRetryable());
        }
    }

    /** The kinds of errors. A class comes after its subclasses. */
    private static final Map<Class<? extends Throwable>, String> KINDS = new LinkedHashMap<>();

    static {
        KINDS.put(BadPrefixException.class, "prefix");
        KINDS.put(BadTagException.class, "tag");
        KINDS.put(BadCountException.class, "count");
        KINDS.put(BadConfigException.class, "config");
        KINDS.put(MalformedRequestException.class, "malformed");
        KINDS.put(NoSuchTagException.class, "no_tag");
        KINDS.put(StrictTagException.class, "strict");
        KINDS.put(ExhaustedException.class, "exhausted");
        KINDS.put(BusyException.class, "busy");
        KINDS.put(UnavailableException.class, "unavailable");
        KINDS.put(ErrorReplyException.class, "code");
        KINDS.put(BadReplyException.class, "bad_reply");
        KINDS.put(PermissionDeniedException.class, "denied");
        KINDS.put(ConnectFailedException.class, "connection");
        KINDS.put(ConnectionEndedException.class, "connection");
        KINDS.put(ClosedException.class, "closed");
        KINDS.put(CallTimeoutException.class, "timeout");
        KINDS.put(CancelledException.class, "cancelled");
    }

    /** The kind of an error; all that is none of the client's is the driver's. */
    static String kindOf(Throwable error) {
        return KINDS.entrySet().stream().filter(kind -> kind.getKey().isInstance(error)).map(Map.Entry::getValue)
                .findFirst().orElse("driver");
    }

    /** Performs an operation with the fields F, and returns its result. */
    interface Operation<F> {
        Object perform(F fields) throws Exception;
    }

    /** The fields of an operation that has none. */
    record None() {}

    /** The result of an operation that returns nothing. */
    static final Map<String, Object> NOTHING = Map.of();

    /** An error that is none of the client's: the driver does not understand an operation. */
    static final class DriverException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        DriverException(String message) {
            super(message);
        }
    }

    private record Hello(String language, String version, List<String> features) {}

    private record Cancel(long call) {}

    private record Answer(long id, @Nullable Object ok, @Nullable Fault error) {}

    private record Entry<F>(Class<F> fields, Operation<F> operation) {
        Object perform(ObjectMapper json, ObjectNode request) throws Exception {
            return operation.perform(json.treeToValue(request, fields));
        }
    }

    /** The trace of an operation, which is performed in a thread. */
    private static final ThreadLocal<@Nullable String> TRACE = new ThreadLocal<>();

    /** What a client's option gives in this thread, or throws. */
    static @Nullable String traceparent() {
        String trace = TRACE.get();
        if ("throw".equals(trace)) {
            throw new DriverException("no trace");
        }
        return trace;
    }

    private final ObjectMapper json = new ObjectMapper(); // it refuses unknown fields
    private final PrintStream out;
    private final Map<String, Entry<?>> operations = new HashMap<>();
    private final Map<Long, Thread> underWay = new ConcurrentHashMap<>();

    private Driver(PrintStream out) {
        this.out = out;
        json.setSerializationInclusion(JsonInclude.Include.NON_NULL);
        on("hello", None.class, fields -> new Hello("Java", "on " + Runtime.version(),
                List.of("threads", "sync", "cancel", "close", "borrow", "checkpoint")));
        on("cancel", Cancel.class, this::cancel);
        new DriverClients(this);
        new DriverOffline(this);
    }

    /** Reads operations from stdin, and writes results to stdout. */
    public static void main(String[] arguments) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err); // a library's print is no result
        Driver driver = new Driver(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isBlank()) {
                driver.begin(line);
            }
        }
        System.exit(0); // whatever is under way
    }

    <F> void on(String name, Class<F> fields, Operation<F> operation) {
        operations.put(name, new Entry<>(fields, operation));
    }

    private void begin(String line) throws IOException {
        ObjectNode request = (ObjectNode) json.readTree(line);
        long id = request.remove("id").longValue();
        String name = request.remove("op").textValue();
        JsonNode trace = request.remove("traceparent");
        Thread thread = new Thread(() -> {
            TRACE.set(trace == null ? null : trace.textValue());
            answer(id, name, request);
        }, name + " " + id);
        thread.setDaemon(true);
        underWay.put(id, thread);
        thread.start();
    }

    private void answer(long id, String name, ObjectNode request) {
        Answer answer;
        try {
            Entry<?> entry = operations.get(name);
            if (entry == null) {
                throw new DriverException("unknown operation " + name);
            }
            answer = new Answer(id, entry.perform(json, request), null);
        } catch (Exception | AssertionError e) {
            answer = new Answer(id, null, Fault.of(e));
        }
        underWay.remove(id);
        String line;
        try {
            line = json.writeValueAsString(answer);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    /** Interrupts the thread of an operation, unless it has ended. */
    private Object cancel(Cancel fields) {
        Thread thread = underWay.get(fields.call);
        if (thread != null) {
            thread.interrupt();
        }
        return NOTHING;
    }

    /** Reads a count, whose type here is long. */
    static long count(JsonNode n) {
        if (n.isIntegralNumber() && n.canConvertToLong()) {
            return n.longValue();
        }
        throw new BadCountException("bad count: " + Quote.of(n.asText(), 40) + " is no long");
    }
}
