// Package history records requests for IDs with their answers, and checks what was recorded: no
// ID twice, and IDs in order where they have to be. `idworker bench` and testing/nemesis record;
// testing/nemesis also checks a file alone.
//
// A history is text, a line for each request, in the order of the answers ([Call.String]). Its
// first line says how snowflake IDs are made, or that it is not known:
//
//	# idworker history, layout 41:1ms/w10/s12@1735689600000
//	# idworker history, layout unknown
//
// A file whose name ends in .gz is compressed.
package history
