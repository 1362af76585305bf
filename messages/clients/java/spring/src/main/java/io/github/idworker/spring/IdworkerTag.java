package io.github.idworker.spring;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The tag of an entity's IDs in MyBatis-Plus, in place of the table's name:
 *
 * <pre>{@code
 * @TableName("t_order")
 * @IdworkerTag("order")
 * public class Order {
 *     @TableId(type = IdType.ASSIGN_ID)
 *     private Long id;
 * }
 * }</pre>
 *
 * <p>Subclasses inherit it. Hibernate has its own annotation, at the attribute.
 */
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
public @interface IdworkerTag {
    /** The tag. */
    String value();
}
