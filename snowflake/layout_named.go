package snowflake

import (
	"strings"
	"time"
)

// named are the layouts that have a name.
var named = []struct {
	name   string
	layout func() Layout
}{
	{"default", Default},
	{"js", JavaScript},
	{"twitter", Twitter},
	{"discord", Discord},
	{"instagram", Instagram},
	{"sonyflake", Sonyflake},
}

// LayoutNames are the names that [ParseLayout] accepts.
func LayoutNames() []string {
	names := make([]string, len(named))
	for i, n := range named {
		names[i] = n.name
	}
	return names
}

// allNames are the names as a text lists them.
func allNames() string { return strings.Join(LayoutNames(), ", ") }

// Default ("default") is 41 bits of milliseconds since 2025, 10 bits of worker
// ID, 12 bits of sequence: 1,024 workers with 4,096,000 IDs a second each,
// until September 2094.
func Default() Layout {
	return Layout{epoch: 1735689600000, unit: int64(time.Millisecond), time: 41, worker: 10, sequence: 12}
}

// JavaScript ("js") has all IDs below 2^53, so that they are exact in
// JavaScript and anywhere else where numbers are floating point: 38 bits of 10
// ms since 2025, 7 bits of worker ID, 8 bits of sequence.
//
// It has ten bits less than Default. It keeps a long lifetime, until February
// 2112, because IDs outlive plans. The unit of 10 ms costs the least: IDs sort
// by time only as well as the workers' clocks agree, which is not much better.
// So 128 workers are left, many more than most installations have, with spare
// IDs for processes that just died. Each makes 25,600 IDs a second, all
// 3,276,800.
func JavaScript() Layout {
	return Layout{epoch: 1735689600000, unit: int64(10 * time.Millisecond), time: 38, worker: 7, sequence: 8}
}

// Twitter ("twitter") is the original layout. It differs from Default in two
// ways: the worker ID is split into 5 bits of datacenter and 5 bits of worker,
// and its epoch is 4 November 2010. Leaf and bwmarrin/snowflake have the same
// bits and epoch, without the split.
func Twitter() Layout {
	return Layout{epoch: 1288834974657, unit: int64(time.Millisecond), time: 41, datacenter: 5, worker: 5, sequence: 12}
}

// Discord ("discord") has Twitter's bits since 2015. Discord's internal worker
// is the datacenter here, and its process the worker. It counts the sign bit to
// the time, which makes no difference before 2084.
func Discord() Layout {
	return Layout{epoch: 1420070400000, unit: int64(time.Millisecond), time: 41, datacenter: 5, worker: 5, sequence: 12}
}

// Instagram ("instagram") has 13 bits of worker ID, which is the shard there,
// 10 bits of sequence, and milliseconds since 24 August 2011. Instagram has 41
// bits of time, up to the sign bit of the 64. IDs here are never negative, so
// 40 are left, and the lifetime is half as long: until June 2046. Until then
// the bits are the same.
func Instagram() Layout {
	return Layout{epoch: 1314220021721, unit: int64(time.Millisecond), time: 40, worker: 13, sequence: 10}
}

// Sonyflake ("sonyflake") is the layout of sony/sonyflake: 39 bits of 10 ms
// since September 2014, 8 bits of sequence, and then 16 bits of machine ID.
// (Version 2 of it starts in 2025 by default.)
func Sonyflake() Layout {
	return Layout{epoch: 1409529600000, unit: int64(10 * time.Millisecond), time: 39, sequence: 8, worker: 16, sequenceFirst: true}
}
