package io.github.idworker;

import io.nats.client.Connection;
import io.nats.client.ErrorListener;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What the server refused on a connection. It is no reply, but an error of the
 * connection: a client's own connection reports each to this listener. Of another
 * connection only the latest is known, and that it is new from their number.
 *
 * <p>Thread-safe.
 */
final class Refusals implements ErrorListener {
    private static final String PUBLISH = "Permissions Violation for Publish to ";
    private static final String SUBSCRIBE = "Permissions Violation for Subscription to ";

    /** Names the setting wherever it may be: the client does not know who made its options. */
    private static final String INBOX_HINT = ": the user may receive replies below another inbox prefix only; set it"
            + " (IdClientOptions.withInboxPrefix, or inboxPrefix of your own connection; idworker.inbox-prefix in"
            + " Spring, idworker.inbox_prefix in Hibernate)";

    /** The most refusals kept, of as many subjects. */
    private static final int MOST = 1000;

    private record Refusal(String text, long at) {}

    private final Map<String, Refusal> latest = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Refusal> eldest) {
            return size() > MOST;
        }
    };
    private final @Nullable Connection polled; // null if it reports to this listener
    private long read; // errors of the polled connection
    private @Nullable Exception lastException;

    /** Returns the listener of a connection that is yet to be made. */
    Refusals() {
        polled = null;
    }

    private Refusals(Connection polled) {
        this.polled = polled;
        read = errors();
    }

    /** Returns the refusals of a connection. */
    static Refusals of(Connection connection) {
        return connection.getOptions().getErrorListener() instanceof Refusals own ? own : new Refusals(connection);
    }

    @Override
    public synchronized void errorOccurred(Connection connection, String text) {
        record(text);
    }

    @Override
    public synchronized void exceptionOccurred(Connection connection, Exception exception) {
        lastException = exception;
    }

    /** Returns why a connection was lost, as far as the library tells: a caller's has a listener of the caller's. */
    static String why(Connection connection) {
        Exception known = connection.getOptions().getErrorListener() instanceof Refusals own ? own.lastException() : null;
        String text = known == null ? connection.getLastError() : known.toString();
        return text == null || text.isEmpty() ? "unknown" : text;
    }

    /** The library's latest exception: why it could not connect, or lost the connection. */
    synchronized @Nullable Exception lastException() {
        return lastException;
    }

    /** Returns the refusal of requests to a subject since a time of {@link System#nanoTime}. */
    synchronized @Nullable Failure ofPublish(String subject, long since) {
        poll();
        Refusal refusal = latest.get(key(PUBLISH, subject));
        return refusal == null || refusal.at - since < 0 ? null : failure(refusal.text);
    }

    /** Returns the refusal of a subscription, whose subject nothing else has. */
    synchronized @Nullable Failure ofSubscription(String pattern) {
        poll();
        Refusal refusal = latest.get(key(SUBSCRIBE, pattern));
        return refusal == null ? null : failure(refusal.text + INBOX_HINT);
    }

    /** The number of errors of a connection whose refusals may be missed; of another one always 0. */
    long errors() {
        return polled == null ? 0 : polled.getStatistics().getErrs();
    }

    /** Reads the connection's latest error, so that it counts as older than what follows. */
    synchronized void poll() {
        if (polled == null || errors() == read) {
            return;
        }
        read = errors();
        String text = polled.getLastError();
        if (text != null) {
            record(text);
        }
    }

    private void record(String text) {
        for (String operation : new String[] {PUBLISH, SUBSCRIBE}) {
            String[] parts = text.substring(Math.min(operation.length(), text.length())).split("\"", 3);
            if (text.startsWith(operation) && parts.length == 3) {
                String key = key(operation, parts[1]);
                latest.remove(key); // so that it becomes the youngest
                latest.put(key, new Refusal(text, System.nanoTime()));
            }
        }
    }

    /** jnats drops this character from errors. */
    private static String key(String operation, String subject) {
        return operation + subject.replace("'", "");
    }

    private static Failure failure(String text) {
        return Failure.of(Failure.Kind.DENIED, text);
    }
}
