package snowflake

import (
	"fmt"
	"strconv"
)

// maxSafeNumber is the largest integer that JavaScript keeps exact, 2^53−1.
const maxSafeNumber = 1<<53 - 1

// MarshalJSON writes the ID as a string, "1541815603606036480".
func (id ID) MarshalJSON() ([]byte, error) {
	text := make([]byte, 0, maxIDLen+2)
	text = append(text, '"')
	text = strconv.AppendInt(text, int64(id), 10)
	return append(text, '"'), nil
}

// UnmarshalJSON reads a string as MarshalJSON writes it, and a number up to
// 2^53−1. A larger number is refused: its writer may have rounded it to another
// ID. null leaves the ID unchanged. The error wraps [ErrID].
func (id *ID) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	quoted := len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"'
	if quoted {
		text = text[1 : len(text)-1]
	}
	parsed, err := Parse(text)
	if err != nil {
		return err
	}
	if !quoted && parsed > maxSafeNumber {
		return fmt.Errorf("%w: JSON number %s is above 2^53-1 and may be rounded", ErrID, text)
	}
	*id = parsed
	return nil
}
