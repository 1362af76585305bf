// Package supply keeps a worker's allocator supplied with segments: it requests
// them from loaders, and installs their grants.
//
//	s := supply.New(cfg)
//	err := s.Start(ctx)  // grants can reach the process
//	s.Allocator()        // answers requests
//	err = s.Stop()
//
// # The loop
//
// One goroutine, the loop in supply.go, reacts to every change in the
// allocator: it sends the replies to requests, and puts loads into the window.
// It handles grants, keeps the allocator's deadlines, and owns the state of
// this package, which therefore needs no locks. Nothing in the loop blocks.
//
// # A load's path
//
//	allocator.Effects    the load is wanted
//	window.go            it waits: parked requests go first, then the shortest
//	                     runway, as many at a time as loaders answer
//	request              with parked requests, directly to a loader: the
//	                     process's own, or any that gets the plain message;
//	                     otherwise into the load stream
//	receive, handle      the loader's answer
//	allocator.Grant      the segment is installed
//
// This package does not retry: after a second, the allocator returns a lost
// load once more. The only detour: a refill that the stream does not accept
// goes directly to a loader.
//
// # Rules
//
//   - CurrentLoad is called right before each sending, and its result is sent:
//     the order of strict tags relies on it. Only lookForLoaders sends an
//     unchanged event a second time, which harms no order.
//   - The allocator decides whether a grant is used. It discards grants that are
//     late, duplicate, or too low.
//   - During an outage, a worker requests five loads a second, see window.go.
//
// unanswered.go reports that loaders do not serve, figures.go has the metrics.
package supply
