package main

import "regexp"

// A banned expression breaks a rule wherever it stands.
type banned struct {
	expression *regexp.Regexp
	instead    string
}

var never = []banned{
	{word(`nobody|somebody|whoever|whosoever`), "name the caller, process or operator"},
	{word(`anew`), "again"},
	{word(`no use`), "do not …"},
	{word(`lest`), "so that … not"},
	{word(`meanwhile`), "during that time, or nothing"},
	{word(`besides`), "also, in addition"},
	{word(`be it|shall`), "plain words"},
	{word(`(?:by|of) (?:itself|themselves)`), "alone, automatically, or nothing"},
	{word(`as far as`), "if, up to"},
	{word(`what comes of|goes for`), "name it"},
	{regexp.MustCompile(`(?:^|[.:;!?] )(?:What|Who|Whatever)\b[^.:;!?]*(?:[.:;!]|$)`), "begin with the subject"},
}

// A rate is how often a word may stand in 10,000 words of comment.
type rate struct {
	name       string
	expression *regexp.Regexp
	limit      float64
}

var rates = []rate{
	{"what", word(`what`), 10},
	{"one, ones", word(`ones?`), 30},
	{"know, say, tell, ask", word(`know(?:s|ing)?|knew|says?|said|saying|tells?|told|telling|asks?|asked|asking`), 5},
	{"nobody, somebody", word(`nobody|somebody`), 2},
	{"how far, often, long", word(`how (?:far|often|long)`), 10},
}

// Bounds of lengths. Models keep 90 to 99 of 100 lines of comment within 80 columns.
const (
	commentColumns  = 80
	wideComments    = 5 // in 100
	packageComment  = 60
	readmeLines     = 150
	pageLines       = 250
	pageWords       = 26_550
	sentenceWords   = 30
	logWords        = 6
	medianErrors    = 12
	medianHelp      = 6
	glossaryEntries = 25
)

func word(expression string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + expression + `)\b`)
}
