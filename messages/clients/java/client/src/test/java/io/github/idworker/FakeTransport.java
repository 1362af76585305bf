package io.github.idworker;

import io.github.idworker.testkit.Installation;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** NATS of a test: it keeps the calls that were sent, and replies as the test wants. */
final class FakeTransport implements Transport {
    final List<Call> sent = new CopyOnWriteArrayList<>();
    final AtomicLong granted = new AtomicLong();
    volatile boolean unread;
    volatile @Nullable Function<Call, Outcome> script; // what replies to each request; null if nothing does
    volatile Object inbox = this;

    private final Environment environment;

    FakeTransport(Environment environment) {
        this.environment = environment;
    }

    /** A worker: the next IDs. */
    Outcome grant(Call call) {
        long last = granted.addAndGet(call.request.n());
        return Outcome.of(List.of(new IdBatch.Range(last - call.request.n() + 1, last)));
    }

    static Outcome error(int code, String text) {
        return Outcome.of(Failure.reply(code, text));
    }

    /** Replies to a call with a body. */
    void reply(Call call, String body) {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        call.accept(inbox, Replies.decode(0, name -> null, bytes, call.request.n()));
    }

    Call last() {
        return sent.get(sent.size() - 1);
    }

    Prefetcher prefetch(PrefetchOptions options) {
        return new Prefetcher("ids.segment.order", options, environment,
                (n, whenDone) -> new Call(Call.Request.prefetched("ids.segment.order", n, false), this, environment,
                        Call.ENDLESS, whenDone),
                Installation.PATIENCE.toNanos(), new Outages(environment.timers()), closed -> {});
    }

    @Override
    public long admit(Call call) {
        return System.nanoTime();
    }

    @Override
    public @Nullable Failure send(Call call) {
        call.setInbox(inbox);
        sent.add(call);
        Function<Call, Outcome> replies = script;
        if (replies != null) {
            Outcome reply = replies.apply(call);
            environment.timers().after(0, () -> call.accept(inbox, reply));
        }
        return null;
    }

    @Override
    public @Nullable Failure refusal(Call call) {
        return null;
    }

    @Override
    public void renewInbox() {}

    @Override
    public boolean hasUnread() {
        return unread;
    }

    @Override
    public void forget(Call call) {}
}
