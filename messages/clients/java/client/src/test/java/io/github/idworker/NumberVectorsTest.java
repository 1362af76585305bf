package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.idworker.NumberFormat.Parsed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneId;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongFunction;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** The sections opaque and numbers of messages/testdata/vectors.json, which are those of all languages. */
class NumberVectorsTest {
    private record Opaque(String about, Map<String, KeyFile> keys, List<Sealing> seal, List<Sealing> open,
            List<Sealing> bad, @JsonProperty("bad_keys") List<KeyFile> badKeys) {}

    private record KeyFile(String why, String file, @Nullable String fingerprint, @Nullable String error) {}

    /** A case of an ID, or of what is opened. */
    private record Sealing(String why, String keys, String form, int bits, String tag, @Nullable String prefix,
            @Nullable String id, @Nullable String sealed, @Nullable String error) {}

    private record Numbers(String about, List<Document> cases) {}

    /** A case of a number that is made, of one that is read, or of a format alone. */
    private record Document(String why, String base, String format, String zone, @Nullable String at, long seq,
            @Nullable String tag, @Nullable String number, @Nullable String parse, @Nullable String error) {}

    /** A check that may fail with an error of the client. */
    private interface Check {
        void run();
    }

    /** Reads a section. It refuses fields that nothing reads. */
    private static <T> T read(String section, Class<T> type) throws IOException {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.exists(folder.resolve("messages/testdata"))) {
            folder = folder.getParent();
        }
        ObjectMapper json = new ObjectMapper();
        JsonNode sections = json.readTree(folder.resolve("messages/testdata/vectors.json").toFile());
        return json.treeToValue(sections.get(section), type);
    }

    @Test
    void opaqueIds() throws IOException {
        Opaque opaque = read("opaque", Opaque.class);
        Stream.concat(opaque.keys.values().stream(), opaque.badKeys.stream()).forEach(keys ->
                expect(keys.why, keys.error, () ->
                        assertEquals(keys.fingerprint, OpaqueIds.parse(keys.file).fingerprint())));
        opaque.seal.forEach(sealing -> expect(sealing.why, null, () -> {
            Codec codec = Codec.of(opaque, sealing);
            assertEquals(sealing.sealed, codec.seal.apply(Long.parseLong(sealing.id)));
            assertEquals(sealing.id, "" + codec.open.applyAsLong(sealing.sealed));
        }));
        opaque.open.forEach(sealing -> expect(sealing.why, null, () ->
                assertEquals(sealing.id, "" + Codec.of(opaque, sealing).open.applyAsLong(sealing.sealed))));
        opaque.bad.forEach(sealing -> expect(sealing.why, sealing.error, () -> {
            Codec codec = Codec.of(opaque, sealing);
            if (sealing.id != null) {
                codec.seal.apply(Long.parseLong(sealing.id));
            } else {
                codec.open.applyAsLong(sealing.sealed);
            }
        }));
    }

    @Test
    void numbers() throws IOException {
        read("numbers", Numbers.class).cases
                .forEach(document -> expect(document.why, document.error, () -> checkDocument(document)));
    }

    /** Either codec, with decimals as sealed numbers. */
    private record Codec(LongFunction<String> seal, ToLongFunction<String> open) {
        static Codec of(Opaque opaque, Sealing sealing) {
            OpaqueIds keys = OpaqueIds.parse(opaque.keys.get(sealing.keys).file);
            if (sealing.form.equals("text")) {
                OpaqueIds.Texts texts = keys.texts(sealing.tag, sealing.prefix);
                return new Codec(texts::seal, texts::open);
            }
            OpaqueIds.Numbers numbers = keys.numbers(sealing.tag, sealing.bits);
            return new Codec(id -> "" + numbers.seal(id), sealed -> numbers.open(Long.parseLong(sealed)));
        }
    }

    private static void checkDocument(Document document) {
        NumberFormat format = NumberFormat.of(document.base, document.format, ZoneId.of(document.zone));
        if (document.parse != null) {
            format.parse(document.parse);
        } else if (document.at != null) {
            Instant at = format.parseDate(document.at);
            String number = format.number(at, document.seq);
            assertEquals(document.number, number);
            assertEquals(document.tag, format.tag(at));
            Parsed read = format.parse(number);
            assertEquals(document.tag, read.tag());
            assertEquals(document.base + " " + document.seq, read.base() + " " + read.seq());
        }
    }

    /** Runs a case, which must end with an error of this kind, or without. */
    private static void expect(String why, @Nullable String kind, Check check) {
        String got = null;
        try {
            check.run();
        } catch (IdworkerException e) {
            got = kindOf(e);
            String message = e.getMessage();
            assertTrue(message.length() <= 350 && message.codePoints().noneMatch(Quote::isInvisible), message);
        }
        assertEquals(kind, got, why);
    }

    /** The file's name of an error. */
    private static String kindOf(IdworkerException error) {
        Enum<?> fault;
        if (error instanceof OpaqueIdException opaque) {
            fault = opaque.fault();
        } else if (error instanceof DocumentNumberException number) {
            fault = number.fault();
        } else {
            return error instanceof BadTagException ? "tag" : error.toString();
        }
        return fault.name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
}
