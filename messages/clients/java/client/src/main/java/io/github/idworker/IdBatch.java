package io.github.idworker;

import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.PrimitiveIterator;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.LongStream;
import java.util.stream.StreamSupport;

/** Ascending IDs of one call, as ranges: a batch of a million costs as little as one of two. Immutable. */
public final class IdBatch implements Iterable<Long> {
    private final List<Range> ranges;

    /**
     * The IDs first … last, both included.
     *
     * @param first the lowest ID, at least 1
     * @param last the highest ID, at most 2^63−1
     */
    public record Range(long first, long last) {
        /** Returns the range as a line of a reply: {@code 7} or {@code 1001-1003}. */
        @Override
        public String toString() {
            return first == last ? Long.toString(first) : first + "-" + last;
        }
    }

    IdBatch(List<Range> ranges) {
        this.ranges = List.copyOf(ranges);
    }

    /**
     * Returns a batch for tests, such as those of an application that replaces {@link
     * IdClient} with an object of its own. A client makes its batches itself.
     *
     * @param ranges at least one, ascending, which do not overlap
     * @return the batch
     * @throws IllegalArgumentException if they are not
     */
    public static IdBatch of(Range... ranges) {
        long last = 0;
        for (Range range : ranges) {
            if (range.first <= last || range.last < range.first) {
                throw new IllegalArgumentException("bad ranges: " + Arrays.toString(ranges)
                        + ", allowed are ascending IDs of 1 or more");
            }
            last = range.last;
        }
        if (ranges.length == 0) {
            throw new IllegalArgumentException("bad ranges: none, allowed is at least one");
        }
        return new IdBatch(List.of(ranges));
    }

    /**
     * The IDs as ranges.
     *
     * @return an unmodifiable list, ascending; touching ranges may follow each other
     */
    public List<Range> ranges() {
        return ranges;
    }

    /**
     * The number of IDs.
     *
     * @return at least 1
     */
    public long size() {
        long size = 0;
        for (Range range : ranges) {
            size += range.last - range.first + 1;
        }
        return size;
    }

    /**
     * The IDs one by one.
     *
     * @return the IDs, ascending, made as they are read
     */
    public LongStream stream() {
        int traits = Spliterator.ORDERED | Spliterator.DISTINCT | Spliterator.NONNULL | Spliterator.IMMUTABLE;
        return StreamSupport.longStream(Spliterators.spliterator(iterator(), size(), traits), false);
    }

    /** {@return the IDs, ascending, made as they are read} */
    @Override
    public PrimitiveIterator.OfLong iterator() {
        return new PrimitiveIterator.OfLong() {
            private int at;
            private long offset; // in the range; first + offset never passes its last

            @Override
            public boolean hasNext() {
                return at < ranges.size();
            }

            @Override
            public long nextLong() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                Range range = ranges.get(at);
                long id = range.first + offset++;
                if (id == range.last) {
                    at++;
                    offset = 0;
                }
                return id;
            }
        };
    }

    /** Returns the ranges as a reply has them, such as {@code [7, 1001-1003]}. */
    @Override
    public String toString() {
        return ranges.toString();
    }
}
