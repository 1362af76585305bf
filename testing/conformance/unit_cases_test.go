package conformance

// unitCases need the driver alone.
var unitCases []testCase
