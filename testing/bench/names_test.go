package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// tagNames returns n different tags, as long as in a real installation, about
// 22 bytes: a region, a shop, a kind.
func tagNames(n int) []string {
	regions := []string{"eu-west", "eu-north", "us-east", "ap-south"}
	things := []string{"order", "invoice", "shipment", "customer", "payment", "refund", "order_item", "session"}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s.%04d.%s", regions[i%4], i/32, things[i/4%8])
	}
	return names
}

// shuffled returns the names in an order that no prefetcher foresees, as copies
// that lie back to back: a request's tag is in the processor's cache, for it
// has just been read off the wire, but it is not the very string that a map
// holds, which would spare comparing the two.
func shuffled(names []string) []string {
	order := make([]string, len(names))
	for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(len(names)) {
		order[i] = names[j]
	}
	copies := strings.Join(order, "")
	for i, name := range order {
		order[i], copies = copies[:len(name)], copies[len(name):]
	}
	return order
}
