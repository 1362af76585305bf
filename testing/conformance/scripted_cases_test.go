package conformance

import "slices"

// scriptedCases run against a responder that follows a script.
var scriptedCases = slices.Concat(
	callCases,
	connectionCases,
	prefetchCases,
	copyCases,
	coalesceCases,
	traceCases,
)
