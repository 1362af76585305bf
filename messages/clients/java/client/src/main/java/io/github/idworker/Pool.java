package io.github.idworker;

import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Supplier;

/**
 * Objects that serve one thread at a time and are costly to make, such as
 * ciphers. A thread looks at one place, and makes an object if there is none: so
 * nothing waits, and the pool keeps at most {@value #PLACES}, however many
 * threads there are. A thread-local would keep one for each.
 *
 * <p>Thread-safe.
 */
final class Pool<T> {
    private static final int PLACES = 16; // a power of 2

    private final AtomicReferenceArray<T> idle = new AtomicReferenceArray<>(PLACES);
    private final Supplier<T> make;

    Pool(Supplier<T> make) {
        this.make = make;
    }

    /** Returns an object for this thread alone, until it gives it back. One that is not given back is lost. */
    T take() {
        T object = idle.getAndSet(place(), null);
        return object == null ? make.get() : object;
    }

    /** Gives an object back. */
    void give(T object) {
        idle.set(place(), object);
    }

    private static int place() {
        return (int) Thread.currentThread().getId() & PLACES - 1;
    }
}
