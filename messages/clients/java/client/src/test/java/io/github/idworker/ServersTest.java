package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

/** An error about the URL of a server says what to write instead, and shows no password. */
class ServersTest {
    private static final String NO_HOST = "bad server URL: its scheme or host cannot be read, allowed are URLs "
            + "such as nats://127.0.0.1:4222 or nats://user:password@127.0.0.1:4222";

    private static void refused(String message, String... urls) {
        IdClientOptions options = IdClientOptions.DEFAULTS.withServers(urls);
        assertEquals(message, assertThrows(BadConfigException.class,
                () -> IdClient.connectInBackground(options)).getMessage());
        assertEquals(message, assertThrows(BadConfigException.class, () -> IdClient.connect(options)).getMessage());
    }

    private static void refusedCharacter(String character, String encoded, String url) {
        refused("bad server URL: its user or password has '" + character + "', write " + encoded, url);
    }

    @Test
    void aCharacterThatALoginMustEncode() {
        refusedCharacter("/", "%2F", "nats://ids:S3/cr3t@127.0.0.1:1");
        refusedCharacter("/", "%2F", "nats://ids:33/cr3t@127.0.0.1:1"); // a URL of port 33
        refusedCharacter("/", "%2F", "ids:S3/cr3t@127.0.0.1:1");
        refusedCharacter("#", "%23", "nats://ids:S3#cr3t@127.0.0.1:1");
        refusedCharacter("?", "%3F", "nats://ids:S3?cr3t@127.0.0.1:1");
        refusedCharacter("@", "%40", "nats://ids:S3@cr3t@127.0.0.1:1");
        refusedCharacter("[", "%5B", "nats://ids:S3[cr3t@127.0.0.1:1");
        refusedCharacter("\\", "%5C", "nats://ids:S3\\cr3t@127.0.0.1:1");
        refusedCharacter(" ", "%20", "nats://ids:S3 cr3t@127.0.0.1:1");
        refusedCharacter("%", "%25", "nats://ids:S3%zzcr3t@127.0.0.1:1");
        refused("bad server URL 2 of 2: its user or password has '/', write %2F",
                "nats://127.0.0.1:1", "nats://ids:S3/cr3t@127.0.0.1:1");
    }

    @Test
    void whatIsNoUrl() {
        refused(NO_HOST, "nats://ids:S3cr3t"); // without a host
        refused(NO_HOST, "ids:S3cr3t");
        refused(NO_HOST, "nats://ids:S3cr3t@[");
        refused(NO_HOST, "[");
        refused(NO_HOST, "http://127.0.0.1");
        refused("bad server URL: its port is not one from 1 to 65535", "nats://127.0.0.1:99999");
        refused("bad server URL: its port is not one from 1 to 65535", "nats://127.0.0.1:0");
        refused("bad server URL: its port is not one from 1 to 65535", "nats://ids:735102"); // without a host
    }

    @Test
    void aUrlOfTheCallersOwnChange() {
        BadConfigException error = assertThrows(BadConfigException.class, () -> IdClient.connectInBackground(
                IdClientOptions.DEFAULTS.withNats(nats -> nats.server("nats://ids:S3cr3t"))));
        assertEquals("bad options of the connection: a server URL of withNats, allowed are URLs such as "
                + "nats://127.0.0.1:4222 or nats://user:password@127.0.0.1:4222", error.getMessage());
    }

    @Test
    void anEncodedLoginIsAcceptedAndHidden() {
        for (String login : new String[] {"ids:S3%2Fcr3t%25@", "ids:S3:+&cr3t@", ""}) {
            IdClientOptions options = IdClientOptions.DEFAULTS.withServers("nats://" + login + "127.0.0.1:1");
            assertEquals("connect to nats://127.0.0.1:1: java.net.ConnectException: Connection refused",
                    assertThrows(ConnectFailedException.class, () -> IdClient.connect(options)).getMessage());
        }
    }

    @Test
    void aLoginIsHiddenUpToTheLastSign() {
        assertEquals("lost nats://127.0.0.1:1", IdClientOptions.withoutLogin("lost nats://ids:S3/c@r3t@127.0.0.1:1"));
        assertEquals("127.0.0.1:1", IdClientOptions.withoutLogin("ids:S3/cr3t@127.0.0.1:1"));
        assertEquals("nats://127.0.0.1:1", IdClientOptions.withoutLogin("nats://127.0.0.1:1"));
    }
}
