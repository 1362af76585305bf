package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OpaqueIdsTest {
    private static final String FIRST = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    private static final String SECOND = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    private static final OpaqueIds KEYS = OpaqueIds.parse("number " + FIRST + "\n1 " + FIRST + "\nz " + SECOND);

    /** Any ID of either width is sealed within it, and turns back. */
    @Test
    void anyId() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        OpaqueIds.Texts texts = KEYS.texts("order", "ord");
        for (int bits : new int[] {63, 53}) {
            OpaqueIds.Numbers numbers = KEYS.numbers("order", bits);
            long largest = (1L << bits - 1) - 1 + (1L << bits - 1);
            for (int i = 0; i < 1000; i++) {
                long id = Math.max(1, random.nextLong() >>> 1 >>> random.nextInt(63) & largest);
                long sealed = numbers.seal(id);
                assertTrue(1 <= sealed && sealed <= largest, () -> id + " is sealed as " + sealed + ", seed " + seed);
                assertEquals(id, numbers.open(sealed), () -> "seed " + seed);
                String text = texts.seal(id);
                assertTrue(text.matches("ord_z[0-7][0-9a-hjkmnp-tv-z]{13}"), () -> text + ", seed " + seed);
                assertEquals(id, texts.open(text), () -> "seed " + seed);
            }
        }
    }

    /** Threads share codecs: each seals and opens as if it were alone. */
    @Test
    void codecsAreShared() throws Exception {
        OpaqueIds.Numbers numbers = KEYS.numbers("order", 63);
        OpaqueIds.Texts texts = KEYS.texts("order", "ord");
        int threads = 32; // more than a pool keeps
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        List<Future<Integer>> wrong = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            long first = 1 + thread * 1000L;
            Callable<Integer> sealing = () -> {
                int count = 0;
                for (long id = first; id < first + 1000; id++) {
                    if (numbers.open(numbers.seal(id)) != id || texts.open(texts.seal(id)) != id) {
                        count++;
                    }
                }
                return count;
            };
            wrong.add(executor.submit(sealing));
        }
        for (Future<Integer> count : wrong) {
            assertEquals(0, count.get());
        }
        executor.shutdown();
    }

    /** No message and no print shows a part of a key. */
    @Test
    void noKeyShows() {
        List<String> shown = new ArrayList<>(List.of(KEYS.toString(), KEYS.numbers("order", 63).toString(),
                KEYS.texts("order", "ord").toString()));
        for (String bad : List.of(FIRST, FIRST + " " + SECOND, "1 " + FIRST + SECOND, "1 " + FIRST.substring(1),
                "1 " + FIRST.replace('A', '_'), FIRST + " 1", "number " + FIRST + "\nnumber " + SECOND)) {
            OpaqueIdException error = assertThrows(OpaqueIdException.class, () -> OpaqueIds.parse(bad));
            shown.add(error + " " + error.getCause());
        }
        for (String text : shown) {
            assertFalse(text.contains(FIRST.substring(1, 9)) || text.contains(SECOND.substring(1, 9)), text);
        }
    }

    /** A file may have comments that are not UTF-8. */
    @Test
    void loads(@TempDir Path folder) throws IOException {
        Path file = folder.resolve("keys");
        Files.write(file, ("# Schlüssel\r\n1\t" + FIRST + "\r\n").getBytes(StandardCharsets.ISO_8859_1));
        assertEquals("1:af27d53ede339836", OpaqueIds.load(file).fingerprint());
        assertThrows(IOException.class, () -> OpaqueIds.load(folder.resolve("none")));
    }
}
