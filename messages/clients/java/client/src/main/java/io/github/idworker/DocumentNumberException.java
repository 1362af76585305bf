package io.github.idworker;

/** A format, a date, an ID or a text is not as {@link NumberFormat} needs it. */
public class DocumentNumberException extends BadArgumentException {
    private static final long serialVersionUID = 1L;

    /** What is wrong. */
    public enum Fault {
        /** The format is malformed, or its numbers could repeat. */
        FORMAT("bad format of numbers"),
        /** The date is none, or is not of the years 1 to 9999 in the format's zone. */
        DATE("bad date"),
        /** The ID is below 1. */
        SEQ("bad sequence number"),
        /** No document of the format has this text. */
        NUMBER("no number of this format");

        private final String words;

        Fault(String words) {
            this.words = words;
        }
    }

    private final Fault fault;

    DocumentNumberException(Fault fault, String why) {
        super(fault.words + ": " + why);
        this.fault = fault;
    }

    /** What is wrong. */
    public Fault fault() {
        return fault;
    }
}
