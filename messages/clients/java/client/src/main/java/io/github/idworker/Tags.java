package io.github.idworker;

import java.nio.charset.StandardCharsets;

/** What a tag and a prefix may be. */
public final class Tags {
    private static final int MOST_BYTES = 128;
    private static final int MOST_PREFIX_BYTES = 32;

    private Tags() {}

    /**
     * Checks a tag.
     *
     * @param tag tokens of {@code A-Z a-z 0-9 _ -}, joined by single dots, 1 … 128
     *     bytes in all
     * @throws BadTagException if it is none; the message says why
     */
    public static void check(String tag) {
        if (tag.isEmpty() || tag.length() > MOST_BYTES) {
            throw new BadTagException("malformed tag: " + bytes(tag) + " bytes, allowed is 1 to " + MOST_BYTES);
        }
        int token = 0; // characters in the token so far
        for (int i = 0; i < tag.length(); i++) {
            char c = tag.charAt(i);
            if (isTokenCharacter(c)) {
                token++;
            } else if (c == '.' && token > 0 && i < tag.length() - 1) {
                token = 0;
            } else if (c == '.') {
                throw new BadTagException("malformed tag: empty token at byte " + i
                        + ", allowed are tokens joined by single dots");
            } else {
                throw new BadTagException("malformed tag: " + Quote.character(tag, i) + " at byte " + i
                        + ", allowed are A-Z a-z 0-9 _ - and dots between tokens");
            }
        }
    }

    /** Checks a prefix: a token of {@code a-z 0-9 _ -}, 1 … 32 bytes. */
    static void checkPrefix(String prefix) {
        if (prefix.isEmpty() || prefix.length() > MOST_PREFIX_BYTES) {
            throw new BadPrefixException("bad prefix: " + bytes(prefix) + " bytes, allowed is 1 to "
                    + MOST_PREFIX_BYTES);
        }
        for (int i = 0; i < prefix.length(); i++) {
            char c = prefix.charAt(i);
            if (!isTokenCharacter(c) || 'A' <= c && c <= 'Z') {
                throw new BadPrefixException("bad prefix: " + Quote.of(prefix, MOST_PREFIX_BYTES) + " has "
                        + Quote.character(prefix, i) + " at byte " + i + ", allowed are a-z 0-9 _ -");
            }
        }
    }

    private static boolean isTokenCharacter(char c) {
        return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-';
    }

    private static int bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8).length;
    }
}
