package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A call, in virtual time. Each of its waits, replies and refusals is a conformance case. */
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
        int sent = nats.sent.size();
        time.advance(10_000);
        assertEquals(sent, nats.sent.size());
        wantId(7);
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
        Map.of(400, MalformedRequestException.class, 404, NoSuchTagException.class, 409, StrictTagException.class,
                507, ExhaustedException.class, 500, ErrorReplyException.class).forEach((code, kind) -> {
                    outcomes.clear();
                    Call call = start(5000);
                    call.accept(nats, FakeTransport.error(code, "the text"));
                    IdworkerException error = failure();
                    assertEquals(kind, error.getClass());
                    assertEquals("request ids.segment.order: the text (" + code + ")", error.getMessage());
                    assertEquals("ids.segment.order", error.subject());
                    assertEquals(code, error.code().orElseThrow());
                    assertEquals(1, error.tries());
                    assertFalse(error.isRetryable());
                });
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
