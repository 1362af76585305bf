package io.github.idworker;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** What the client logs while a test runs, a line as "LEVEL text". */
final class LogLines extends Handler {
    private final Logger logger = Logger.getLogger("io.github.idworker"); // which would be forgotten otherwise
    private final List<String> lines = new CopyOnWriteArrayList<>();
    private volatile boolean failing;

    LogLines() {
        logger.addHandler(this);
        logger.setUseParentHandlers(false);
    }

    List<String> lines() {
        return lines;
    }

    /** Lets the handler throw an exception at each line from now on. */
    void fail() {
        failing = true;
    }

    @Override
    public void publish(LogRecord line) {
        lines.add(line.getLevel() + " " + new SimpleFormatter().formatMessage(line));
        if (failing) {
            throw new IllegalStateException("log: the backend is away");
        }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {
        logger.setUseParentHandlers(true);
        logger.removeHandler(this);
    }
}
