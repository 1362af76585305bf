/**
 * Identifiers of entities from idworker, for Hibernate 6.6 and 7:
 * {@link io.github.idworker.hibernate.IdworkerId} on the attribute, and a client
 * in Hibernate's configuration, see
 * {@link io.github.idworker.hibernate.IdworkerSettings}.
 */
@NullMarked
package io.github.idworker.hibernate;

import org.jspecify.annotations.NullMarked;
