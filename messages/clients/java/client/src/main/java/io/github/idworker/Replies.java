package io.github.idworker;

import io.github.idworker.IdBatch.Range;
import io.nats.client.Message;
import io.nats.client.impl.Headers;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Reads replies, as docs/protocol.md describes them. Anything else is rejected as a whole. */
public final class Replies {
    private static final String CODE_HEADER = "Nats-Service-Error-Code";
    private static final String TEXT_HEADER = "Nats-Service-Error";
    private static final int NO_RESPONDERS = 503;

    private static final int MOST_DIGITS = 19;
    private static final int MOST_QUOTED = 40;

    private Replies() {}

    /**
     * Reads the body of a reply to a request for n IDs. A range costs the same
     * whatever its size.
     *
     * @param body of the reply
     * @param n at least 1
     * @return the IDs
     * @throws BadReplyException unless the ranges ascend, do not overlap, lie in 1 …
     *     2^63−1 and hold exactly n IDs; it quotes at most 40 characters
     */
    public static IdBatch decode(byte[] body, long n) {
        return new IdBatch(decodeBody(body, n).get());
    }

    /** Reads a reply. jnats drops the body of a message with a status; only the server sends such messages. */
    static Outcome decode(Message reply, long n) {
        int status = reply.isStatusMessage() ? reply.getStatus().getCode() : 0;
        Headers headers = reply.getHeaders();
        return decode(status, headers == null ? name -> null : headers::get, reply.getData(), n);
    }

    /**
     * Reads a reply.
     *
     * @param status that of the line NATS/1.0, 0 if it has none
     * @param headers returns the values of a header, null if there is none of that name
     */
    static Outcome decode(int status, Function<String, @Nullable List<String>> headers, byte[] body, long n) {
        if (status == NO_RESPONDERS && body.length == 0) {
            return Outcome.of(Failure.NO_RESPONDERS);
        }
        List<String> codes = headers.apply(CODE_HEADER);
        if (codes == null) {
            return decodeBody(body, n);
        }
        String code = first(codes);
        if (!isCode(code)) {
            return bad("error code " + Quote.of(code, MOST_QUOTED) + ", allowed is three digits");
        }
        return Outcome.of(Failure.reply(Integer.parseInt(code), first(headers.apply(TEXT_HEADER))));
    }

    private static String first(@Nullable List<String> values) {
        return values == null || values.isEmpty() ? "" : values.get(0);
    }

    private static boolean isCode(String text) {
        return text.length() == 3 && text.chars().allMatch(c -> '0' <= c && c <= '9');
    }

    private static Outcome decodeBody(byte[] body, long n) {
        List<Range> ranges = new ArrayList<>(1);
        long last = 0;
        long total = 0;
        for (int begin = 0; begin <= body.length; ) {
            int end = indexOf((byte) '\n', body, begin, body.length);
            Range range = decodeRange(body, begin, end);
            if (range == null) {
                int shown = Math.min(end - begin, MOST_QUOTED);
                String line = new String(body, begin, shown, StandardCharsets.UTF_8);
                return bad(Quote.of(line, MOST_QUOTED) + " is not a range of IDs");
            }
            if (range.first() <= last) {
                return bad("range " + range + " is not above the previous one");
            }
            if (range.last() - range.first() >= n - total) {
                return bad("more than the " + n + " IDs requested");
            }
            total += range.last() - range.first() + 1;
            last = range.last();
            ranges.add(range);
            begin = end + 1;
        }
        return total == n ? Outcome.of(List.copyOf(ranges)) : bad(total + " IDs, requested " + n);
    }

    /** Reads the line of these bytes, end excluded; null if it is no range. */
    private static @Nullable Range decodeRange(byte[] body, int begin, int end) {
        int dash = indexOf((byte) '-', body, begin, end);
        long first = decimal(body, begin, dash);
        long last = dash == end ? first : decimal(body, dash + 1, end);
        boolean ascends = dash == end || first < last;
        return first > 0 && last > 0 && ascends ? new Range(first, last) : null;
    }

    /** Reads digits without a leading zero; 0 for anything else, and for numbers above 2^63−1. */
    private static long decimal(byte[] body, int begin, int end) {
        if (begin == end || end - begin > MOST_DIGITS || body[begin] == '0') {
            return 0;
        }
        long number = 0;
        for (int i = begin; i < end; i++) {
            if (body[i] < '0' || body[i] > '9') {
                return 0;
            }
            number = number * 10 + (body[i] - '0');
            if (number < 0) { // past 2^63−1; 19 digits cannot come round to a positive number
                return 0;
            }
        }
        return number;
    }

    private static int indexOf(byte wanted, byte[] body, int begin, int end) {
        for (int i = begin; i < end; i++) {
            if (body[i] == wanted) {
                return i;
            }
        }
        return end;
    }

    private static Outcome bad(String why) {
        return Outcome.of(Failure.of(Failure.Kind.BAD_REPLY, "malformed reply: " + why));
    }
}
