package io.github.idworker;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** What a request or a call brought: IDs, or a failure, and never both. */
record Outcome(@Nullable List<IdBatch.Range> ranges, @Nullable Failure failure) {
    static Outcome of(List<IdBatch.Range> ranges) {
        return new Outcome(ranges, null);
    }

    static Outcome of(Failure failure) {
        return new Outcome(null, failure);
    }

    /** Returns the IDs, or throws. */
    List<IdBatch.Range> get() {
        if (ranges == null) {
            throw failure.exception();
        }
        return ranges;
    }
}
