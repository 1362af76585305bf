package io.github.idworker;

/** A key file, a codec's arguments, an ID or an opaque ID is not as {@link OpaqueIds} needs it. */
public class OpaqueIdException extends BadArgumentException {
    private static final long serialVersionUID = 1L;

    /** What is wrong. */
    public enum Fault {
        /** The key file is malformed. */
        KEYS("malformed key file"),
        /** The width is neither 63 nor 53 bits. */
        BITS("bad width"),
        /** The key file has no key of the form. */
        NO_KEY("no key"),
        /** The ID or the sealed number is below 1, or too large for the width. */
        RANGE("outside the width"),
        /** The text has another prefix, or the prefix for a codec is malformed. */
        PREFIX("wrong prefix"),
        /** The text has too few or too many digits. */
        LENGTH("wrong length"),
        /** The text has a character that is no digit. */
        ALPHABET("not a digit"),
        /** The key file has no key of the text's generation. */
        GENERATION("unknown generation"),
        /**
         * The check digit is wrong: the text was sealed for another tag or with
         * another key, or was mistyped.
         */
        CHECK("wrong check digit");

        private final String words;

        Fault(String words) {
            this.words = words;
        }
    }

    private final Fault fault;

    OpaqueIdException(Fault fault, String why) {
        super(fault.words + ": " + why);
        this.fault = fault;
    }

    /** What is wrong. */
    public Fault fault() {
        return fault;
    }
}
