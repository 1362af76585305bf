package io.github.idworker;

import io.nats.client.Connection;
import io.nats.client.ConnectionListener;
import io.nats.client.Dispatcher;
import io.nats.client.Message;
import io.nats.client.impl.Headers;
import java.lang.System.Logger.Level;
import java.security.SecureRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A client's connection, and the one subscription below which the replies to all
 * of its calls arrive.
 *
 * <p>A suspended link has neither. It connects again when a call wants to send,
 * with an inbox of another name: a copy of the process must not read its replies.
 *
 * <p>Thread-safe.
 */
final class Link implements Transport, ConnectionListener {
    private static final long RECONNECT_PAUSE_MILLIS = 250;

    /** Enough unless a server keeps silent. The thread is a daemon, and closes what it may still connect to. */
    private static final long CLOSE_WAIT_MILLIS = 250;

    private static final String CONNECTING = "still connecting";

    /** Makes the client's own connection. */
    interface Connector {
        /**
         * @param wanted whether to try one more server
         * @throws ConnectFailedException if no server accepts it
         */
        Connection connect(BooleanSupplier wanted) throws InterruptedException;
    }

    private enum State { OPEN, SUSPENDED, CLOSED }

    private final @Nullable Connector connector; // null on a caller's connection
    private final ConcurrentMap<String, Call> calls = new ConcurrentHashMap<>(); // by token

    private final ReentrantLock lock = new ReentrantLock();
    private volatile State state = State.OPEN;
    private volatile @Nullable Inbox inbox; // null before the first request
    private @Nullable Connection connection; // null while an own one is missing
    private @Nullable Thread connecting;
    private String problem = CONNECTING; // why there is no own connection

    /** Whether the log says that the connection is missing, and must say when it is back. */
    private final AtomicBoolean missed = new AtomicBoolean();

    private Link(@Nullable Connection connection, @Nullable Connector connector) {
        this.connection = connection;
        this.connector = connector;
    }

    /** Returns the link of a caller's connection. */
    static Link of(Connection connection) {
        return listening(new Link(connection, null), connection);
    }

    /** Returns the link of an own connection, and of those that the connector makes later. */
    static Link of(Connection connection, Connector connector) {
        return listening(new Link(connection, connector), connection);
    }

    private static Link listening(Link link, Connection connection) {
        connection.addConnectionListener(link);
        return link;
    }

    /** Returns a link that makes its own connection in the background. */
    static Link connecting(Connector connector) {
        Link link = new Link(null, connector);
        link.lock.lock();
        try {
            link.startConnecting();
        } finally {
            link.lock.unlock();
        }
        return link;
    }

    @Override
    public long admit(Call call) {
        Inbox open = inbox;
        if (open != null) {
            open.refusals.poll();
        }
        calls.put(call.token, call);
        return System.nanoTime();
    }

    @Override
    public void forget(Call call) {
        calls.remove(call.token);
    }

    /** Sends, also in a thread that is interrupted, in which jnats would drop what it sends and say nothing. */
    @Override
    public @Nullable Failure send(Call call) {
        boolean interrupted = Thread.interrupted();
        try {
            return openAndSend(call);
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private @Nullable Failure openAndSend(Call call) {
        Inbox open = inbox;
        if (open == null) {
            lock.lock();
            try {
                Failure problem = open();
                if (problem != null) {
                    return problem;
                }
                open = inbox;
            } finally {
                lock.unlock();
            }
        }
        return open.send(call);
    }

    /** Makes sure that there is an inbox, or returns why there is none. The caller holds the lock. */
    private @Nullable Failure open() {
        if (state == State.CLOSED) {
            return Failure.CLIENT_CLOSED;
        }
        if (state == State.SUSPENDED) {
            return Failure.DISCONNECTED;
        }
        if (inbox != null) {
            return null;
        }
        if (connection == null || isGivenUp(connection)) {
            startConnecting();
            return Failure.notConnected(problem);
        }
        Failure problem = check(connection);
        if (problem != null) {
            return problem;
        }
        try {
            inbox = new Inbox(connection);
            return null;
        } catch (IllegalStateException e) {
            return ended(connection);
        }
    }

    /** Returns why nothing can be sent now. What is sent while the connection is lost would be answered too late. */
    private @Nullable Failure check(Connection connection) {
        return switch (connection.getStatus()) {
            case CONNECTED -> null;
            case CLOSED -> connector == null ? Failure.CONNECTION_CLOSED : Failure.DISCONNECTED; // see isGivenUp
            default -> Failure.DISCONNECTED;
        };
    }

    /** Whether jnats closed an own connection, as it does when two logins in a row are refused. */
    private boolean isGivenUp(Connection connection) {
        return connector != null && connection.getStatus() == Connection.Status.CLOSED;
    }

    /** Returns the failure of a connection that refuses a subscription. */
    private Failure ended(Connection connection) {
        Failure problem = check(connection);
        return problem == null ? Failure.CONNECTION_DRAINING : problem;
    }

    @Override
    public @Nullable Failure refusal(Call call) {
        Inbox open = inbox;
        if (open == null) {
            return null;
        }
        Failure refusal = open.refusals.ofSubscription(open.pattern);
        if (refusal != null) {
            drop(open); // the next call asks again: rights change
            return refusal;
        }
        return open.refusals.ofPublish(call.request.subject(), call.began());
    }

    private void drop(Inbox dropped) {
        lock.lock();
        try {
            if (inbox == dropped) {
                inbox = null;
            }
        } finally {
            lock.unlock();
        }
        dropped.close();
    }

    @Override
    public void renewInbox() {
        Inbox open = inbox;
        if (open != null) {
            open.renew();
        }
    }

    @Override
    public boolean hasUnread() {
        Inbox open = inbox;
        return open != null && open.dispatcher.getPendingMessageCount() > 0;
    }

    /**
     * Closes an own connection, and drops all replies that are still to come. Calls
     * under way go on after {@link #resume}.
     *
     * @param drop drops what replies have brought; it runs after the last one
     * @throws IllegalStateException on a caller's connection that is open
     */
    void suspend(Runnable drop) {
        Inbox dropped;
        Connection closed;
        Thread ended;
        boolean refused;
        lock.lock();
        try {
            if (state == State.CLOSED) {
                return;
            }
            refused = connector == null && connection.getStatus() != Connection.Status.CLOSED;
            state = refused ? State.OPEN : State.SUSPENDED;
            dropped = inbox;
            inbox = null;
            closed = connection;
            ended = connecting;
            connecting = null;
            if (connector != null) {
                connection = null;
            }
        } finally {
            lock.unlock();
        }
        calls.values().forEach(Call::forgetTries);
        drop.run();
        end(dropped, closed, ended);
        if (refused) { // the buffer is dropped all the same, for a framework that copies the process nevertheless
            throw new IllegalStateException("suspend: the connection is the caller's, and open: close it before");
        }
    }

    /** Ends {@link #suspend}. */
    void resume() {
        lock.lock();
        try {
            if (state == State.SUSPENDED) {
                state = State.OPEN;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Ends all calls, and closes an own connection. Idempotent. */
    void close() {
        Inbox dropped;
        Connection closed;
        Thread ended;
        lock.lock();
        try {
            state = State.CLOSED;
            dropped = inbox;
            inbox = null;
            closed = connection;
            ended = connecting;
            connecting = null;
        } finally {
            lock.unlock();
        }
        calls.values().forEach(call -> call.fail(Failure.CLIENT_CLOSED));
        end(dropped, closed, ended);
    }

    /**
     * Ends what the link no longer has, also if the thread is interrupted. Before a
     * checkpoint nothing may still connect, so that waits for the server being asked.
     */
    private void end(@Nullable Inbox dropped, @Nullable Connection closed, @Nullable Thread ended) {
        if (dropped != null) {
            dropped.close();
        }
        if (state == State.CLOSED && closed != null) {
            closed.removeConnectionListener(this);
        }
        boolean interrupted = Thread.interrupted();
        try {
            if (ended != null) {
                ended.interrupt();
                ended.join(state == State.CLOSED ? CLOSE_WAIT_MILLIS : 0);
            }
            if (connector != null && closed != null) {
                closed.close();
            }
        } catch (InterruptedException e) {
            interrupted = true;
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Connects in a thread of its own, until it succeeds or is no longer wanted. The caller holds the lock. */
    private void startConnecting() {
        if (connecting == null) {
            Thread thread = new Thread(this::connect, "idworker-connect");
            thread.setDaemon(true);
            thread.start();
            connecting = thread; // not one that did not start
        }
    }

    private void connect() {
        Thread attempt = Thread.currentThread();
        try {
            while (isWanted()) {
                try {
                    // The connection asks again in other threads when it reconnects.
                    keep(connector.connect(() -> Thread.currentThread() != attempt || isWanted()));
                } catch (RuntimeException e) { // also a bad option: a file may be missing for a while
                    String why = e instanceof IdworkerException ? e.getMessage() : e.toString();
                    if (!failed(why)) {
                        return;
                    }
                    if (missed.compareAndSet(false, true)) {
                        Outages.log(Level.WARNING, "no NATS connection yet, retrying: error={0}", why);
                    }
                    Thread.sleep(RECONNECT_PAUSE_MILLIS);
                }
            }
        } catch (InterruptedException e) {
            // no longer wanted
        } finally {
            stopped(attempt);
        }
    }

    /** Lets the next call connect, even if this thread ends by an error such as a class that is missing. */
    private void stopped(Thread attempt) {
        lock.lock();
        try {
            if (connecting == attempt) {
                connecting = null;
            }
        } finally {
            lock.unlock();
        }
    }

    private boolean isWanted() {
        lock.lock();
        try {
            return connecting == Thread.currentThread();
        } finally {
            lock.unlock();
        }
    }

    /** Lets calls say why there is no connection; returns whether one is still wanted. */
    private boolean failed(String why) {
        lock.lock();
        try {
            if (connecting != Thread.currentThread()) {
                return false;
            }
            problem = why;
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Keeps a new connection, or closes it if it is no longer wanted. */
    private void keep(Connection made) throws InterruptedException {
        boolean wanted;
        lock.lock();
        try {
            wanted = connecting == Thread.currentThread();
            if (wanted) {
                connection = made;
                connecting = null;
                problem = CONNECTING;
            }
        } finally {
            lock.unlock();
        }
        if (wanted) {
            made.addConnectionListener(this);
            back(made);
        } else {
            Thread.interrupted(); // or the connection would stay open
            made.close();
        }
    }

    /** The older form, which jnats no longer calls. */
    @Override
    @Deprecated
    public void connectionEvent(Connection changed, Events event) {}

    /** Logs a loss and its end. A caller's connection that is closed ends the calls; an own one is made again. */
    @Override
    public void connectionEvent(Connection changed, Events event, Long time, String uri) {
        if (!isPresent(changed)) {
            return; // closed by this link
        }
        switch (event) {
            case DISCONNECTED -> lost(changed); // also before jnats gives up, but not before a caller closes its own
            case CLOSED -> {
                if (connector == null) {
                    calls.values().forEach(call -> call.fail(Failure.CONNECTION_CLOSED));
                }
            }
            case CONNECTED, RECONNECTED -> back(changed);
            default -> {} // of subscriptions and of the servers known
        }
    }

    private boolean isPresent(Connection changed) {
        lock.lock();
        try {
            return state == State.OPEN && connection == changed;
        } finally {
            lock.unlock();
        }
    }

    private void lost(Connection changed) {
        if (missed.compareAndSet(false, true)) {
            Outages.log(Level.WARNING, "NATS connection lost: error={0}",
                    IdClientOptions.withoutLogin(Refusals.why(changed)));
        }
    }

    private void back(Connection changed) {
        if (missed.compareAndSet(true, false)) {
            Outages.log(Level.INFO, "NATS connection restored: server={0}",
                    IdClientOptions.withoutLogin(String.valueOf(changed.getConnectedUrl())));
        }
    }

    /** The subscription, and the subjects below it. */
    private final class Inbox {
        private static final SecureRandom RANDOM = new SecureRandom();
        private static final String ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        private static final int RANDOM_CHARACTERS = 22;
        private static final long HEARING = TimeUnit.MILLISECONDS.toNanos(500);
        private static final Headers PREFETCHED = new Headers().add("Ids-Prefetch", "1");

        private final Connection connection;
        private final Refusals refusals;
        private final String base;
        private final String pattern;
        private final Dispatcher dispatcher;
        private final AtomicLong errors; // of the connection before it subscribed
        private volatile boolean heard; // a reply arrived since the latest look
        private long looked = System.nanoTime();

        /** @throws IllegalStateException if the connection ends */
        Inbox(Connection connection) {
            this.connection = connection;
            refusals = Refusals.of(connection);
            errors = new AtomicLong(refusals.errors());
            StringBuilder name = new StringBuilder(connection.getOptions().getInboxPrefix());
            for (int i = 0; i < RANDOM_CHARACTERS; i++) {
                name.append(ALPHABET.charAt(RANDOM.nextInt(ALPHABET.length())));
            }
            base = name.append('.').toString();
            pattern = base + '*';
            dispatcher = connection.createDispatcher(this::deliver);
            dispatcher.subscribe(pattern);
        }

        @Nullable Failure send(Call call) {
            Failure problem = check(connection);
            if (isGivenUp(connection)) {
                drop(this); // the next try connects
            }
            if (problem != null) {
                return inbox == this ? problem : Failure.DISCONNECTED;
            }
            try {
                // It is subscribed, so this only asks whether the connection drains.
                dispatcher.subscribe(pattern);
            } catch (IllegalStateException e) {
                return inbox == this ? ended(connection) : Failure.DISCONNECTED;
            }
            Call.Request request = call.request;
            call.setInbox(this);
            try {
                connection.publish(request.subject(), base + call.token, headers(request), request.body());
                return null;
            } catch (IllegalStateException e) {
                return Failure.DISCONNECTED; // it was lost or closed just now, or its buffer is full
            }
        }

        /** A connection without headers would not send the request, but a trace must not cost an ID. */
        private @Nullable Headers headers(Call.Request request) {
            if (request.prefetched()) {
                return PREFETCHED;
            }
            boolean sent = request.traceparent() != null && connection.getServerInfo().isHeadersSupported()
                    && !connection.getOptions().isNoHeaders();
            return sent ? new Headers().add("traceparent", request.traceparent()) : null;
        }

        private void deliver(Message reply) {
            heard = true;
            Call call = calls.get(reply.getSubject().substring(base.length()));
            if (call != null) {
                call.accept(this, Replies.decode(reply, call.request.n()));
            }
        }

        /**
         * Subscribes again if the connection had an error since, which may have hidden
         * the refusal of this inbox; or if no call heard anything for a while, since
         * jnats drops a subscription if its thread is interrupted meanwhile.
         */
        void renew() {
            long now = refusals.errors();
            if (errors.getAndSet(now) == now && !isDeaf()) {
                return;
            }
            try {
                dispatcher.unsubscribe(pattern).subscribe(pattern);
            } catch (IllegalStateException e) {
                // the connection ends, which the next request finds out
            }
        }

        /** Whether nothing arrived between two looks, which are at least {@link #HEARING} apart. */
        private synchronized boolean isDeaf() {
            long now = System.nanoTime();
            if (now - looked < HEARING) {
                return false;
            }
            boolean deaf = !heard;
            looked = now;
            heard = false;
            return deaf;
        }

        void close() {
            try {
                connection.closeDispatcher(dispatcher);
            } catch (IllegalStateException | IllegalArgumentException e) {
                // the connection ended, and the dispatcher with it
            }
        }
    }
}
