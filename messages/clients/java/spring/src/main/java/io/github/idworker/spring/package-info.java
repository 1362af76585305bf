/**
 * IDs for applications of Spring Boot. A starter brings this package:
 * {@link io.github.idworker.spring.IdworkerAutoConfiguration} makes the beans from
 * {@link io.github.idworker.spring.IdworkerProperties}.
 */
@NullMarked
package io.github.idworker.spring;

import org.jspecify.annotations.NullMarked;
