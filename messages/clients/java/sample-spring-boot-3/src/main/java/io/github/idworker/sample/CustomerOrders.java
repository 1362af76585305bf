package io.github.idworker.sample;

import org.springframework.data.jpa.repository.JpaRepository;

/** The stored orders. */
public interface CustomerOrders extends JpaRepository<CustomerOrder, Long> {}
