package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	code        = regexp.MustCompile("`[^`]*`")
	link        = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.:;!?](?:\s|$)`)
)

// generated begins a page that a program writes. No limit of length holds for it.
const generated = "<!-- Code generated "

func (r *findings) page(name, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	made := strings.HasPrefix(text, generated)
	limit := pageLines
	if name == "README.md" {
		limit = readmeLines
	}
	if len(lines) > limit && !made {
		r.fault(name, "%d lines, at most %d", len(lines), limit)
	}
	if !made && (strings.HasPrefix(name, "docs/") || name == "CONTRIBUTING.md") {
		r.pageWords += words(text)
	}
	fenced, glossary, entries := false, false, 0
	var paragraph []string
	start := 0
	end := func() {
		r.prose(fmt.Sprintf("%s:%d", name, start+1), strings.Join(paragraph, " "))
		paragraph = nil
	}
	for n, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			glossary = strings.HasSuffix(line, "# Glossary")
		}
		if glossary && strings.HasPrefix(line, "| **") {
			entries++
		}
		switch {
		case strings.HasPrefix(trimmed, "```"):
			end()
			fenced = !fenced
		case fenced:
		case trimmed == "", strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "<!--"):
			end()
		case strings.HasPrefix(trimmed, "|"):
			end()
			for _, cell := range strings.Split(trimmed, "|") {
				r.banned(fmt.Sprintf("%s:%d", name, n+1), code.ReplaceAllString(strings.TrimSpace(cell), "X"))
			}
		default:
			if isItem.MatchString(trimmed) {
				end()
				trimmed = isItem.ReplaceAllString(trimmed, "")
			}
			if paragraph == nil {
				start = n
			}
			paragraph = append(paragraph, trimmed)
		}
	}
	end()
	if entries > glossaryEntries {
		r.fault(name, "%d terms in the glossary, at most %d", entries, glossaryEntries)
	}
}

var isItem = regexp.MustCompile(`^(?:[-*]|\d+\.) `)

// prose checks one paragraph.
func (r *findings) prose(at, text string) {
	if text == "" {
		return
	}
	text = code.ReplaceAllString(text, "X")
	text = link.ReplaceAllString(text, "]")
	r.banned(at, text)
	for _, sentence := range sentenceEnd.Split(text, -1) {
		n := words(sentence)
		if n == 0 {
			continue
		}
		r.sentences++
		if n > 25 {
			r.longSentences++
		}
		if n > sentenceWords {
			r.fault(at, "a sentence of %d words, at most %d: %.60s…", n, sentenceWords, strings.TrimSpace(sentence))
		}
	}
}
