/**
 * Unique 64-bit IDs from idworker over NATS. {@link io.github.idworker.IdClient}
 * is the door.
 */
@NullMarked
package io.github.idworker;

import org.jspecify.annotations.NullMarked;
