package loadmsg

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Claims is a message to all loaders: what a process has seen of the register. A
// process sends it unasked when its connection is back, or when it stops granting.
// Version 0.2.0 takes the message for a request for its name.
type Claims struct {
	Instance string `json:"instance"` // the sender

	// Installation and Created are the identity of the sender's installation. A
	// claim about another one says nothing.
	Installation string    `json:"installation"`
	Created      time.Time `json:"created"`

	Claims []store.Claim `json:"claims"`
}

// The bounds of a message of claims. A process has its own position as a worker
// and as a loader, and the claim that has stopped it.
const (
	MaxClaims      = 8
	maxClaimsBytes = 8 << 10
)

// Encode returns the message as it is published.
func (c Claims) Encode() []byte { return encode(c) }

// DecodeClaims reads a message of claims.
func DecodeClaims(data []byte) (Claims, error) {
	var c Claims
	if len(data) > maxClaimsBytes {
		return c, fmt.Errorf("%w: %d bytes of claims, allowed are %d", ErrMalformed, len(data), maxClaimsBytes)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := checkInstance(c.Instance); err != nil {
		return c, err
	}
	if err := checkName("installation", c.Installation); err != nil {
		return c, err
	}
	given := len(c.Claims)
	if c.Claims = PossibleClaims(c.Instance, c.Claims); len(c.Claims) != given {
		return c, fmt.Errorf("%w: %d claims, of which %d are possible", ErrMalformed, given, len(c.Claims))
	}
	return c, nil
}

// PossibleClaims returns the claims that a process can have sent, at most
// MaxClaims. A claim that the process has not heard from another one is its own.
// The call changes the slice.
func PossibleClaims(instance string, claims []store.Claim) []store.Claim {
	for i := range claims {
		if !claims[i].Heard {
			claims[i].By = instance
		}
	}
	claims = slices.DeleteFunc(claims, func(c store.Claim) bool {
		return c.Floor < 1 || c.Next < 0 || c.Tag == "" && c.Next > 0 || checkInstance(c.By) != nil || c.Tag != "" && messages.CheckTag(c.Tag) != nil
	})
	return claims[:min(len(claims), MaxClaims)]
}
