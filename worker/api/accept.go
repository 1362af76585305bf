package api

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"
)

// The media types of replies.
const (
	typeJSON = "application/json"
	typeText = "text/plain"
)

// prefer returns which of the offered types a client would rather have: the one to which its
// Accept headers give the highest number, of equal ones that which it names first, and the first
// one offered if it has no preference. It is -1 if the client takes none of them.
func prefer(accept []string, offered ...string) int {
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == offered[0]) {
		return 0
	}
	best, chosen := 0.0, -1
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, parameters, malformed := mime.ParseMediaType(part)
		i := slices.IndexFunc(offered, func(media string) bool {
			major, _, _ := strings.Cut(media, "/")
			return name == media || name == major+"/*" || name == "*/*"
		})
		quality, err := strconv.ParseFloat(cmp.Or(parameters["q"], "1"), 64)
		if malformed == nil && err == nil && i >= 0 && quality > best {
			best, chosen = quality, i
		}
	}
	return chosen
}
