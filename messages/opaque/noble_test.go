package opaque_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/tier"
)

// TestAnotherImplementation: ten thousand random IDs go through opaque IDs, half
// of them sealed here and opened by @noble/ciphers, half the other way round.
func TestAnotherImplementation(t *testing.T) {
	t.Parallel()
	tier.All(t)
	folder := filepath.Dir(deps.Noble.Require(t))
	seed, err := strconv.ParseUint(os.Getenv("IDWORKER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("IDWORKER_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	type nobleCase struct {
		Form       string `json:"form"`
		Bits       int    `json:"bits"`
		Tag        string `json:"tag"`
		Prefix     string `json:"prefix"`
		Generation string `json:"generation"`
		Master     string `json:"master"`
		ID         string `json:"id,omitempty"`
		Sealed     string `json:"sealed,omitempty"`
	}
	var (
		cases  []nobleCase
		codecs []codec
		ids    []int64
	)
	for i := range 10_000 {
		master := make([]byte, 32)
		for i := range master {
			master[i] = byte(random.Uint32())
		}
		c := nobleCase{
			Form: []string{"number", "number", "text"}[i%3], Bits: []int{63, 53, 63}[i%3],
			Tag: fmt.Sprintf("tag.%d", random.Uint32()), Prefix: []string{"", "ord", "a_b"}[random.IntN(3)],
			Generation: string("0123456789abcdefghjkmnpqrstvwxyz"[random.IntN(32)]),
			Master:     base64.StdEncoding.EncodeToString(master),
		}
		// IDs of all lengths.
		id := max(1, random.Int64N(math.MaxInt64)>>(63-c.Bits)>>random.IntN(c.Bits))
		keys := parse(t, "number "+c.Master+"\n"+c.Generation+" "+c.Master)
		ours, err := codecOf(keys, vector{Form: c.Form, Tag: c.Tag, Prefix: c.Prefix, Bits: c.Bits})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			c.ID = fmt.Sprint(id)
		} else if c.Sealed, err = ours.seal(id); err != nil {
			t.Fatal(err)
		}
		cases, codecs, ids = append(cases, c), append(codecs, ours), append(ids, id)
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "opaque.js")
	var complaints strings.Builder
	node.Dir, node.Stdin, node.Stderr = folder, bytes.NewReader(input), &complaints
	output, err := node.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	var theirs []string
	if err := json.Unmarshal(output, &theirs); err != nil || len(theirs) != len(cases) {
		t.Fatalf("%d results: %v", len(theirs), err)
	}
	for i, c := range cases {
		if c.Sealed != "" {
			if theirs[i] != fmt.Sprint(ids[i]) {
				t.Errorf("%+v: opens to %s there, sealed here from %d", c, theirs[i], ids[i])
			}
		} else if id, err := codecs[i].open(theirs[i]); err != nil || id != ids[i] {
			t.Errorf("%+v: %d is sealed as %s there, which opens to %d here, %v", c, ids[i], theirs[i], id, err)
		}
	}
}
