package io.github.idworker.spring;

import io.github.idworker.IdClientOptions;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Gives the current span's W3C {@code traceparent}, or null. A bean of it is the
 * {@link IdClientOptions#withTraceparent} of the bean {@link
 * io.github.idworker.IdClient}: the workers' logs then name the caller's trace.
 */
@FunctionalInterface
public interface IdworkerTraceparent extends Supplier<@Nullable String> {}
