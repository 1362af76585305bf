package snowflake

import "time"

// The layouts that have a name. [ParseLayout] knows them as "default", "twitter" and
// "sonyflake".

// Default is 41 bits of milliseconds since 2025, 10 bits of worker ID, 12 bits of
// sequence: 1,024 workers with 4,096,000 IDs a second each, until September 2094.
func Default() Layout {
	return Layout{epoch: 1735689600000, unit: int64(time.Millisecond), time: 41, worker: 10, sequence: 12}
}

// Twitter is the original layout. It differs from Default in two ways: the worker ID is
// split into 5 bits of datacenter and 5 bits of worker, and time began on 4 November
// 2010. Leaf and bwmarrin/snowflake have the same bits and epoch, without the split.
func Twitter() Layout {
	return Layout{epoch: 1288834974657, unit: int64(time.Millisecond), time: 41, datacenter: 5, worker: 5, sequence: 12}
}

// Sonyflake is the layout of sony/sonyflake: 39 bits of 10 ms since September
// 2014, 8 bits of sequence, and then 16 bits of machine ID. (Version 2 of it
// starts in 2025 unless told otherwise.)
func Sonyflake() Layout {
	return Layout{epoch: 1409529600000, unit: int64(10 * time.Millisecond), time: 39, sequence: 8, worker: 16, sequenceFirst: true}
}
