package io.github.idworker;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.US_ASCII;

import io.github.idworker.OpaqueIdException.Fault;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.StringTokenizer;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.jspecify.annotations.Nullable;

/**
 * Turns IDs into opaque IDs and back. An opaque ID does not show how many IDs
 * there are, which came first, or when it was made.
 *
 * <pre>{@code
 * OpaqueIds keys = OpaqueIds.load(Path.of("opaque.keys")); // of idworker opaque keygen
 * OpaqueIds.Texts orders = keys.texts("order", "ord");
 * String text = orders.seal(1);    // "ord_164g7p0fvrzk7g6"
 * long id = orders.open(text);     // 1
 * }</pre>
 *
 * <p>All of it happens here: no request is sent, and workers have no keys. Text is
 * the form to recommend. It has a prefix, the generation of its key, 13 digits and
 * a check digit. Keys of texts can be replaced: the last generation in the file
 * seals, and a text opens as long as its generation is in the file. A number has
 * no room for a generation, so its key is for ever.
 *
 * <p>A codec belongs to a tag, or to any other name of that form: a table's, for
 * snowflake IDs. Two codecs with other keys, tags, forms or widths can make the
 * same opaque ID of two IDs. So services that share opaque IDs need the same keys;
 * they should log {@link #fingerprint()}.
 *
 * <p>Opaque IDs are no authorization: every number within the width opens to some
 * ID, and so does each 32nd text. Check rights as if the caller had given the ID.
 *
 * <p>The package {@code messages/opaque} of the Go module states the algorithm.
 * Immutable and thread-safe, as are the codecs.
 */
public final class OpaqueIds {
    /** The digits of texts, in ASCII order, without those that look like others. */
    private static final String DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";

    private static final String NUMBER = "number"; // the name of the key of numbers in a file
    private static final int KEY_BYTES = 32;
    private static final int FULL_BITS = 63; // of any ID, and of the number in a text
    private static final int DOUBLE_BITS = 53; // of integers that doubles hold exactly

    private final List<Master> masters; // in the file's order

    private OpaqueIds(List<Master> masters) {
        this.masters = masters;
    }

    /**
     * Reads a key file. See {@link #parse} for its form.
     *
     * @throws OpaqueIdException if it is no key file
     * @throws IOException if the file cannot be read
     */
    public static OpaqueIds load(Path file) throws IOException {
        // Comments may be in any encoding, and all else is ASCII.
        return parse(Files.readString(file, ISO_8859_1));
    }

    /**
     * Reads the text of a key file. Each line has a name, spaces or tabs, and a key:
     * 32 bytes in standard, padded base64. The name is {@code number}, or the
     * generation of a key for texts, a digit of {@code 0123456789abcdefghjkmnpqrstvwxyz}.
     * No name comes twice. The last generation seals. Empty lines and those that
     * begin with # are ignored, and lines may end in CRLF.
     *
     * @throws OpaqueIdException if it is none; the message names the line, and shows
     *     no key
     */
    public static OpaqueIds parse(String keyFile) {
        List<Master> masters = new ArrayList<>();
        String[] lines = keyFile.split("\n", -1);
        for (int i = 0; i < lines.length; i++) {
            StringTokenizer fields = new StringTokenizer(lines[i], " \t\r");
            if (!fields.hasMoreTokens()) {
                continue;
            }
            String name = fields.nextToken();
            if (name.startsWith("#")) {
                continue;
            }
            String where = "line " + (i + 1) + ": ";
            boolean isName = name.equals(NUMBER) || name.length() == 1 && DIGITS.contains(name);
            if (!isName || fields.countTokens() != 1) {
                throw new OpaqueIdException(Fault.KEYS,
                        where + "expected number, or a generation of " + DIGITS + ", and a key");
            }
            if (masters.stream().anyMatch(master -> master.name.equals(name))) {
                throw new OpaqueIdException(Fault.KEYS, where + name + " has a key already");
            }
            byte @Nullable [] key = decodeKey(fields.nextToken());
            if (key == null) {
                throw new OpaqueIdException(Fault.KEYS,
                        where + "the key of " + name + " is not base64 of " + KEY_BYTES + " bytes");
            }
            masters.add(new Master(name, key));
        }
        if (masters.isEmpty()) {
            throw new OpaqueIdException(Fault.KEYS, "no keys");
        }
        return new OpaqueIds(List.copyOf(masters));
    }

    /**
     * Returns the codec for numbers of a tag: up to 2^63−1, or up to 2^53−1 for
     * callers whose numbers are doubles, as in JavaScript.
     *
     * @param bits 63 or 53
     * @throws OpaqueIdException of {@link Fault#BITS} or {@link Fault#NO_KEY}
     * @throws BadTagException if the tag is none
     */
    public Numbers numbers(String tag, int bits) {
        if (bits != FULL_BITS && bits != DOUBLE_BITS) {
            throw new OpaqueIdException(Fault.BITS,
                    bits + " bits, allowed are " + FULL_BITS + " and " + DOUBLE_BITS);
        }
        Tags.check(tag);
        for (Master master : masters) {
            if (master.name.equals(NUMBER)) {
                return new Numbers(bits, master.cipher("number", bits, tag));
            }
        }
        throw new OpaqueIdException(Fault.NO_KEY, "the key file has no line " + NUMBER);
    }

    /**
     * Returns the codec for texts of a tag, which begin with a prefix and a further
     * {@code _}.
     *
     * @param prefix characters of {@code a-z 0-9 _}, or none
     * @throws OpaqueIdException of {@link Fault#PREFIX} or {@link Fault#NO_KEY}
     * @throws BadTagException if the tag is none
     */
    public Texts texts(String tag, String prefix) {
        if (!prefix.chars().allMatch(c -> 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_')) {
            throw new OpaqueIdException(Fault.PREFIX, Quote.of(prefix, 40) + ", allowed are a-z 0-9 _");
        }
        Tags.check(tag);
        List<Generation> generations = masters.stream()
                .filter(master -> !master.name.equals(NUMBER))
                .map(master -> new Generation(master, tag))
                .toList();
        if (generations.isEmpty()) {
            throw new OpaqueIdException(Fault.NO_KEY, "the key file has no generation");
        }
        return new Texts(prefix + "_", generations);
    }

    /**
     * Identifies the keys without showing them, as in
     * {@code number:af27d53ede339836 1:3d808385ee667c0e}, in the file's order.
     */
    public String fingerprint() {
        return masters.stream()
                .map(master -> master.name + ":" + HexFormat.of().formatHex(master.expand("fingerprint"), 0, 8))
                .collect(Collectors.joining(" "));
    }

    @Override
    public String toString() {
        return "opaque keys " + fingerprint();
    }

    /** Seals IDs of one tag as numbers. A call makes no garbage. */
    public static final class Numbers {
        private final int bits;
        private final Ff1 cipher;

        private Numbers(int bits, Ff1 cipher) {
            this.bits = bits;
            this.cipher = cipher;
        }

        /**
         * Returns the opaque number of an ID. Both are 1 … 2^bits−1.
         *
         * @throws OpaqueIdException of {@link Fault#RANGE}
         */
        public long seal(long id) {
            checkRange("ID", id, bits);
            return OpaqueIds.seal(cipher, id);
        }

        /**
         * Returns the ID of an opaque number. Both are 1 … 2^bits−1. A number that
         * {@link #seal} never returned opens to some ID, too.
         *
         * @throws OpaqueIdException of {@link Fault#RANGE}
         */
        public long open(long sealed) {
            checkRange("sealed number", sealed, bits);
            return OpaqueIds.open(cipher, sealed);
        }

        @Override
        public String toString() {
            return "opaque numbers of " + bits + " bits";
        }
    }

    /** Seals IDs of one tag as texts. */
    public static final class Texts {
        private static final int NUMBER_LENGTH = (FULL_BITS + 4) / 5;
        private static final int LENGTH = 1 + NUMBER_LENGTH + 1; // with generation and check digit

        private final String prefix; // with the _
        private final List<Generation> generations; // in the file's order; the last one seals

        private Texts(String prefix, List<Generation> generations) {
            this.prefix = prefix;
            this.generations = generations;
        }

        /**
         * Returns the opaque text of an ID, in lower case: the prefix, {@code _}, and
         * 15 digits.
         *
         * @param id 1 … 2^63−1
         * @throws OpaqueIdException of {@link Fault#RANGE}
         */
        public String seal(long id) {
            checkRange("ID", id, FULL_BITS);
            Generation generation = generations.get(generations.size() - 1);
            long sealed = OpaqueIds.seal(generation.cipher, id);
            StringBuilder text = new StringBuilder(prefix.length() + LENGTH).append(prefix).append(generation.digit);
            for (int shift = 5 * (NUMBER_LENGTH - 1); shift >= 0; shift -= 5) {
                text.append(DIGITS.charAt((int) (sealed >>> shift) & 31));
            }
            return text.append(generation.checkDigit(text.toString())).toString();
        }

        /**
         * Returns the ID of an opaque text, 1 … 2^63−1. Upper case is accepted in the
         * whole text. A text that {@link #seal} never returned opens to some ID in 1 of
         * 32 cases.
         *
         * @throws OpaqueIdException of {@link Fault#PREFIX}, {@link Fault#LENGTH},
         *     {@link Fault#ALPHABET}, {@link Fault#RANGE}, {@link Fault#GENERATION} or
         *     {@link Fault#CHECK}
         */
        public long open(String text) {
            String lower = toLowerAscii(text);
            int split = lower.lastIndexOf('_') + 1;
            if (!lower.substring(0, split).equals(prefix)) {
                throw new OpaqueIdException(Fault.PREFIX,
                        Quote.of(text.substring(0, split), 40) + ", allowed is " + prefix);
            }
            for (int i = split; i < lower.length(); i++) {
                if (DIGITS.indexOf(lower.charAt(i)) < 0) {
                    throw new OpaqueIdException(Fault.ALPHABET,
                            Quote.character(text, i) + " at byte " + i + ", allowed are " + DIGITS);
                }
            }
            if (lower.length() - split != LENGTH) {
                throw new OpaqueIdException(Fault.LENGTH,
                        lower.length() - split + " digits after " + prefix + ", allowed is " + LENGTH);
            }
            long sealed = 0;
            String number = lower.substring(split + 1, split + 1 + NUMBER_LENGTH);
            for (int i = 0; i < NUMBER_LENGTH; i++) {
                sealed = sealed << 5 | DIGITS.indexOf(number.charAt(i));
            }
            if (number.charAt(0) > '7' || sealed == 0) {
                throw new OpaqueIdException(Fault.RANGE,
                        "sealed number " + number + ", allowed is 0000000000001 to 7zzzzzzzzzzzz");
            }
            Generation generation = find(lower.charAt(split));
            if (lower.charAt(lower.length() - 1) != generation.checkDigit(lower.substring(0, lower.length() - 1))) {
                throw new OpaqueIdException(Fault.CHECK, "the text is of another tag or key, or mistyped");
            }
            return OpaqueIds.open(generation.cipher, sealed);
        }

        private Generation find(char digit) {
            for (Generation generation : generations) {
                if (generation.digit == digit) {
                    return generation;
                }
            }
            throw new OpaqueIdException(Fault.GENERATION, digit + " is not in the key file");
        }

        @Override
        public String toString() {
            return "opaque texts of " + prefix;
        }
    }

    /** What a generation's key yields for a tag. */
    private static final class Generation {
        final char digit;
        final Ff1 cipher;
        private final Pool<Mac> macs;

        Generation(Master master, String tag) {
            digit = master.name.charAt(0);
            cipher = master.cipher("text", FULL_BITS, tag);
            byte[] key = master.derive("check", FULL_BITS, tag);
            macs = new Pool<>(() -> newMac(key));
        }

        /** The check digit of a text that lacks only that: the first 8 bytes of the MAC, mod 32. */
        char checkDigit(String text) {
            Mac mac = macs.take();
            byte[] sum = mac.doFinal(text.getBytes(US_ASCII));
            macs.give(mac);
            return DIGITS.charAt(sum[7] & 31);
        }
    }

    /** A line of a key file. */
    private static final class Master {
        final String name; // NUMBER or a generation
        private final byte[] key;

        Master(String name, byte[] key) {
            this.name = name;
            this.key = key;
        }

        Ff1 cipher(String form, int bits, String tag) {
            return new Ff1(derive(form, bits, tag), bits);
        }

        /** The key of a codec. */
        byte[] derive(String form, int bits, String tag) {
            return expand(form + " " + bits + " " + tag);
        }

        /**
         * The 32 bytes that only the master and a purpose yield: HKDF-SHA256 without
         * salt, whose first block suffices.
         */
        byte[] expand(String purpose) {
            byte[] extracted = newMac(new byte[KEY_BYTES]).doFinal(key);
            Mac mac = newMac(extracted);
            mac.update(("idworker opaque v1 " + purpose).getBytes(US_ASCII));
            return mac.doFinal(new byte[] {1});
        }
    }

    /** 0 is no ID: where the cipher yields it, it is sealed once more. */
    private static long seal(Ff1 cipher, long id) {
        long sealed = cipher.encrypt(id);
        return sealed == 0 ? cipher.encrypt(0) : sealed;
    }

    private static long open(Ff1 cipher, long sealed) {
        long id = cipher.decrypt(sealed);
        return id == 0 ? cipher.decrypt(0) : id;
    }

    private static void checkRange(String what, long n, int bits) {
        if (n < 1 || n > Ff1.mask(bits)) {
            throw new OpaqueIdException(Fault.RANGE, what + " " + n + ", allowed is 1 to 2^" + bits + "-1");
        }
    }

    /** Returns the key, or null: Java's decoder also takes what no encoder makes. */
    private static byte @Nullable [] decodeKey(String base64) {
        byte[] key;
        try {
            key = Base64.getDecoder().decode(base64);
        } catch (IllegalArgumentException e) {
            return null; // its message shows a part of the key
        }
        boolean strict = Arrays.equals(Base64.getEncoder().encode(key), base64.getBytes(ISO_8859_1));
        return strict && key.length == KEY_BYTES ? key : null;
    }

    /** Lowers A–Z alone: the lower case of a Kelvin sign is a k. */
    private static String toLowerAscii(String text) {
        StringBuilder lower = new StringBuilder(text);
        for (int i = 0; i < lower.length(); i++) {
            char c = lower.charAt(i);
            if ('A' <= c && c <= 'Z') {
                lower.setCharAt(i, (char) (c + 'a' - 'A'));
            }
        }
        return lower.toString();
    }

    private static Mac newMac(byte[] key) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac;
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("no HMAC-SHA256", e);
        }
    }
}
