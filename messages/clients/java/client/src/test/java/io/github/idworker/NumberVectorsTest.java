package io.github.idworker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class NumberVectorsTest {
    /** Opaque IDs, and numbers of documents, are those of all languages; so are the kinds of errors. */
    @Test
    void vectors() throws IOException {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.exists(folder.resolve("messages/testdata"))) {
            folder = folder.getParent();
        }
        NumberVectors checked = NumberVectors.check(folder.resolve("messages/testdata/vectors.json"));
        assertEquals(List.of(), checked.failed());
        assertEquals(true, checked.cases().get("opaque") > 80 && checked.cases().get("numbers") > 140, "all cases");
    }
}
