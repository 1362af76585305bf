package enrich

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// path is a place in a JSON object: keys joined by dots. An empty one is none.
type path struct {
	keys   string
	number bool // the ID as a number, which JavaScript cannot hold beyond 2^53
}

// checkPath allows keys of letters, digits, _ and -, the first no digit, so that
// none means something else to the JSON library.
func checkPath(keys string) error {
	if keys == "" {
		return nil
	}
	for key := range strings.SplitSeq(keys, ".") {
		if key == "" || key[0] >= '0' && key[0] <= '9' || key[0] == '-' || strings.Trim(key, pathBytes) != "" {
			return bad("JSON path %q, want keys joined by dots: letters, digits, _ and -, beginning with a letter or _", keys)
		}
	}
	return nil
}

const pathBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// set puts the ID into a JSON object and leaves the rest as it is, byte for byte. What
// is there already is not overwritten, null excepted.
func (p path) set(data []byte, id int64) ([]byte, error) {
	if p.keys == "" {
		return data, nil
	}
	if !gjson.ValidBytes(data) || !gjson.ParseBytes(data).IsObject() {
		return nil, poison("it is not a JSON object: %.40q", data)
	}
	if err := p.free(data); err != nil {
		return nil, err
	}
	raw := strconv.FormatInt(id, 10)
	if !p.number {
		raw = strconv.Quote(raw)
	}
	out, err := sjson.SetRawBytes(data, p.keys, []byte(raw))
	if err != nil {
		return nil, poison("JSON path %s: %v", p.keys, err)
	}
	return out, nil
}

// free reports whether there is room at the path: objects or nothing on the way, and
// nothing or null at its end.
func (p path) free(data []byte) error {
	for i := 0; i <= len(p.keys); i++ {
		if i < len(p.keys) && p.keys[i] != '.' {
			continue
		}
		at := gjson.GetBytes(data, p.keys[:i])
		if at.Type == gjson.Null || i < len(p.keys) && at.IsObject() {
			continue
		}
		return poison("at the JSON path %s there is %.40q already", p.keys[:i], at.Raw)
	}
	return nil
}
