package api

import (
	"strconv"
	"strings"
)

// The media types of replies.
const (
	typeJSON = "application/json"
	typeText = "text/plain"
)

// prefer returns which of the offered types a client would rather have, the first one if it has no
// preference. It is -1 if the client takes none of them.
func prefer(accept []string, offered ...string) int {
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == offered[0]) {
		return 0
	}
	best, chosen := liking{}, -1
	for i, media := range offered {
		if l := likingOf(accept, media); l.quality > 0 && l.beats(best) {
			best, chosen = l, i
		}
	}
	return chosen
}

// liking is how much a client likes a type.
type liking struct {
	quality  float64 // 0 to 1; 0: not at all
	exact    int     // how much of the type it named: all, half or nothing
	position int     // in the client's list
}

// beats reports whether one type goes before another: by the client's numbers, and where they are the same
// the one that it names, and the one that it names first.
func (l liking) beats(other liking) bool {
	switch {
	case l.quality != other.quality:
		return l.quality > other.quality
	case l.exact != other.exact:
		return l.exact > other.exact
	}
	return l.position < other.position
}

// likingOf reads the headers for what is said about one type. The most exact that is said counts.
func likingOf(accept []string, media string) (found liking) {
	found.exact = -1
	position := 0
	for _, header := range accept {
		for part := range strings.SplitSeq(header, ",") {
			position++
			name, parameters, _ := strings.Cut(part, ";")
			exact := matches(strings.TrimSpace(name), media)
			if quality, ok := qualityOf(parameters); ok && exact > found.exact {
				found = liking{quality, exact, position}
			}
		}
	}
	return found
}

// matches says how much of a type a range of types names; -1 if the type is not in it.
func matches(name, media string) int {
	major, _, _ := strings.Cut(media, "/")
	switch {
	case strings.EqualFold(name, media):
		return 2
	case strings.EqualFold(name, major+"/*"):
		return 1
	case name == "*/*":
		return 0
	}
	return -1
}

// qualityOf reads the number among the parameters of a type, 1 if there is none. What makes no sense does
// not count.
func qualityOf(parameters string) (quality float64, ok bool) {
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(key, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return q, err == nil && q >= 0 && q <= 1
		}
	}
	return 1, true
}
