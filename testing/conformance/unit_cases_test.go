package conformance

import "slices"

// unitCases need the driver alone.
var unitCases = slices.Concat(
	decodingCases,
	argumentCases,
	clockCases,
)
