package neighbours

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// Subject is where processes say hello.
func Subject(p messages.Prefix) string { return string(p) + ".hello" }

// AnswerSubject is where a process gets the answers to its hellos.
func AnswerSubject(p messages.Prefix, instance string) string { return Subject(p) + "." + instance }

// Rights are those of every process that serves, whatever its role.
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	if role != rights.Worker && role != rights.Loader {
		return rights.Rights{}
	}
	subjects := []string{Subject(p), AnswerSubject(p, "*")}
	return rights.Join(rights.Publish(subjects...), rights.Subscribe(subjects...))
}

// Installation is what installations are told apart by.
type Installation struct {
	ID      string
	Created time.Time
}

// olderThan orders installations. It is a total order.
func (i Installation) olderThan(other Installation) bool {
	if c := i.Created.Compare(other.Created); c != 0 {
		return c < 0
	}
	return i.ID < other.ID
}

func (i Installation) String() string {
	return fmt.Sprintf("%s (since %s)", i.ID, i.Created.UTC().Format(time.RFC3339))
}

// Process names a process and its installation.
type Process struct {
	Installation   Installation
	Instance, Host string // the host only informs people
}

// Hello is what a process says of itself.
type Hello struct {
	Process

	// Serving says that the process is in the queue groups. One that is starting or has left
	// is not.
	Serving bool
}

// helloJSON is a hello on the wire.
type helloJSON struct {
	Installation string    `json:"installation"`
	Created      time.Time `json:"created"`
	Instance     string    `json:"instance"`
	Host         string    `json:"host,omitempty"`
	Serving      bool      `json:"serving"`
}

// ErrMalformed is the error for a message that is no hello.
var ErrMalformed = errors.New("malformed hello")

func (h Hello) encode() []byte {
	data, err := json.Marshal(helloJSON{h.Installation.ID, h.Installation.Created.UTC(), h.Instance, h.Host, h.Serving})
	if err != nil {
		panic(err) // text and a time of this millennium always marshal
	}
	return data
}

// What names may have, so that a hello cannot make anybody publish elsewhere, or log at
// length.
const (
	maxNameLen = 32
	maxHostLen = 253
)

func decodeHello(data []byte) (Hello, error) {
	var h helloJSON
	if err := json.Unmarshal(data, &h); err != nil {
		return Hello{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for _, name := range []string{h.Installation, h.Instance} {
		if len(name) > maxNameLen || strings.Contains(name, ".") || messages.CheckTag(name) != nil {
			return Hello{}, fmt.Errorf("%w: %.40q is not one token of at most %d bytes", ErrMalformed, name, maxNameLen)
		}
	}
	if h.Created.IsZero() || len(h.Host) > maxHostLen {
		return Hello{}, fmt.Errorf("%w: no creation time, or a host of more than %d bytes", ErrMalformed, maxHostLen)
	}
	return Hello{Process{Installation{h.Installation, h.Created}, h.Instance, h.Host}, h.Serving}, nil
}

// ErrForeign is wrapped by every [ForeignError].
var ErrForeign = errors.New("another installation answers on the same subjects")

// ForeignError says which process of another installation was met.
type ForeignError struct {
	Prefix     messages.Prefix
	Own, Other Process
}

func (e *ForeignError) Error() string {
	other := "process " + e.Other.Instance
	if e.Other.Host != "" {
		other += " on host " + e.Other.Host
	}
	return fmt.Sprintf("%v, %s.>: it is %v, met as %s; this process belongs to %v",
		ErrForeign, e.Prefix, e.Other.Installation, other, e.Own.Installation)
}

// Unwrap makes it an [ErrForeign].
func (e *ForeignError) Unwrap() error { return ErrForeign }
