/** The part of the starter that only Spring Boot 3 has. */
@NullMarked
package io.github.idworker.spring.boot3;

import org.jspecify.annotations.NullMarked;
