package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;

/** The contract as data: messages/testdata/vectors.json of the repository. */
class VectorsTest {
    private static final JsonNode SECTIONS = read();

    private static JsonNode read() {
        try {
            Path folder = Path.of("").toAbsolutePath();
            while (!Files.exists(folder.resolve("go.mod"))) {
                folder = folder.getParent();
            }
            return new ObjectMapper().readTree(folder.resolve("messages/testdata/vectors.json").toFile());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private interface Check {
        void run() throws IOException;
    }

    private static List<JsonNode> cases(String section) {
        List<JsonNode> cases = StreamSupport.stream(SECTIONS.get(section).get("cases").spliterator(), false).toList();
        assertTrue(cases.size() > 5, section);
        return cases;
    }

    private static byte[] bytes(JsonNode text) throws IOException {
        if (text.isTextual()) {
            return text.asText().getBytes(StandardCharsets.UTF_8);
        }
        if (text.has("base64")) {
            return Base64.getDecoder().decode(text.get("base64").asText());
        }
        return text.get("repeat").asText().repeat(text.get("times").asInt()).getBytes(StandardCharsets.UTF_8);
    }

    private static String text(JsonNode text) throws IOException {
        return new String(bytes(text), StandardCharsets.UTF_8);
    }

    /** Checks that an error's text is fit for a log, whatever the input was. */
    private static void assertLine(String message) {
        assertTrue(!message.isEmpty() && message.length() <= 300 && message.chars().noneMatch(c -> c < ' '), message);
    }

    /** Checks that a case ends with an error of its kind, or without. */
    private static void wantError(JsonNode test, Check check) throws IOException {
        String kind = "";
        try {
            check.run();
        } catch (BadArgumentException | BadReplyException e) {
            kind = e instanceof BadTagException ? "tag" : e instanceof BadPrefixException ? "prefix"
                    : e instanceof BadCountException ? "count" : "bad_reply";
            assertLine(e.getMessage());
        }
        assertEquals(test.path("error").asText(""), kind, test.get("why").asText());
    }

    @Test
    void tags() throws IOException {
        for (JsonNode test : cases("tags")) {
            wantError(test, () -> Tags.check(text(test.get("tag"))));
        }
    }

    @Test
    void prefixes() throws IOException {
        for (JsonNode test : cases("prefixes")) {
            wantError(test, () -> IdClientOptions.DEFAULTS.withPrefix(text(test.get("prefix"))));
        }
    }

    @Test
    void counts() throws IOException {
        for (JsonNode test : cases("counts")) {
            String n = test.get("n").asText();
            if (n.matches("-?[0-9]{1,18}|-?9223372036854775807|-9223372036854775808")) { // a long holds it
                wantError(test, () -> {
                    NatsIdClient.checkCount(Long.parseLong(n));
                    byte[] body = Call.Request.of("", Long.parseLong(n), null).body();
                    assertEquals(test.path("body").asText(), new String(body, StandardCharsets.US_ASCII));
                });
            }
        }
    }

    @Test
    void traceparents() throws IOException {
        for (JsonNode test : cases("traceparents")) {
            String value = text(test.get("value"));
            assertEquals(test.get("sent").asBoolean(), NatsIdClient.isTraceparent(value), test.get("why").asText());
        }
    }

    private static List<String> ranges(JsonNode test) {
        return StreamSupport.stream(test.path("ranges").spliterator(), false).map(JsonNode::asText).toList();
    }

    private static List<String> texts(IdBatch batch) {
        return batch.ranges().stream().map(IdBatch.Range::toString).toList();
    }

    @Test
    void bodies() throws IOException {
        for (JsonNode test : cases("bodies")) {
            wantError(test, () -> {
                IdBatch batch = Replies.decode(bytes(test.get("body")), test.get("n").asLong());
                assertEquals(ranges(test), texts(batch), test.get("why").asText());
                assertEquals(test.get("n").asLong(), batch.size());
            });
        }
    }

    @Test
    void replies() throws IOException {
        for (JsonNode test : cases("replies")) {
            Map<String, List<String>> headers = new HashMap<>();
            for (var header : test.path("headers").properties()) {
                for (JsonNode value : header.getValue()) {
                    headers.computeIfAbsent(header.getKey(), name -> new ArrayList<>()).add(text(value));
                }
            }
            Outcome outcome = Replies.decode(test.path("status").asInt(0), headers::get, bytes(test.get("body")),
                    test.get("n").asLong());
            String why = test.get("why").asText();
            Failure failure = outcome.failure();
            String kind = failure == null ? "" : failure.kind().name().toLowerCase();
            assertEquals(test.path("error").asText(""), kind, why);
            assertEquals(test.path("code").asInt(0), failure == null ? 0 : failure.code(), why);
            assertEquals(ranges(test), outcome.ranges() == null ? List.of() : texts(new IdBatch(outcome.ranges())), why);
            if (failure != null) {
                assertLine(failure.text());
                assertTrue(failure.text().contains(test.path("text").asText("")), failure.text());
            }
        }
    }

    @Test
    void codes() throws IOException {
        for (JsonNode test : cases("codes")) {
            Map<String, List<String>> headers = Map.of("Nats-Service-Error-Code", List.of(test.get("value").asText()));
            Failure failure = Replies.decode(0, headers::get, new byte[0], 1).failure();
            assertEquals(test.get("error").asText(), failure.kind().name().toLowerCase());
            assertEquals(Integer.parseInt(test.get("value").asText()), failure.code());
            assertEquals(test.get("retryable").asBoolean(), failure.isTransient());
            assertEquals(test.get("retryable").asBoolean(), failure.exception().isRetryable());
        }
    }
}
