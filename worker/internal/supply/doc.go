// Package supply keeps a worker's allocator supplied with segments: it sends its
// loads to loaders, and hands their answers to it.
//
//	s := supply.New(cfg)
//	err := s.Start(ctx)  // grants can reach the process
//	s.Allocator()        // answers requests
//	err = s.Stop()
//
// # The loop
//
// One goroutine, the loop in supply.go, reacts to every event: a change in the
// allocator, a grant, the outcome of a publication, a tick. Then it sends the
// replies and the loads that the allocator returns. It owns the state of this
// package, which therefore needs no locks. Nothing in the loop blocks.
//
// # A load's path
//
//	allocator.Send       the load that is needed most, if it may be sent now
//	send                 for parked requests, directly to a loader: the
//	                     process's own, or any that gets the plain message;
//	                     otherwise into the load stream
//	receive, handle      the loader's answer
//	allocator.Answer     the segment is installed
//
// The allocator decides which load is sent, when it is sent again, and whether a
// grant is used. This package has no queue of its own, and does not retry. An
// event that the load stream does not take is an answer, too: the allocator
// returns the load once more, to be sent directly.
//
// # Rules
//
//   - A load is sent as Send returned it: the order of strict tags relies on it.
//     Only lookForLoaders sends an unchanged event a second time, which harms no
//     order.
//   - Send is called after every event, because answers and time make room.
//
// unanswered.go reports that loaders do not serve, figures.go has the metrics.
package supply
