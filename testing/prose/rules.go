package main

import "regexp"

// A term of the glossary in docs/concepts.md, and other names for the same thing,
// which no text has.
type term struct {
	name   string
	others *regexp.Regexp
}

var terms = []term{
	{"buffer", words(`(?:ID|local) cache|cached IDs`)},
	{"burnt", words(`burned`)},
	{"dead letter", words(`poison(?:ed)? (?:events?|messages?|pills?)`)},
	{"enricher", words(`enrichment (?:workers?|process(?:es)?)`)},
	{"fence", words(`fencing(?: tokens?)?`)},
	{"installation", words(`(?:cluster|deployment) IDs?`)},
	{"instance", words(`instance IDs?`)},
	{"load event", words(`(?:load|loading|refill) requests?|(?:loading|refill) events?`)},
	{"parked", words(`(?:held|pending|suspended) requests?`)},
	{"segment", words(`(?:ID|number) blocks?|blocks? of (?:IDs|numbers)`)},
	{"worker ID", words(`(?:machine|node) IDs?|worker numbers?`)},
}

// fragment is a sentence whose subject is missing, as in "What the caller pays."
// A question may begin so.
var fragment = regexp.MustCompile(`(?:^|[.:;!?] )(?:What|Who|Whatever)\b[^.:;!?]*(?:[.:;!]|$)`)

// human is a program, or a part or product of one, that does what only people do.
// Programs return, report, log, detect, keep and need. A worker, a request and a
// load do want IDs: package store has a Want.
var human = words(`(?:` + programs + `|it|requests?|workers?)` + auxiliaries + ` (?:believe[sd]?|know|knows|knew|known|says?|said|tells?|told|thinks?|thought)|` +
	`(?:` + programs + `)` + auxiliaries + ` (?:wants?|wanted)`)

const (
	programs = `idworker|NATS|JetStream|(?:allocator|bucket|client|command|database|enricher|error|function|generator|grant|holder|lease|` +
		`loader|log|manager|message|method|package|page|prefetcher|process|program|register|server|store|stream|supply|test)(?:s|es)?|repl(?:y|ies)`
	auxiliaries = `(?: (?:also|already|always|alone|both|cannot|can|did|do|does|had|has|have|itself|may|must|never|no longer|not|now|only|` +
		`should|still|then|themselves|will|would))*`
)

func words(expression string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + expression + `)\b`)
}
