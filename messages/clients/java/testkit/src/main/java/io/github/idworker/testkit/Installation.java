package io.github.idworker.testkit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/**
 * A real installation for tests: one process with NATS and the loader, and the
 * workers that a test starts beside it. The binary is {@code IDWORKER_BIN}, or is
 * built from this repository, for which Go is needed.
 *
 * <p>Not thread-safe.
 */
public final class Installation implements AutoCloseable {
    /** The longest wait for a state. Only a hang reaches it. */
    public static final Duration PATIENCE = Duration.ofMinutes(2);

    private static final class Binary {
        static final Path PATH = find();

        private static Path find() {
            String given = System.getenv("IDWORKER_BIN");
            if (given != null) {
                return Path.of(given);
            }
            Path root = Path.of("").toAbsolutePath();
            while (!Files.exists(root.resolve("go.mod"))) {
                root = root.getParent();
                if (root == null) {
                    throw new IllegalStateException("no go.mod above the working directory: set IDWORKER_BIN");
                }
            }
            Path built = root.resolve("bin").resolve("idworker");
            Outcome outcome = run(root, List.of("go", "build", "-o", built.toString(), "./cmd/idworker"));
            if (outcome.code() != 0) {
                throw new IllegalStateException("go build: " + outcome.output());
            }
            return built;
        }
    }

    private record Outcome(int code, String output) {}

    private final Path folder;
    private final String url;
    private final List<Process> workers = new ArrayList<>();
    private List<String> flags = List.of();
    private Process server;

    private Installation(Path folder, String url) {
        this.folder = folder;
        this.url = url;
    }

    /**
     * Starts NATS, loader and worker in one process, and waits until it serves.
     *
     * @param arguments more flags of {@code idworker serve}
     */
    public static Installation start(String... arguments) {
        try {
            int port = freePort();
            Path folder = Files.createTempDirectory("idworker");
            Installation made = new Installation(folder, "nats://127.0.0.1:" + port);
            List<String> flags = new ArrayList<>(List.of("serve", "--listen", "127.0.0.1:" + port,
                    "--data", folder.resolve("data").toString()));
            flags.addAll(List.of(arguments));
            made.flags = flags;
            made.restart();
            return made;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Kills the process with NATS, loader and worker, as a crash does. {@link #restart} starts it again. */
    public void stop() {
        kill(server);
    }

    /** Starts the process again at the same URL and with its data, and waits until it serves. */
    public void restart() {
        server = launch("server", flags);
        awaitWorker(server, "server");
    }

    /** The URL of the NATS server. */
    public String url() {
        return url;
    }

    /** Creates a tag. The arguments are flags of {@code idworker tag create}. */
    public void createTag(String tag, String... arguments) {
        List<String> command = new ArrayList<>(List.of("tag", "create", tag));
        command.addAll(List.of(arguments));
        run(command.toArray(String[]::new));
    }

    /** Runs a command of the binary against this installation; returns what it printed. */
    public String run(String... command) {
        Outcome outcome = tryRun(command);
        if (outcome.code() != 0) {
            throw new IllegalStateException("idworker " + String.join(" ", command) + ": " + outcome.output());
        }
        return outcome.output();
    }

    /** Starts a worker process beside the first one, and waits until it serves. */
    public Process startWorker() {
        String name = "worker" + workers.size();
        Process worker = launch(name, List.of("serve", "--server", url, "--role", "worker"));
        workers.add(worker);
        awaitWorker(worker, name);
        return worker;
    }

    /** Kills a process as a crash does, and waits for its end. */
    public static void kill(Process process) {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits until a condition holds; it fails after {@link #PATIENCE}. */
    public static void await(String what, BooleanSupplier condition) {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - end > 0) {
                throw new AssertionError("not within " + PATIENCE.toSeconds() + " s: " + what);
            }
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
        }
    }

    /** Ends all processes and deletes their data. */
    @Override
    public void close() {
        workers.forEach(Installation::kill);
        kill(server);
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Process launch(String name, List<String> arguments) {
        List<String> command = new ArrayList<>(List.of(Binary.PATH.toString()));
        command.addAll(arguments);
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        neutral(builder.environment());
        builder.redirectErrorStream(true).redirectOutput(log(name).toFile());
        try {
            Process process = builder.start();
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
            return process;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Below the ports that the kernel gives to connections, which could take one
     * before the server does, and below those of testing/freeport.
     */
    private static int freePort() {
        for (int tries = 0; tries < 100; tries++) {
            int port = ThreadLocalRandom.current().nextInt(10_000, 15_000);
            try (ServerSocket free = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return free.getLocalPort();
            } catch (IOException taken) {
                continue;
            }
        }
        throw new IllegalStateException("no free port between 10000 and 15000");
    }

    private Path log(String name) {
        return folder.resolve(name + ".log");
    }

    /** The log of a worker says when it serves; an exit ends the wait. */
    private void awaitWorker(Process process, String name) {
        await(name + " serves", () -> {
            try {
                String text = Files.readString(log(name));
                if (!process.isAlive()) {
                    throw new IllegalStateException(name + " ended: " + text);
                }
                return text.contains("serving");
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    private Outcome tryRun(String... arguments) {
        List<String> command = new ArrayList<>(List.of(Binary.PATH.toString()));
        command.addAll(List.of(arguments));
        command.addAll(List.of("--server", url));
        return run(folder, command);
    }

    private static Outcome run(Path folder, List<String> command) {
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true);
        neutral(builder.environment());
        try {
            Process process = builder.start();
            process.getOutputStream().close();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (!process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IllegalStateException(String.join(" ", command) + " hangs: " + output);
            }
            return new Outcome(process.exitValue(), output);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    /** Removes the variables that the binary reads: a developer's would decide tests. */
    private static void neutral(Map<String, String> environment) {
        environment.keySet().removeIf(name -> name.startsWith("NATS_") || name.startsWith("IDWORKER_"));
    }
}
