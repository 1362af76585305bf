package io.github.idworker;

import java.util.List;
import java.util.PrimitiveIterator;
import java.util.stream.LongStream;

/** Ascending IDs of one call, as ranges: a batch of a million costs as little as one of two. Immutable. */
public final class IdBatch implements Iterable<Long> {
    private final List<Range> ranges;

    /** The IDs first … last, both included. */
    public record Range(long first, long last) {}

    IdBatch(List<Range> ranges) {
        this.ranges = List.copyOf(ranges);
    }

    /** The ranges, ascending; touching ranges may follow each other. */
    public List<Range> ranges() {
        return ranges;
    }

    /** The number of IDs. */
    public long size() {
        throw new UnsupportedOperationException();
    }

    /** The IDs, ascending. */
    public LongStream stream() {
        throw new UnsupportedOperationException();
    }

    @Override
    public PrimitiveIterator.OfLong iterator() {
        throw new UnsupportedOperationException();
    }
}
