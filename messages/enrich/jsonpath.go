package enrich

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// jsonPath is a place in a JSON object: keys joined by dots. Empty keys mean no place.
type jsonPath struct {
	keys   string
	number bool // put the ID as a number, which JavaScript rounds beyond 2^53
}

// checkJSONPath allows keys of letters, digits, _ and - that start with a letter or _, so
// that none has a special meaning to the JSON library.
func checkJSONPath(keys string) error {
	if keys == "" {
		return nil
	}
	for key := range strings.SplitSeq(keys, ".") {
		if key == "" || key[0] >= '0' && key[0] <= '9' || key[0] == '-' || strings.Trim(key, pathBytes) != "" {
			return configError("JSON path %q, want keys joined by dots: letters, digits, _ and -, starting with a letter or _", keys)
		}
	}
	return nil
}

const pathBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// check returns an error that wraps errUnstampable unless an ID can be put there: only objects,
// null or nothing on the way, and null or nothing at its end.
func (p jsonPath) check(data []byte) error {
	if p.keys == "" {
		return nil
	}
	if !gjson.ValidBytes(data) || !gjson.ParseBytes(data).IsObject() {
		return unstampable("it is not a JSON object: %.40q", data)
	}
	for i := range len(p.keys) + 1 {
		if i < len(p.keys) && p.keys[i] != '.' {
			continue
		}
		at := gjson.GetBytes(data, p.keys[:i])
		if at.Type != gjson.Null && (i == len(p.keys) || !at.IsObject()) {
			return unstampable("at the JSON path %s there is %.40q already", p.keys[:i], at.Raw)
		}
	}
	return nil
}

// setID puts the ID into a JSON object that was checked, and leaves the rest as it is, byte
// for byte. It does not overwrite a value, except null.
func (p jsonPath) setID(data []byte, id int64) ([]byte, error) {
	if p.keys == "" {
		return data, nil
	}
	raw := strconv.FormatInt(id, 10)
	if !p.number {
		raw = strconv.Quote(raw)
	}
	out, err := sjson.SetRawBytes(data, p.keys, []byte(raw))
	if err != nil {
		return nil, unstampable("JSON path %s: %v", p.keys, err)
	}
	return out, nil
}
