/** The part of the starter that only Spring Boot 4 has. */
@NullMarked
package io.github.idworker.spring.boot4;

import org.jspecify.annotations.NullMarked;
