package snowflake

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the layout as text, which [ParseLayout] reads back. No two
// layouts have the same text:
//
//	41:1ms/w10/s12@1735689600000      Default
//	38:10ms/w7/s8@1735689600000       JavaScript
//	41:1ms/d5/w5/s12@1288834974657    Twitter
//	39:10ms/s8/w16@1409529600000      Sonyflake
//
// That is: the bits of time and its unit; then datacenter, worker ID and
// sequence with their bits, in the order in which they lie in the ID; then the
// epoch as Unix time in milliseconds.
func (l Layout) String() string {
	worker := fmt.Sprintf("/w%d", l.worker)
	if l.datacenter > 0 {
		worker = fmt.Sprintf("/d%d%s", l.datacenter, worker)
	}
	order := worker + fmt.Sprintf("/s%d", l.sequence)
	if l.sequenceFirst {
		order = fmt.Sprintf("/s%d", l.sequence) + worker
	}
	return fmt.Sprintf("%d:%v%s@%d", l.time, time.Duration(l.unit), order, l.epoch)
}

// maxLayoutText is longer than any layout's text. Longer input is refused
// unparsed, even if it is a megabyte.
const maxLayoutText = 64

// ParseLayout reads the text of String, and the names of [LayoutNames]. The
// error wraps [ErrLayout].
func ParseLayout(text string) (Layout, error) {
	for _, n := range named {
		if n.name == text {
			return n.layout(), nil
		}
	}
	spec, ok := parseSpec(text)
	if !ok {
		return Layout{}, fmt.Errorf("%w: %.64q, allowed is %s, or text like %s", ErrLayout, text, allNames(), Default())
	}
	l, err := NewLayout(spec)
	if err != nil {
		return Layout{}, err
	}
	// Each layout has a single text: no +5, 05 or 1000µs, so that texts can be
	// compared.
	if l.String() != text {
		return Layout{}, fmt.Errorf("%w: %q must be written as %s", ErrLayout, text, l)
	}
	return l, nil
}

// parseSpec splits the text into its numbers. It does not check whether they
// make sense.
func parseSpec(text string) (s LayoutSpec, ok bool) {
	if len(text) > maxLayoutText {
		return s, false
	}
	rest, epoch, ok := strings.Cut(text, "@")
	millis, err := strconv.ParseInt(epoch, 10, 64)
	if !ok || err != nil {
		return s, false
	}
	s.Epoch = time.UnixMilli(millis)

	parts := strings.Split(rest, "/")
	bits, unit, ok := strings.Cut(parts[0], ":")
	if !ok {
		return s, false
	}
	if s.Time, err = strconv.Atoi(bits); err != nil {
		return s, false
	}
	if s.Unit, err = time.ParseDuration(unit); err != nil {
		return s, false
	}
	for i, part := range parts[1:] {
		if part == "" {
			return s, false
		}
		width, err := strconv.Atoi(part[1:])
		if err != nil {
			return s, false
		}
		switch part[0] {
		case 'd':
			s.Datacenter = width
		case 'w':
			s.Worker = width
		case 's':
			s.Sequence = width
			s.SequenceFirst = i == 0
		default:
			return s, false
		}
	}
	return s, true
}
