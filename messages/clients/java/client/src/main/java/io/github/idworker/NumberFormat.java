package io.github.idworker;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.github.idworker.DocumentNumberException.Fault;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.YearMonth;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Turns IDs of tags into numbers of documents, such as TCK-20261126-000001, that
 * begin again each day, month or year, and reads them.
 *
 * <pre>{@code
 * NumberFormat tickets =
 *         NumberFormat.of("ticket", "TCK-{yyyyMMdd}-{seq:6}", ZoneId.of("Asia/Shanghai"));
 * String number = tickets.next(client, Instant.now());
 * }</pre>
 *
 * <p>Each period has a tag of its own, here {@code ticket.20261126}. A template
 * creates them at their first request:
 *
 * <pre>idworker tag create 'ticket.*' --template --dated yyyyMMdd --order strict</pre>
 *
 * <p>Numbers of a strict tag ascend within a period. There is no order between the
 * numbers of two periods, because the clocks of callers differ.
 *
 * <p>Numbers have gaps: each reply that is lost or comes too late loses its numbers,
 * and so does an application that does not use what it got. So they are for orders,
 * tickets or shipments. If the law requires invoices without gaps, let the database
 * count them, in the transaction that inserts the invoice; docs/callers.md shows how.
 *
 * <p>No two documents have one number. It shows all the digits that its tag ends
 * with, and the ID; only the ID varies in width, so the length of a number tells
 * where each field begins. Numbers of two formats may be equal: give each base one
 * format for life, and each format some text that no other has.
 *
 * <p>Immutable and thread-safe.
 */
public final class NumberFormat {
    /** The most bytes of a format in UTF-8. */
    public static final int MAX_FORMAT_BYTES = 100;

    private static final int MAX_PAD = 19; // digits of 2^63−1

    // A time that a caller of Go's client has not set; no language takes it.
    private static final Instant UNSET = Instant.parse("0001-01-01T00:00:00Z");
    // Days before and after the years 1 to 9999 of any zone.
    private static final Instant FIRST = Instant.parse("0000-12-31T00:00:00Z");
    private static final Instant LAST = Instant.parse("+10000-01-02T00:00:00Z");

    private static final Pattern DAY = Pattern.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}");
    private static final Pattern TIME = Pattern.compile(
            DAY + "T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})");

    /** What a part of a number shows. The dates' order is that of tags. */
    private enum Field {
        LITERAL, YEAR, MONTH, DAY, SEQ;

        boolean isDate() {
            return this != LITERAL && this != SEQ;
        }
    }

    /**
     * A part of a number.
     *
     * @param text the literal, or the token
     * @param width characters; of an ID, the fewest
     */
    private record Part(Field field, String text, int width) {}

    private static final List<Part> DATE_TOKENS = List.of(
            new Part(Field.YEAR, "yyyy", 4),
            new Part(Field.YEAR, "yy", 2), // yyyy begins with it
            new Part(Field.MONTH, "MM", 2),
            new Part(Field.DAY, "dd", 2));

    private static final Pattern SEQ_TOKEN = Pattern.compile("seq(?::([1-9][0-9]?))?");

    private final String base;
    private final String format;
    private final ZoneId zone;
    private final List<Part> parts = new ArrayList<>();
    private final String dated;
    private final int fixed; // characters of all parts but the ID

    private NumberFormat(String base, String format, ZoneId zone) {
        this.base = base;
        this.format = format;
        this.zone = zone;
        int bytes = format.getBytes(UTF_8).length;
        if (bytes < 1 || bytes > MAX_FORMAT_BYTES) {
            throw badFormat(bytes + " bytes, allowed is 1 to " + MAX_FORMAT_BYTES);
        }
        readParts();
        dated = join(checkedTokens());
        fixed = parts.stream().filter(part -> part.field != Field.SEQ).mapToInt(Part::width).sum();
    }

    /**
     * Returns the format of a base, the part of the tags before the date.
     *
     * <p>A format is text with tokens in braces, 1 to 100 bytes:
     *
     * <pre>{@code
     * {yyyy} or {yy}  year, of four digits or the last two
     * {MM} {dd}       month and day, of two digits
     * {seq:6}         the ID, with zeros up to 6 (1 to 19) digits, and never cut
     * {seq}           the same without zeros
     * }</pre>
     *
     * <p>Tokens of dates may share braces, as in {@code {yyyyMMdd}}, and come in any
     * order. dd needs MM, and MM a year. Without a date, the tag is the base, and
     * numbers never begin again. {@code {seq}} is required. No token may come twice.
     * Text must not have braces, nor characters that are invisible or change the
     * direction: Unicode's categories Cc, Cf, Zl and Zp.
     *
     * @param zone decides to which day a time belongs; name it, because
     *     {@link ZoneId#systemDefault()} differs between machines
     * @throws DocumentNumberException of {@link Fault#FORMAT}
     * @throws BadTagException if the base is no tag, or a tag is above 128 bytes
     */
    public static NumberFormat of(String base, String format, ZoneId zone) {
        Tags.check(base);
        NumberFormat made = new NumberFormat(base, format, Objects.requireNonNull(zone, "zone"));
        Tags.check(tag(base, made.dated));
        return made;
    }

    /**
     * The date at the end of tags as templates name it: yyyyMMdd, yyyyMM, yyyy,
     * yyMMdd, yyMM or yy; or empty if numbers never begin again.
     */
    public String dated() {
        return dated;
    }

    /**
     * Returns the next number of a document of that time.
     *
     * @throws DocumentNumberException of {@link Fault#DATE}; nothing was sent
     * @throws IdworkerException as {@link IdClient#next(String)} does
     */
    public String next(IdClient client, Instant at) {
        return number(at, client.next(tag(at)));
    }

    /**
     * Returns the next n numbers of documents of that time, in ascending order of
     * their IDs.
     *
     * @param n at least 1, at most the batch limit of the workers
     * @throws DocumentNumberException of {@link Fault#DATE}; nothing was sent
     * @throws IdworkerException as {@link IdClient#next(String, long)} does
     */
    public List<String> next(IdClient client, Instant at, long n) {
        return client.next(tag(at), n).stream().mapToObj(id -> number(at, id)).toList();
    }

    /**
     * Returns the tag of documents of that time: the base, and if the format has a
     * date, a dot and all its digits that numbers show, in the order year, month,
     * day. A format without a date takes any time.
     *
     * @throws DocumentNumberException of {@link Fault#DATE}
     */
    public String tag(Instant at) {
        return tag(base, join(digitsOf(at)));
    }

    /**
     * Returns the number of a document of that time, with an ID of its tag.
     *
     * @param id at least 1
     * @throws DocumentNumberException of {@link Fault#DATE} or {@link Fault#SEQ}
     */
    public String number(Instant at, long id) {
        Map<Field, String> digits = digitsOf(at);
        if (id < 1) {
            throw new DocumentNumberException(Fault.SEQ, id + ", allowed is 1 or more");
        }
        StringBuilder number = new StringBuilder();
        for (Part part : parts) {
            switch (part.field) {
                case LITERAL -> number.append(part.text);
                case SEQ -> number.append(padded(id, part.width));
                default -> number.append(digits.get(part.field));
            }
        }
        return number.toString();
    }

    /**
     * Returns the noon of a document's day in the format's zone. Midnight would be
     * wrong: some zones skip it when daylight saving begins.
     *
     * @throws DocumentNumberException of {@link Fault#DATE} if the zone skipped the day
     */
    public Instant noon(LocalDate day) {
        Instant noon = day.atTime(12, 0).atZone(zone).toInstant();
        if (!LocalDate.ofInstant(noon, zone).equals(day)) {
            throw new DocumentNumberException(Fault.DATE, "there was no " + day + " in " + zone);
        }
        return noon;
    }

    /**
     * Reads a document's date: a time as of RFC 3339, or a day of the format's zone,
     * such as 2026-11-26, for which it returns the noon.
     *
     * @throws DocumentNumberException of {@link Fault#DATE}
     */
    public Instant parseDate(String text) {
        try {
            if (TIME.matcher(text).matches()) {
                return OffsetDateTime.parse(text).toInstant();
            }
            if (DAY.matcher(text).matches()) {
                return noon(LocalDate.parse(text));
            }
        } catch (DateTimeException e) {
            // No such date, as for a text of another form.
        }
        throw new DocumentNumberException(Fault.DATE, Quote.of(text, 40)
                + ", allowed is a day such as 2026-11-26, or a time of RFC 3339");
    }

    /**
     * A number that was read.
     *
     * @param period the date's digits in the order year, month, day; empty without a
     *     date
     * @param seq the ID
     */
    public record Parsed(String base, String period, long seq) {
        /** The tag that issued the ID. */
        public String tag() {
            return NumberFormat.tag(base, period);
        }
    }

    /**
     * Reads a number. It accepts exactly what {@link #number} returns.
     *
     * @throws DocumentNumberException of {@link Fault#NUMBER} for any other text
     */
    public Parsed parse(String number) {
        int seqWidth = number.length() - fixed;
        Map<Field, String> digits = new EnumMap<>(Field.class);
        long id = 0;
        int begin = 0;
        for (Part part : parts) {
            int end = begin + (part.field == Field.SEQ ? seqWidth : part.width);
            if (end - begin < part.width || end > number.length()) {
                throw notOfFormat(number, "is too short");
            }
            String text = number.substring(begin, end);
            begin = end;
            if (part.field == Field.LITERAL) {
                if (!text.equals(part.text)) {
                    throw notOfFormat(number, "has other text");
                }
            } else if (!text.chars().allMatch(c -> '0' <= c && c <= '9')) {
                throw notOfFormat(number, "has other characters than digits");
            } else if (part.field == Field.SEQ) {
                id = parseId(text);
                if (id < 1 || text.length() > part.width && text.charAt(0) == '0') {
                    throw notOfFormat(number, "has no sequence number from 1 to 2^63-1, or too many zeros");
                }
            } else {
                digits.put(part.field, text);
            }
        }
        if (!isDate(digits)) {
            throw notOfFormat(number, "has no date of the calendar");
        }
        return new Parsed(base, join(digits), id);
    }

    @Override
    public String toString() {
        return format;
    }

    private void readParts() {
        int at = 0;
        while (at < format.length()) {
            int open = format.indexOf('{', at);
            String literal = format.substring(at, open < 0 ? format.length() : open);
            checkLiteral(literal);
            if (!literal.isEmpty()) {
                parts.add(new Part(Field.LITERAL, literal, literal.length()));
            }
            if (open < 0) {
                return;
            }
            int close = format.indexOf('}', open);
            if (close < 0) {
                throw badFormat("{ without }");
            }
            readTokens(format.substring(open + 1, close));
            at = close + 1;
        }
    }

    /** Reads what is between braces. */
    private void readTokens(String inside) {
        if (inside.equals("seq") || inside.startsWith("seq:")) {
            Matcher seq = SEQ_TOKEN.matcher(inside);
            int width = !seq.matches() ? 0 : seq.group(1) == null ? 1 : Integer.parseInt(seq.group(1));
            if (width < 1 || width > MAX_PAD) {
                throw badTokens(inside, "allowed is {seq} or {seq:N}, N from 1 to " + MAX_PAD);
            }
            parts.add(new Part(Field.SEQ, inside, width));
            return;
        }
        String rest = inside;
        do {
            String unread = rest;
            Part token = DATE_TOKENS.stream().filter(t -> unread.startsWith(t.text)).findFirst().orElseThrow(
                    () -> badTokens(inside, "allowed are yyyy or yy, MM, dd, or one {seq} or {seq:N}"));
            parts.add(token);
            rest = rest.substring(token.width);
        } while (!rest.isEmpty());
    }

    /**
     * Refuses text that could be a mistaken token, or with which different numbers
     * could look the same.
     */
    private void checkLiteral(String text) {
        text.codePoints().forEach(c -> {
            if (c == '}') {
                throw badFormat("} without {");
            }
            if (Quote.isInvisible(c)) {
                throw badFormat(Quote.of(Character.toString(c), 1)
                        + " is not allowed, only visible characters and spaces");
            }
        });
    }

    /**
     * Returns the date's tokens. It refuses a format whose numbers could repeat: the
     * ID is missing, or a date begins again within a century.
     */
    private Map<Field, String> checkedTokens() {
        Map<Field, String> tokens = new EnumMap<>(Field.class);
        int ids = 0;
        for (Part part : parts) {
            if (part.field == Field.SEQ) {
                ids++;
            } else if (part.field.isDate() && tokens.put(part.field, part.text) != null) {
                throw badFormat("a part of the date comes twice");
            }
        }
        if (ids != 1) {
            throw badFormat("{seq} comes " + ids + " times, allowed is once");
        }
        if (tokens.containsKey(Field.DAY) && !tokens.containsKey(Field.MONTH)) {
            throw badFormat("dd needs MM");
        }
        if (tokens.containsKey(Field.MONTH) && !tokens.containsKey(Field.YEAR)) {
            throw badFormat("MM needs yyyy or yy");
        }
        return tokens;
    }

    /** The digits that numbers of that time show. */
    private Map<Field, String> digitsOf(Instant at) {
        Map<Field, String> digits = new EnumMap<>(Field.class);
        if (dated.isEmpty()) {
            return digits;
        }
        boolean near = at.isAfter(FIRST) && at.isBefore(LAST) && !at.equals(UNSET);
        LocalDate day = near ? LocalDate.ofInstant(at, zone) : LocalDate.MIN;
        if (day.getYear() < 1 || day.getYear() > 9999) {
            throw new DocumentNumberException(Fault.DATE,
                    at + " in " + zone + ", allowed are the years 1 to 9999, and a time that was set");
        }
        for (Part part : parts) {
            switch (part.field) {
                case YEAR -> digits.put(part.field, padded(day.getYear(), 4).substring(4 - part.width));
                case MONTH -> digits.put(part.field, padded(day.getMonthValue(), 2));
                case DAY -> digits.put(part.field, padded(day.getDayOfMonth(), 2));
                default -> { }
            }
        }
        return digits;
    }

    /** Whether there is such a date. A year of two digits may be of any century: in 2000, 29 February existed. */
    private static boolean isDate(Map<Field, String> digits) {
        String yearText = digits.getOrDefault(Field.YEAR, "2000");
        int year = Integer.parseInt(yearText.length() == 2 ? "20" + yearText : yearText);
        int month = Integer.parseInt(digits.getOrDefault(Field.MONTH, "1"));
        int day = Integer.parseInt(digits.getOrDefault(Field.DAY, "1"));
        return year > 0 && 1 <= month && month <= 12
                && 1 <= day && day <= YearMonth.of(year, month).lengthOfMonth();
    }

    /** Returns the ID of digits, or 0 if it exceeds 2^63−1. */
    private static long parseId(String digits) {
        try {
            return Long.parseLong(digits);
        } catch (java.lang.NumberFormatException e) {
            return 0;
        }
    }

    /** A loop, as String.format would use the digits of a locale. */
    private static String padded(long n, int width) {
        String digits = Long.toString(n);
        return "0".repeat(Math.max(0, width - digits.length())) + digits;
    }

    /** The map's order is year, month, day. */
    private static String join(Map<Field, String> digits) {
        return String.join("", digits.values());
    }

    private static String tag(String base, String period) {
        return period.isEmpty() ? base : base + "." + period;
    }

    private DocumentNumberException badFormat(String why) {
        return new DocumentNumberException(Fault.FORMAT, Quote.of(format, MAX_FORMAT_BYTES) + ": " + why);
    }

    private DocumentNumberException badTokens(String inside, String allowed) {
        return badFormat("{" + Quote.plain(inside, MAX_FORMAT_BYTES) + "}: " + allowed);
    }

    private DocumentNumberException notOfFormat(String number, String why) {
        return new DocumentNumberException(Fault.NUMBER, Quote.of(format, MAX_FORMAT_BYTES) + ": "
                + Quote.of(number, 200) + " " + why);
    }
}
