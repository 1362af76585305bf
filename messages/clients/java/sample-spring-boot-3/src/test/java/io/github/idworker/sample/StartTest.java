package io.github.idworker.sample;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.idworker.spring.IdworkerAutoConfiguration;
import io.nats.client.Connection;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** An application that does not start, and the sentences that say why. */
@ExtendWith(OutputCaptureExtension.class)
class StartTest {
    @ImportAutoConfiguration(IdworkerAutoConfiguration.class)
    static class Nothing {}

    /** Starts the application without success, and checks what it printed for its operator. */
    private static void refused(CapturedOutput output, String arguments, String... sentences) {
        refused(output, new SpringApplicationBuilder(Nothing.class), arguments, sentences);
    }

    private static void refused(
            CapturedOutput output, SpringApplicationBuilder application, String arguments, String... sentences) {
        application.web(WebApplicationType.NONE);
        assertThrows(Exception.class, () -> application.run(arguments.split(" ")));
        for (String sentence : sentences) {
            assertTrue(output.getAll().contains(sentence), () -> "missing: " + sentence + "\n" + output.getAll());
        }
        assertTrue(output.getAll().contains("APPLICATION FAILED TO START"), output.getAll());
    }

    /** Returns an application with a bean Connection, which nothing uses before the start has failed. */
    private static SpringApplicationBuilder withConnection() {
        Object none = Proxy.newProxyInstance(StartTest.class.getClassLoader(), new Class<?>[] {Connection.class},
                (proxy, method, arguments) -> null);
        return new SpringApplicationBuilder(Nothing.class)
                .initializers(context -> context.getBeanFactory().registerSingleton("nats", none));
    }

    @Test
    void aMisspelledPropertyNamesTheRightOnes(CapturedOutput output) {
        refused(output, "--idworker.sever=x --idworker.prefetch.runaway=1s",
                "Unknown property: idworker.prefetch.runaway", "idworker.sever",
                "Allowed are idworker.servers, idworker.user,", "idworker.ssl.bundle,", "idworker.row-wait,",
                "idworker.prefetch.max-batch,", "idworker.jackson.ids-as-strings.");
    }

    @Test
    void aServerThatIsNone(CapturedOutput output) {
        refused(output, "--idworker.servers=nats://127.0.0.1:x", "Correct idworker.servers");
    }

    @Test
    void aTimeoutOfNothing(CapturedOutput output) {
        refused(output, "--idworker.timeout=0s", "idworker.timeout", "0s", "allowed is more than 0");
    }

    @Test
    void aWaitOfNothing(CapturedOutput output) {
        refused(output, withConnection(), "--idworker.row-wait=0s", "idworker.row-wait", "allowed is more than 0");
    }

    @Test
    void aPrefixThatIsNone(CapturedOutput output) {
        refused(output, "--idworker.prefix=Shop.1", "idworker.prefix", "Shop.1");
    }

    @Test
    void aBufferWithoutALimit(CapturedOutput output) {
        refused(output, withConnection(), "--idworker.prefetch.limit=0",
                "idworker.prefetch.limit", "allowed is 1 to 1000000000");
    }

    @Test
    void aTagThatIsNone(CapturedOutput output) {
        refused(output, withConnection(), "--idworker.prefetch.except=order,my/tag",
                "idworker.prefetch.except", "my/tag");
    }

    @Test
    void aUserWithoutAPassword(CapturedOutput output) {
        refused(output, "--idworker.user=shop", "idworker.user", "it needs idworker.password, too");
    }

    @Test
    void aLoginForTheApplicationsConnection(CapturedOutput output) {
        refused(output, withConnection(), "--idworker.user=shop --idworker.password=secret",
                "idworker.user", "the client uses the bean Connection");
        assertFalse(output.getAll().contains("secret"), output.getAll());
    }

    @Test
    void aWrongServer(CapturedOutput output) throws IOException {
        int port;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        refused(output, "--idworker.fail-fast=true --idworker.servers=nats://127.0.0.1:" + port,
                "The idworker client did not connect: connect to nats://127.0.0.1:" + port,
                "Check that a NATS server runs at idworker.servers");
    }

    @Test
    void aWrongPassword(CapturedOutput output) throws IOException {
        try (ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
            List<String> logins = new CopyOnWriteArrayList<>();
            Thread refusing = new Thread(() -> refuseLogins(server, logins));
            refusing.setDaemon(true);
            refusing.start();
            refused(output, "--idworker.fail-fast=true --idworker.user=shop --idworker.password=secret"
                            + " --idworker.servers=nats://127.0.0.1:" + server.getLocalPort(),
                    "the server refuses the login", "idworker.user and idworker.password");
            assertFalse(output.getAll().contains("secret"), output.getAll());
            assertTrue(logins.get(0).contains("\"user\":\"shop\",\"pass\":\"secret\""), logins.toString());
        }
    }

    /** Does what a NATS server does with a wrong password. It ends when the socket is closed. */
    private static void refuseLogins(ServerSocket server, List<String> logins) {
        String info = "INFO {\"server_id\":\"test\",\"version\":\"2.12.0\",\"proto\":1,\"headers\":true,"
                + "\"max_payload\":1048576,\"auth_required\":true}\r\n";
        while (!server.isClosed()) {
            try (Socket client = server.accept()) {
                client.getOutputStream().write(info.getBytes(StandardCharsets.UTF_8));
                logins.add(new BufferedReader(
                        new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8)).readLine());
                client.getOutputStream().write("-ERR 'Authorization Violation'\r\n".getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                // The client or the test went away.
            }
        }
    }
}
