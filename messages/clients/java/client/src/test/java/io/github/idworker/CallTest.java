package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A call, in virtual time. Its waits one by one are a conformance case. */
class CallTest {
    private final VirtualTime time = new VirtualTime();
    private final FakeTransport nats = new FakeTransport(time.environment());
    private final List<Outcome> outcomes = new ArrayList<>();

    private Call start(long timeoutMillis) {
        Call call = new Call(Call.Request.of("ids.segment.order", 1, null), nats, time.environment(),
                TimeUnit.MILLISECONDS.toNanos(timeoutMillis), outcomes::add);
        call.start();
        return call;
    }

    private IdworkerException failure() {
        assertEquals(1, outcomes.size());
        return assertThrows(IdworkerException.class, outcomes.get(0)::get);
    }

    private void wantId(long id) {
        assertEquals(List.of(Outcome.of(List.of(new IdBatch.Range(id, id)))), outcomes);
    }

    @Test
    void aReplyToTheFirstTryCountsAfterFurtherTries() {
        Call call = start(5000);
        time.advance(400);
        assertTrue(nats.sent.size() > 3);
        nats.reply(call, "7");
        wantId(7);
    }

    @Test
    void aSecondReplyAndOneAfterTheEndAreDropped() {
        Call call = start(5000);
        nats.reply(call, "7");
        nats.reply(call, "8");
        time.advance(10_000);
        wantId(7);
        assertEquals(1, nats.sent.size());
    }

    @Test
    void aTransientReplyIsTheReasonAtTheDeadline() {
        Call call = start(3000);
        call.accept(nats, FakeTransport.error(503, "no ID before the deadline"));
        time.advance(3000);
        CallTimeoutException error = assertInstanceOf(CallTimeoutException.class, failure());
        assertEquals(Reason.UNAVAILABLE, error.reason());
        assertEquals(nats.sent.size(), error.tries());
        assertTrue(error.isRetryable());
        assertEquals(503, assertInstanceOf(UnavailableException.class, error.getCause()).code().orElseThrow());
        assertEquals("request ids.segment.order: no ID before the deadline (503) (deadline exceeded after "
                + nats.sent.size() + " tries)", error.getMessage());
    }

    @Test
    void silenceIsTheReasonIfNothingElseIsKnown() {
        start(40);
        time.advance(40);
        assertEquals(Reason.NO_REPLY, failure().reason());
        assertEquals("request ids.segment.order: no reply (deadline exceeded after 1 try)", failure().getMessage());
    }

    @Test
    void aReplyThatHasArrivedIsReadBeforeTheDeadlineCounts() {
        Call call = start(40);
        nats.unread = true;
        time.advance(60);
        assertTrue(outcomes.isEmpty());
        nats.reply(call, "7");
        wantId(7);
    }

    @Test
    void unreadRepliesToOthersDelayTheEndShortly() {
        start(40);
        nats.unread = true;
        time.advance(140);
        assertEquals(Reason.NO_REPLY, failure().reason());
    }

    @Test
    void aFinalCodeEndsTheCallAtOnce() {
        Call call = start(5000);
        call.accept(nats, FakeTransport.error(404, "no such tag"));
        NoSuchTagException error = assertInstanceOf(NoSuchTagException.class, failure());
        assertEquals("request ids.segment.order: no such tag (404)", error.getMessage());
        assertEquals("ids.segment.order", error.subject());
        assertEquals(404, error.code().orElseThrow());
        assertEquals(1, error.tries());
    }

    @Test
    void aRefusalOfTheServerEndsTheCallAfterItsWait() {
        start(5000);
        nats.refusal = Failure.of(Failure.Kind.DENIED, "Permissions Violation");
        time.advance(50);
        assertInstanceOf(PermissionDeniedException.class, failure());
        assertEquals(1, nats.sent.size());
    }

    @Test
    void nothingIsSentWithoutAConnection() {
        nats.problem = Failure.DISCONNECTED;
        start(5000);
        time.advance(4000);
        nats.problem = null;
        time.advance(50);
        assertEquals(nats.last(), nats.sent.get(0));
        nats.reply(nats.last(), "7");
        wantId(7);
    }

    @Test
    void aConnectionThatEndedEndsTheCall() {
        start(5000);
        nats.problem = Failure.CONNECTION_CLOSED;
        time.advance(50);
        assertInstanceOf(ConnectionEndedException.class, failure());
    }

    @Test
    void repliesOfATimeBeforeACopyAreDropped() {
        Call call = start(5000);
        call.forgetTries();
        nats.reply(call, "7");
        assertTrue(outcomes.isEmpty());
        Object before = nats.inbox;
        nats.inbox = new Object();
        time.advance(50);
        call.accept(before, Outcome.of(List.of(new IdBatch.Range(7, 7))));
        assertTrue(outcomes.isEmpty());
        nats.reply(call, "8");
        wantId(8);
    }

    @Test
    void whatJnatsThrowsEndsTheCall() {
        nats.script = call -> {
            throw new IllegalArgumentException("headers are not supported");
        };
        start(5000);
        assertInstanceOf(ConnectionEndedException.class, failure());
        assertEquals("request ids.segment.order: cannot be sent: "
                + "java.lang.IllegalArgumentException: headers are not supported", failure().getMessage());
    }

    @Test
    void anInterruptEndsAWaitAndIsKept() {
        Call call = start(5000);
        Thread.currentThread().interrupt();
        IdworkerException error = assertThrows(CancelledException.class, () -> call.join().get());
        assertTrue(Thread.interrupted());
        assertEquals("request ids.segment.order: cancelled after 1 try", error.getMessage());
        time.advance(5000);
        assertEquals(1, nats.sent.size());
    }
}
