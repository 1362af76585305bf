package io.github.idworker.hibernate;

import io.github.idworker.BadTagException;
import io.github.idworker.RowIds;
import io.github.idworker.Tags;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.util.EnumSet;
import java.util.function.LongSupplier;
import org.hibernate.MappingException;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.generator.AnnotationBasedGenerator;
import org.hibernate.generator.BeforeExecutionGenerator;
import org.hibernate.generator.EventType;
import org.hibernate.generator.EventTypeSets;
import org.hibernate.generator.GeneratorCreationContext;
import org.hibernate.mapping.Property;
import org.jspecify.annotations.Nullable;

/**
 * Takes an ID for each row. Hibernate makes one for each attribute with
 * {@link IdworkerId}; nothing else needs this class.
 *
 * <p>It is no {@code BulkInsertionCapableIdentifierGenerator}, since SQL cannot
 * ask idworker: so Hibernate refuses an HQL {@code insert … select}, which would
 * otherwise need one ID for many rows.
 *
 * <p>Thread-safe.
 */
public final class IdworkerIdGenerator implements BeforeExecutionGenerator, AnnotationBasedGenerator<IdworkerId> {
    private static final long serialVersionUID = 1L;

    private transient String description = "@IdworkerId";
    private transient LongSupplier ids;

    /** Called by Hibernate, or by the container of beans that it asks, which then initializes the generator. */
    public IdworkerIdGenerator() {}

    /**
     * Called by Hibernate as it builds a {@code SessionFactory}.
     *
     * @throws MappingException if the annotation has a tag and snowflake, or
     *     neither, if the tag is malformed, or if the attribute is neither long nor
     *     Long
     */
    @Override
    public void initialize(IdworkerId annotation, Member member, GeneratorCreationContext context) {
        String tag = annotation.value();
        boolean snowflake = annotation.snowflake();
        String place = "@IdworkerId of " + member.getDeclaringClass().getName() + "." + member.getName();
        if (tag.isEmpty() && !snowflake) {
            throw new MappingException(place + ": it needs a tag, or snowflake = true");
        }
        if (!tag.isEmpty() && snowflake) {
            throw new MappingException(place + ": it has a tag and snowflake = true, but must have one of them");
        }
        try {
            if (!snowflake) {
                Tags.check(tag);
            }
        } catch (BadTagException e) {
            throw new MappingException(place + ": " + e.getMessage(), e);
        }
        Class<?> type = type(member, context);
        if (type != long.class && type != Long.class) {
            throw new MappingException(place + ": the attribute is " + type.getName() + ", but must be long or Long");
        }
        description = place;
        RowIds source = context.getServiceRegistry().requireService(RowIdsService.class).ids();
        ids = snowflake ? source::snowflake : () -> source.next(tag);
    }

    /** A member of a generic superclass has a type variable; only Hibernate knows what it stands for. */
    private static Class<?> type(Member member, GeneratorCreationContext context) {
        boolean field = member instanceof Field;
        Type declared = field ? ((Field) member).getGenericType() : ((Method) member).getGenericReturnType();
        Property whole = context.getProperty();
        if (declared instanceof TypeVariable<?> && whole != null && !whole.isComposite()) {
            return whole.getType().getReturnedClass();
        }
        return field ? ((Field) member).getType() : ((Method) member).getReturnType();
    }

    /** Returns an ID that no other row has. Hibernate calls it once for each row. */
    @Override
    public Object generate(
            SharedSessionContractImplementor session, @Nullable Object owner, @Nullable Object current,
            EventType event) {
        return ids.getAsLong();
    }

    /** Returns inserts: an identifier never changes. */
    @Override
    public EnumSet<EventType> getEventTypes() {
        return EventTypeSets.INSERT_ONLY;
    }

    /** Returns the place of the annotation, which Hibernate's messages quote. */
    @Override
    public String toString() {
        return description;
    }
}
