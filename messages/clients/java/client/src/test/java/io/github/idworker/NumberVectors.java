package io.github.idworker;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.idworker.NumberFormat.Parsed;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.LongFunction;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Checks this client with the sections opaque and numbers of
 * messages/testdata/vectors.json.
 *
 * @param cases the number of cases by section
 * @param failed a text for each case that failed
 */
record NumberVectors(Map<String, Integer> cases, List<String> failed) {
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

    static NumberVectors check(Path file) throws IOException {
        ObjectMapper json = new ObjectMapper(); // it refuses fields that nothing reads
        JsonNode sections = json.readTree(file.toFile());
        List<String> failed = new ArrayList<>();
        Opaque opaque = json.treeToValue(sections.get("opaque"), Opaque.class);
        Numbers numbers = json.treeToValue(sections.get("numbers"), Numbers.class);
        int opaqueCases = opaque.keys.size() + opaque.seal.size() + opaque.open.size() + opaque.bad.size()
                + opaque.badKeys.size();
        checkOpaque(opaque, failed);
        numbers.cases.forEach(document -> expect("numbers", document.why, document.error, failed,
                () -> checkDocument(document)));
        return new NumberVectors(Map.of("opaque", opaqueCases, "numbers", numbers.cases.size()), failed);
    }

    private static void checkOpaque(Opaque opaque, List<String> failed) {
        Stream.concat(opaque.keys.values().stream(), opaque.badKeys.stream()).forEach(keys ->
                expect("opaque", keys.why, keys.error, failed, () ->
                        same(keys.fingerprint, OpaqueIds.parse(keys.file).fingerprint())));
        opaque.seal.forEach(sealing -> expect("opaque", sealing.why, null, failed, () -> {
            Codec codec = Codec.of(opaque, sealing);
            same(sealing.sealed, codec.seal.apply(Long.parseLong(sealing.id)));
            same(sealing.id, "" + codec.open.applyAsLong(sealing.sealed));
        }));
        opaque.open.forEach(sealing -> expect("opaque", sealing.why, null, failed, () ->
                same(sealing.id, "" + Codec.of(opaque, sealing).open.applyAsLong(sealing.sealed))));
        opaque.bad.forEach(sealing -> expect("opaque", sealing.why, sealing.error, failed, () -> {
            Codec codec = Codec.of(opaque, sealing);
            if (sealing.id != null) {
                codec.seal.apply(Long.parseLong(sealing.id));
            } else {
                codec.open.applyAsLong(sealing.sealed);
            }
        }));
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
            same(document.number, number);
            same(document.tag, format.tag(at));
            Parsed read = format.parse(number);
            same(document.tag, read.tag());
            same(document.base + " " + document.seq, read.base() + " " + read.seq());
        }
    }

    /** Runs a case, which must end with an error of this kind, or without. */
    private static void expect(String section, String why, @Nullable String kind, List<String> failed, Check check) {
        String got = null;
        String shown = "no error";
        try {
            check.run();
        } catch (IdworkerException e) {
            got = kindOf(e);
            shown = e.getMessage();
        } catch (RuntimeException | AssertionError e) {
            got = "none of the client's";
            shown = e.toString();
        }
        if (!Objects.equals(got, kind) || !isSentence(shown)) {
            failed.add(section + ": " + why + ": " + shown + ", want " + kind);
        }
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

    private static boolean isSentence(String message) {
        return message.length() <= 350 && message.codePoints().noneMatch(Quote::isInvisible);
    }

    private static void same(@Nullable String want, String got) {
        if (!got.equals(want)) {
            throw new AssertionError(got + ", want " + want);
        }
    }
}
