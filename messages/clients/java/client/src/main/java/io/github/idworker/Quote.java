package io.github.idworker;

import java.util.Locale;

/** Quotes callers' texts in messages, which are one line whatever the text is. */
final class Quote {
    private Quote() {}

    /** Quotes at most so many characters of a text. */
    static String of(String text, int most) {
        return '"' + plain(text, most) + '"';
    }

    /** Shows at most so many characters of a text, without quotation marks. */
    static String plain(String text, int most) {
        StringBuilder shown = new StringBuilder();
        text.codePoints().limit(most).forEach(c -> {
            if (isInvisible(c)) {
                shown.append(String.format(Locale.ROOT, "\\u%04x", c));
            } else {
                shown.appendCodePoint(c);
            }
        });
        return shown.toString();
    }

    /** Quotes the character at an index. */
    static String character(String text, int index) {
        return "'" + plain(text.substring(index), 1) + "'";
    }

    /** Whether a character shows nothing, changes how others are shown, or is half of one. */
    static boolean isInvisible(int c) {
        return switch (Character.getType(c)) {
            case Character.CONTROL, Character.FORMAT, Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR,
                    Character.SURROGATE -> true;
            default -> false;
        };
    }
}
