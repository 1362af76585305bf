package io.github.idworker;

/** No server answered at the URLs, or it refused the login. The cause is the library's. */
public class ConnectFailedException extends IdworkerException {
    private static final long serialVersionUID = 1L;

    ConnectFailedException(String message) {
        super(message);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
