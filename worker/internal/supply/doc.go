// Package supply keeps a worker's allocator supplied with segments: it requests
// them from loaders, and installs what they grant.
//
//	s := supply.New(cfg)
//	err := s.Start(ctx)  // grants can reach the process
//	s.Allocator()        // answers requests
//	err = s.Stop()
//
// # The loop
//
// One goroutine, the loop in supply.go, does everything that follows from a
// change in the allocator: it gives the replies to requests, and puts the loads
// into the window. It handles grants, keeps the allocator's deadlines, and owns
// the state of this package, which therefore needs no locks. Nothing in the
// loop blocks.
//
// # The way of a load
//
//	allocator.Effects    the load is wanted
//	window.go            its turn comes: parked requests first, then the shortest
//	                     runway, as many at a time as loaders answer
//	request              if requests are parked, straight to a loader: the process's
//	                     own, or any that receives the plain message; else into the
//	                     load stream
//	receive, handle      the loader's answer
//	allocator.Grant      the segment is installed
//
// Nothing here retries: the allocator returns a load that was lost on the way
// once more after a second. The only detour: a refill that the stream does not
// take goes straight to a loader.
//
// # Rules
//
//   - CurrentLoad is called right before each sending, and its result is sent:
//     the order of strict tags rests on it. Only lookForLoaders sends an event
//     a second time as it was, which harms no order.
//   - The allocator decides whether a grant is used. It discards those that come
//     late, twice, or too low.
//   - During an outage a worker requests five loads a second, see window.go.
//
// unanswered.go reports that loaders do not serve, figures.go has the metrics.
package supply
