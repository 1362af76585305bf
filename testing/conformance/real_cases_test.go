package conformance

// realCases run against the built binary.
var realCases []testCase
