package io.github.idworker.spring;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.metadata.TableInfo;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import io.github.idworker.BadTagException;
import io.github.idworker.IdworkerException;
import io.github.idworker.RowIds;

/**
 * Gives {@code IdType.ASSIGN_ID} of MyBatis-Plus its IDs, one for each row: of the
 * tag that {@link IdworkerTag} names, else of the tag with the table's name.
 * {@code IdType.ASSIGN_UUID} stays as MyBatis-Plus has it.
 *
 * <p>IDs come from a buffer, so a batch costs no request for each row; rows of a
 * strict tag do. A wait for an ID ends after {@code idworker.row-wait} with
 * {@link io.github.idworker.CallTimeoutException}, which is retryable; MyBatis
 * wraps it, as every {@link IdworkerException}.
 *
 * <p>Thread-safe.
 */
public final class IdworkerIdentifierGenerator implements IdentifierGenerator {
    private final RowIds ids;

    /** Returns a generator that takes its IDs from these. */
    public IdworkerIdentifierGenerator(RowIds ids) {
        this.ids = ids;
    }

    /**
     * Returns an ID that no other row has. MyBatis-Plus calls it for each entity
     * whose key is null or empty.
     *
     * @throws IllegalStateException if the table's name is no tag, or if the key is
     *     an Integer and the ID does not fit
     */
    @Override
    public Long nextId(Object entity) {
        TableInfo table = TableInfoHelper.getTableInfo(entity.getClass());
        IdworkerTag given = table.getEntityType().getAnnotation(IdworkerTag.class);
        String tag = given == null ? table.getTableName() : given.value();
        long id;
        try {
            id = ids.next(tag);
        } catch (BadTagException e) {
            String advice = given == null ? "; the table's name is the tag without @IdworkerTag" : "";
            throw new IllegalStateException(entity.getClass().getName() + ": " + e.getMessage() + advice, e);
        }
        // MyBatis-Plus would cut off the upper bits: two rows would get one key.
        if (id > Integer.MAX_VALUE && (table.getKeyType() == Integer.class || table.getKeyType() == int.class)) {
            throw new IllegalStateException(entity.getClass().getName() + "." + table.getKeyProperty() + ": ID " + id
                    + " of tag " + tag + " does not fit an Integer; the key must be a Long");
        }
        return id;
    }
}
