package io.github.idworker.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.baomidou.mybatisplus.annotation.TableName;
import com.baomidou.mybatisplus.core.MybatisConfiguration;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import io.github.idworker.RowIds;
import java.util.List;
import org.apache.ibatis.builder.MapperBuilderAssistant;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Whose IDs a row of MyBatis-Plus gets. */
class MyBatisPlusTest {
    @TableName("invoice")
    static class Named {
        Long id;
    }

    @TableName("invoice")
    @IdworkerTag("bill")
    static class Tagged {
        Long id;
    }

    @TableName("\"all invoices\"")
    static class Quoted {
        Long id;
    }

    @IdworkerTag("all invoices")
    static class Mistaken {
        Long id;
    }

    @TableName("narrow")
    static class Narrow {
        Integer id;
    }

    @BeforeAll
    static void tables() {
        MapperBuilderAssistant assistant = new MapperBuilderAssistant(new MybatisConfiguration(), "");
        assistant.setCurrentNamespace("test");
        for (Class<?> type : MyBatisPlusTest.class.getDeclaredClasses()) {
            TableInfoHelper.initTableInfo(assistant, type);
        }
    }

    private final FakeClient client = new FakeClient(1);
    private final IdworkerIdentifierGenerator generator = new IdworkerIdentifierGenerator(RowIds.of(client));

    @Test
    void theTagIsTheAnnotationsElseTheTables() {
        assertEquals(1L, generator.nextId(new Named()));
        assertEquals(2L, generator.nextId(new Tagged()));
        assertEquals(3L, generator.nextId(new Tagged() {}), "a subclass, as a proxy is");
        assertEquals(List.of("prefetch invoice", "invoice", "prefetch bill", "bill", "bill"), client.events);
    }

    @Test
    void aNameThatIsNoTagIsAnErrorThatNamesTheEntity() {
        Exception table = assertThrows(IllegalStateException.class, () -> generator.nextId(new Quoted()));
        assertTrue(table.getMessage().startsWith(Quoted.class.getName() + ": "), table.getMessage());
        assertTrue(table.getMessage().contains("@IdworkerTag"), table.getMessage());
        Exception tag = assertThrows(IllegalStateException.class, () -> generator.nextId(new Mistaken()));
        assertTrue(tag.getMessage().startsWith(Mistaken.class.getName() + ": "), tag.getMessage());
    }

    @Test
    void anIdIsNeverCutToAnInteger() {
        IdworkerIdentifierGenerator high =
                new IdworkerIdentifierGenerator(RowIds.of(new FakeClient(Integer.MAX_VALUE)));
        assertEquals((long) Integer.MAX_VALUE, high.nextId(new Narrow()));
        Exception cut = assertThrows(IllegalStateException.class, () -> high.nextId(new Narrow()));
        assertTrue(cut.getMessage().contains("2147483648"), cut.getMessage());
    }
}
