package io.github.idworker.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/**
 * The identifier gets an ID from idworker when the entity is persisted, before
 * its insert: inserts stay in JDBC batches.
 *
 * <pre>{@code
 * @Id
 * @IdworkerId("order")
 * private Long id;
 * }</pre>
 *
 * <p>The attribute is a {@code long} or {@link Long}, either the whole identifier
 * or a part of a composite one. Exactly one of tag and {@link #snowflake} is
 * given, or the {@code SessionFactory} is not built.
 *
 * <p>Hibernate treats it as any generated identifier: {@code persist} refuses an
 * entity whose ID the application has set, and a stateless insert replaces the
 * ID. An HQL {@code insert … values} gets an ID for each row; an HQL
 * {@code insert … select} that does not list the ID is refused. On an attribute
 * that is no identifier, Hibernate ignores this annotation.
 *
 * <p>IDs come from a buffer, at the cost of a request for many rows; a strict tag
 * costs a request a row. A wait for an ID ends after 2 s by default with
 * {@link io.github.idworker.CallTimeoutException}, which is retryable. Every
 * {@link io.github.idworker.IdworkerException} reaches the caller of
 * {@code persist} as it is, and marks the transaction for rollback. The IDs of
 * rows that are rolled back are never used again.
 */
@IdGeneratorType(IdworkerIdGenerator.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface IdworkerId {
    /** The tag; none for snowflake IDs. */
    String value() default "";

    /** Whether the identifier is a snowflake ID. */
    boolean snowflake() default false;
}
