package io.github.idworker;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.SecretKeySpec;

/**
 * FF1 of NIST SP 800-38G (algorithms 7 and 8) for the numbers below 2^bits:
 * AES-256, radix 2, an empty tweak. A permutation of these numbers.
 *
 * <p>The standard computes with strings of digits. With two halves of at most 32
 * bits, a round is one block of AES and one addition.
 *
 * <p>Thread-safe.
 */
final class Ff1 {
    private static final int ROUNDS = 10;
    private static final int BLOCK = 16;

    private final SecretKey key;
    private final ByteBuffer start; // the block P of the standard, encrypted
    private final int right; // bits of the half B
    private final long leftMask;
    private final long rightMask;
    private final Pool<Rounds> pool = new Pool<>(Rounds::new);

    /**
     * @param key 32 bytes
     * @param bits 34 … 64: then Q of the standard is one block, and of S only the
     *     first 8 bytes count
     */
    Ff1(byte[] key, int bits) {
        this.key = new SecretKeySpec(key, "AES");
        int left = bits / 2;
        right = bits - left;
        leftMask = mask(left);
        rightMask = mask(right);
        // Version 1, method 2, addition 1; radix 2; rounds; the lengths of the left
        // half, of the whole and of the tweak.
        byte[] p = {1, 2, 1, 0, 0, 2, ROUNDS, (byte) left, 0, 0, 0, (byte) bits, 0, 0, 0, 0};
        byte[] encrypted = new byte[BLOCK];
        encrypt(newCipher(), p, encrypted);
        start = ByteBuffer.wrap(encrypted);
    }

    /** Returns the number that x becomes. */
    long encrypt(long x) {
        Rounds rounds = pool.take();
        long result = rounds.encrypt(x);
        pool.give(rounds);
        return result;
    }

    /** Returns the number that became x. */
    long decrypt(long x) {
        Rounds rounds = pool.take();
        long result = rounds.decrypt(x);
        pool.give(rounds);
        return result;
    }

    static long mask(int bits) {
        return -1L >>> (64 - bits);
    }

    private Cipher newCipher() {
        try {
            Cipher cipher = Cipher.getInstance("AES/ECB/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, key);
            return cipher;
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("no AES-256", e);
        }
    }

    private static void encrypt(Cipher cipher, byte[] in, byte[] out) {
        try {
            cipher.doFinal(in, 0, BLOCK, out, 0);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("AES", e);
        }
    }

    /** A cipher and its buffers, which serve one thread at a time. */
    private final class Rounds {
        private final Cipher cipher = newCipher();
        private final ByteBuffer in = ByteBuffer.allocate(BLOCK);
        private final ByteBuffer out = ByteBuffer.allocate(BLOCK);

        long encrypt(long x) {
            long a = x >>> right;
            long b = x & rightMask;
            for (int round = 0; round < ROUNDS; round += 2) {
                a = (a + mix(round, b)) & leftMask;
                b = (b + mix(round + 1, a)) & rightMask;
            }
            return a << right | b;
        }

        long decrypt(long x) {
            long a = x >>> right;
            long b = x & rightMask;
            for (int round = ROUNDS - 2; round >= 0; round -= 2) {
                b = (b - mix(round + 1, a)) & rightMask;
                a = (a - mix(round, b)) & leftMask;
            }
            return a << right | b;
        }

        /**
         * The number y of a round: the CBC-MAC of P and Q, where Q has the round and
         * a half in its last 5 bytes.
         */
        private long mix(int round, long half) {
            in.putLong(0, start.getLong(0)).putLong(8, start.getLong(8) ^ ((long) round << 32 | half));
            Ff1.encrypt(cipher, in.array(), out.array());
            return out.getLong(0);
        }
    }
}
