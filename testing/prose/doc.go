// Command prose checks the words of this repository: comments, messages, help,
// pages and settings. `make lint` runs it.
//
//	go run ./testing/prose           all files
//	go run ./testing/prose ./worker  only files below worker
//
// It checks that a thing has one name, the one in the glossary, that a type's
// name means one thing, that a comment begins with its subject, and that programs
// do what programs do. The rules are in rules.go. Whether a text reads well is for
// people to judge, so nothing is counted: neither words, nor lines, nor sentences.
//
// It is no prose linter such as vale, because half of what it reads are strings
// in Go code.
package main
