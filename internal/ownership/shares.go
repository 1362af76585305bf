package ownership

// plan says which lease is to have each slot in use; slots not in use have none.
type plan [Slots]leaseID

// share shares out the slots in use among the living, who are in order. Everybody gets as many as
// everybody else, or one more. Who has slots keeps as many of them as it is to have; the others, and
// those that nobody has, are dealt out in order.
//
// It depends on nothing but what the bucket holds. So all processes that have read equally far
// have the same plan, each does its own part of it, and what is done already does not change the rest.
func share(living []leaseID, inUse func(slot int) bool, owner func(slot int) leaseID) (p plan) {
	if len(living) == 0 {
		return p
	}
	room := quotas(living, inUse, owner)
	var pool []int
	for slot := range Slots {
		if !inUse(slot) {
			continue
		}
		if l := owner(slot); room[l] > 0 {
			p[slot], room[l] = l, room[l]-1
		} else {
			pool = append(pool, slot)
		}
	}
	for _, l := range living {
		for ; room[l] > 0; room[l]-- {
			p[pool[0]], pool = l, pool[1:]
		}
	}
	return p
}

// quotas says how many slots each of the living is to have. If they cannot all have the same, one
// more is for those who have more anyway, so that as few slots as possible move.
func quotas(living []leaseID, inUse func(slot int) bool, owner func(slot int) leaseID) map[leaseID]int {
	slots, have := 0, make(map[leaseID]int)
	for slot := range Slots {
		if inUse(slot) {
			slots++
			have[owner(slot)]++
		}
	}
	each, more := slots/len(living), slots%len(living)
	quota := make(map[leaseID]int)
	for _, l := range living {
		quota[l] = each
	}
	for _, enough := range []int{each, -1} { // those who have more go first
		for _, l := range living {
			if more > 0 && quota[l] == each && have[l] > enough {
				quota[l]++
				more--
			}
		}
	}
	return quota
}

// rank is the place of a lease in a line of the living without one of them. The line is another one
// for each key, but the same in all processes. So it does not matter much that the first in one line
// is dead.
func rank(living []leaseID, self, without leaseID, key int) (n int) {
	own := weight(self, key)
	for _, l := range living {
		if w := weight(l, key); l != without && (w > own || w == own && l.before(self)) {
			n++
		}
	}
	return n
}

// weight is a hash of both.
func weight(l leaseID, key int) uint64 {
	x := uint64(l.Place)<<32 ^ l.Life<<9 ^ uint64(key)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
