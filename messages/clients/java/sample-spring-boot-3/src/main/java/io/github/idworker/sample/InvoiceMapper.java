package io.github.idworker.sample;

import com.baomidou.mybatisplus.core.mapper.BaseMapper;
import org.apache.ibatis.annotations.Mapper;

/** The stored invoices. */
@Mapper
public interface InvoiceMapper extends BaseMapper<Invoice> {}
