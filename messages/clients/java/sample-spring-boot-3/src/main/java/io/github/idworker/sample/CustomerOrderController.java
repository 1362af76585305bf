package io.github.idworker.sample;

import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** Orders over HTTP. */
@RestController
public class CustomerOrderController {
    private final CustomerOrders orders;

    CustomerOrderController(CustomerOrders orders) {
        this.orders = orders;
    }

    /** Stores an order, and returns it with its ID. */
    @PostMapping("/orders")
    public CustomerOrder place(@RequestParam("customer") String customer) {
        return orders.save(new CustomerOrder(customer));
    }

    /** Returns an order. */
    @GetMapping("/orders/{id}")
    public CustomerOrder find(@PathVariable("id") long id) {
        return orders.findById(id).orElseThrow();
    }
}
