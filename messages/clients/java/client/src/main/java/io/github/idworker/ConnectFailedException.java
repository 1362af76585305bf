package io.github.idworker;

import org.jspecify.annotations.Nullable;

/** No server answered at the URLs, or it refused the login. The cause is the library's. */
public class ConnectFailedException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    ConnectFailedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
