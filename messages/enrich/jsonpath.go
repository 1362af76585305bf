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
	at := gjson.ParseBytes(data)
	for rest, more := p.keys, true; more && at.IsObject(); {
		var key string
		key, rest, more = strings.Cut(rest, ".")
		found := valuesAt(at, key)
		if len(found) == 0 {
			return nil
		}
		if at = found[0]; len(found) > 1 {
			return unstampable("it has the JSON key %s twice", key)
		}
		if at.Type != gjson.Null && (!more || !at.IsObject()) {
			return unstampable("at the JSON path %s there is %.40q already", strings.TrimSuffix(p.keys, "."+rest), at.Raw)
		}
	}
	return nil
}

// valuesAt lists the values of a key in an object, which may have it more than once.
func valuesAt(object gjson.Result, key string) (all []gjson.Result) {
	object.ForEach(func(k, value gjson.Result) bool {
		if k.String() == key {
			all = append(all, value)
		}
		return true
	})
	return all
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
