// Command prose checks the words of this repository: comments, messages, help
// and pages, and that no two exported types have one name. `make lint` runs it. [Rules] are in rules.go; gofile.go and
// page.go read what they are about.
//
//	go run ./testing/prose            lists what breaks a rule, then the measures
//	go run ./testing/prose ./worker   only of files below worker
//	go run ./testing/prose -list      prints all log messages, errors and help
//
// It is a program, and not a prose linter such as vale, because half of the rules
// are about rates for 10,000 words and about strings in Go code: log messages,
// errors, help.
package main
