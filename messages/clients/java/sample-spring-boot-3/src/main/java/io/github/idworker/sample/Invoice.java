package io.github.idworker.sample;

import com.baomidou.mybatisplus.annotation.IdType;
import com.baomidou.mybatisplus.annotation.TableId;
import com.baomidou.mybatisplus.annotation.TableName;

/** An invoice; MyBatis-Plus takes its ID from idworker, of the tag with the table's name. */
@TableName("invoice")
public class Invoice {
    @TableId(type = IdType.ASSIGN_ID)
    private Long id;

    private String customer;

    /** Called by MyBatis. */
    protected Invoice() {}

    Invoice(String customer) {
        this.customer = customer;
    }

    /** The ID; null before the invoice is saved. */
    public Long getId() {
        return id;
    }

    /** Called by MyBatis. */
    public void setId(Long id) {
        this.id = id;
    }

    /** Who pays. */
    public String getCustomer() {
        return customer;
    }

    /** Called by MyBatis. */
    public void setCustomer(String customer) {
        this.customer = customer;
    }
}
