package opaque_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/opaque"
)

// vectors is the section of messages/testdata/vectors.json.
type vectors struct {
	Keys map[string]struct{ Why, File, Fingerprint string }
	Seal []vector
	Open []vector
	Bad  []vector

	BadKeys []struct{ Why, File, Error string } `json:"bad_keys"`
}

// vector is a case. ID and Sealed are missing if they are not given.
type vector struct {
	Why, Keys, Form, Tag, Prefix string
	Bits                         int
	ID, Sealed                   *string
	Error                        string
}

// codec is either codec, with decimals as numbers.
type codec struct {
	seal func(int64) (string, error)
	open func(string) (int64, error)
}

// codecOf returns the codec of a case.
func codecOf(keys *opaque.Keys, v vector) (codec, error) {
	if v.Form == "text" {
		c, err := keys.Text(v.Tag, v.Prefix)
		if err != nil {
			return codec{}, err
		}
		return codec{c.Seal, c.Open}, nil
	}
	c, err := keys.Number(v.Tag, v.Bits)
	if err != nil {
		return codec{}, err
	}
	return codec{
		func(id int64) (string, error) {
			sealed, err := c.Seal(id)
			return strconv.FormatInt(sealed, 10), err
		},
		func(text string) (int64, error) {
			sealed, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, err
			}
			return c.Open(sealed)
		},
	}, nil
}

func parse(t testing.TB, file string) *opaque.Keys {
	t.Helper()
	keys, err := opaque.ParseKeys([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func load(t testing.TB) vectors {
	t.Helper()
	data, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Opaque vectors }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Opaque.Seal) == 0 || len(file.Opaque.Bad) == 0 || len(file.Opaque.BadKeys) == 0 {
		t.Fatal("no vectors")
	}
	return file.Opaque
}

// kinds are the errors of the vectors.
var kinds = map[string]error{
	"alphabet":   opaque.ErrAlphabet,
	"bits":       opaque.ErrBits,
	"check":      opaque.ErrCheck,
	"generation": opaque.ErrGeneration,
	"keys":       opaque.ErrKeys,
	"length":     opaque.ErrLength,
	"no key":     opaque.ErrNoKey,
	"prefix":     opaque.ErrPrefix,
	"range":      opaque.ErrRange,
	"tag":        messages.ErrTag,
}

// TestVectors: IDs become the opaque IDs that other implementations made, and
// turn back. Malformed input has an error of its kind.
func TestVectors(t *testing.T) {
	t.Parallel()
	all := load(t)
	keys := make(map[string]*opaque.Keys)
	for name, k := range all.Keys {
		keys[name] = parse(t, k.File)
		if got := keys[name].Fingerprint(); got != k.Fingerprint {
			t.Errorf("%s: fingerprint %s, want %s", k.Why, got, k.Fingerprint)
		}
	}
	for _, v := range append(all.Seal, all.Open...) {
		c, err := codecOf(keys[v.Keys], v)
		if err != nil {
			t.Errorf("%s: %v", v.Why, err)
			continue
		}
		if id, err := c.open(*v.Sealed); err != nil || fmt.Sprint(id) != *v.ID {
			t.Errorf("%s: %s opens to %d, %v; want %s", v.Why, *v.Sealed, id, err, *v.ID)
		}
	}
	for _, v := range all.Seal {
		c, err := codecOf(keys[v.Keys], v)
		if err != nil {
			continue // is in the loop above
		}
		id, _ := strconv.ParseInt(*v.ID, 10, 64)
		if sealed, err := c.seal(id); err != nil || sealed != *v.Sealed {
			t.Errorf("%s: %s is sealed as %s, %v; want %s", v.Why, *v.ID, sealed, err, *v.Sealed)
		}
	}
	for _, v := range all.Bad {
		c, err := codecOf(keys[v.Keys], v)
		var result any
		switch {
		case err != nil:
		case v.ID != nil:
			id, _ := strconv.ParseInt(*v.ID, 10, 64)
			result, err = c.seal(id)
		default:
			result, err = c.open(*v.Sealed)
		}
		isOnly(t, v.Why, v.Error, err)
		if result != nil && result != "" && result != "0" && result != int64(0) {
			t.Errorf("%s: %v beside the error", v.Why, result)
		}
	}
	for _, k := range all.BadKeys {
		keys, err := opaque.ParseKeys([]byte(k.File))
		isOnly(t, k.Why, k.Error, err)
		if keys != nil {
			t.Errorf("%s: keys beside the error", k.Why)
		}
	}
}

// isOnly fails the test unless err has this kind and no other, in one sentence.
func isOnly(t *testing.T, why, kind string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one of %s", why, kind)
		return
	}
	for name, known := range kinds {
		if errors.Is(err, known) != (name == kind) {
			t.Errorf("%s: is it an error of %s? %v: %v", why, name, errors.Is(err, known), err)
		}
	}
	if text := err.Error(); strings.ContainsAny(text, "\n.") || len(text) > 130 {
		t.Errorf("%s: not one sentence: %s", why, text)
	}
}

// TestAnyID: any ID of any tag is sealed within its form and turns back.
func TestAnyID(t *testing.T) {
	t.Parallel()
	keys := parse(t, string(opaque.NewKeyFile()))
	shape := regexp.MustCompile(`^[a-z0-9_]*_1[0-7][0-9a-hjkmnp-tv-z]{13}$`)
	rapid.Check(t, func(t *rapid.T) {
		v := vector{
			Tag:    rapid.StringMatching(`[A-Za-z0-9_-]{1,20}(\.[a-z]{1,9})?`).Draw(t, "tag"),
			Form:   rapid.SampledFrom([]string{"number", "text"}).Draw(t, "form"),
			Bits:   rapid.SampledFrom([]int{53, 63}).Draw(t, "bits"),
			Prefix: rapid.StringMatching(`[a-z0-9_]{0,9}`).Draw(t, "prefix"),
		}
		largest := int64(math.MaxInt64)
		if v.Form == "number" {
			largest >>= 63 - v.Bits
		}
		id := rapid.Int64Range(1, largest).Draw(t, "id")
		c, err := codecOf(keys, v)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := c.seal(id)
		if err != nil {
			t.Fatal(err)
		}
		if number, err := strconv.ParseInt(sealed, 10, 64); v.Form == "number" && (err != nil || number < 1 || number > largest) {
			t.Fatalf("%d of %d bits is sealed as %s", id, v.Bits, sealed)
		}
		if v.Form == "text" && (!shape.MatchString(sealed) || !strings.HasPrefix(sealed, v.Prefix+"_1")) {
			t.Fatalf("%d is sealed as %q", id, sealed)
		}
		if got, err := c.open(sealed); got != id || err != nil {
			t.Fatalf("%d is sealed as %s, which opens to %d, %v", id, sealed, got, err)
		}
	})
}

// TestNoKeyShows: no error and no print of keys or codecs has a part of a key.
func TestNoKeyShows(t *testing.T) {
	t.Parallel()
	file := string(opaque.NewKeyFile())
	lines := strings.Split(strings.TrimSpace(file), "\n")
	_, first, _ := strings.Cut(lines[1], " ")
	_, second, _ := strings.Cut(lines[2], " ")
	var shown []string
	keys := parse(t, file)
	number, err := keys.Number("order", 63)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.Text("order", "ord")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{keys, number, text} {
		shown = append(shown, fmt.Sprintf("%v %+v %#v %s", v, v, v, v))
	}
	for _, bad := range []string{first, first + " " + second, "1 " + first + second, "1 " + first[1:], first + " 1", "number " + first + "\nnumber " + second} {
		_, err := opaque.ParseKeys([]byte(bad))
		if err == nil {
			t.Errorf("accepted %q", bad)
			continue
		}
		shown = append(shown, err.Error())
	}
	// A part of the key, and its bytes as they are printed in a list.
	parts := []string{first[1:9], second[1:9], "[1 2 1 0"}
	for _, text := range shown {
		for _, part := range parts {
			if strings.Contains(text, part) {
				t.Errorf("%s shows %s", text, part)
			}
		}
		if regexp.MustCompile(`(\d+ ){15}|(0x[0-9a-f]{2}, ){15}`).MatchString(text) {
			t.Errorf("%s shows bytes", text)
		}
	}
}

// TestNewKeyFile: each file has other keys, for both forms.
func TestNewKeyFile(t *testing.T) {
	t.Parallel()
	one, two := parse(t, string(opaque.NewKeyFile())).Fingerprint(), parse(t, string(opaque.NewKeyFile())).Fingerprint()
	shape := regexp.MustCompile(`^number:([0-9a-f]{16}) 1:([0-9a-f]{16})$`)
	a, b := shape.FindStringSubmatch(one), shape.FindStringSubmatch(two)
	if a == nil || b == nil || a[1] == b[1] || a[2] == b[2] || a[1] == a[2] {
		t.Errorf("fingerprints %s and %s", one, two)
	}
}

// TestCodecsAreShared: goroutines may share codecs.
func TestCodecsAreShared(t *testing.T) {
	t.Parallel()
	keys := parse(t, string(opaque.NewKeyFile()))
	for _, form := range []string{"number", "text"} {
		c, err := codecOf(keys, vector{Form: form, Tag: "order", Prefix: "ord", Bits: 63})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for worker := range int64(4) {
			group.Go(func() {
				for id := worker + 1; id < 500; id++ {
					sealed, err := c.seal(id)
					if got, openErr := c.open(sealed); got != id {
						t.Errorf("%d is sealed as %s, %v, which opens to %d, %v", id, sealed, err, got, openErr)
					}
				}
			})
		}
		group.Wait()
	}
}

func TestNumbersAllocateNothing(t *testing.T) {
	c, err := parse(t, string(opaque.NewKeyFile())).Number("order", 63)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		sealed, _ := c.Seal(1)
		_, _ = c.Open(sealed)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// FuzzParseText: a text opens only if it is what its generation seals, in any
// case. Any other text has one error of a known kind.
func FuzzParseText(f *testing.F) {
	all := load(f)
	for _, v := range append(all.Seal, append(all.Open, all.Bad...)...) {
		if v.Form == "text" && v.Sealed != nil {
			f.Add(*v.Sealed, v.Prefix)
		}
	}
	keys := map[byte]*opaque.Keys{'1': parse(f, all.Keys["one"].File), 'z': parse(f, all.Keys["rotated"].File)}
	f.Fuzz(func(t *testing.T, text, prefix string) {
		c, err := keys['z'].Text("order", prefix)
		if err != nil {
			if !errors.Is(err, opaque.ErrPrefix) {
				t.Fatalf("prefix %q: %v", prefix, err)
			}
			return
		}
		id, err := c.Open(text)
		if err != nil {
			for _, kind := range []string{"prefix", "alphabet", "length", "range", "generation", "check"} {
				if errors.Is(err, kinds[kind]) && id == 0 {
					return
				}
			}
			t.Fatalf("%q: %d, %v", text, id, err)
		}
		sealing, err := keys[strings.ToLower(text)[len(prefix)+1]].Text("order", prefix)
		if err != nil {
			t.Fatal(err)
		}
		if sealed, err := sealing.Seal(id); err != nil || !strings.EqualFold(sealed, text) || len(sealed) != len(text) {
			t.Fatalf("%q opens to %d, which is sealed as %q, %v", text, id, sealed, err)
		}
	})
}

// FuzzKeys: a key file is refused without showing a key, or its names are
// distinct and each form that has a key seals.
func FuzzKeys(f *testing.F) {
	all := load(f)
	for _, k := range all.Keys {
		f.Add([]byte(k.File))
	}
	for _, k := range all.BadKeys {
		f.Add([]byte(k.File))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := opaque.ParseKeys(file)
		if err != nil {
			if !errors.Is(err, opaque.ErrKeys) || keys != nil {
				t.Fatalf("%v beside %v", keys, err)
			}
			for _, field := range strings.Fields(string(file)) {
				if len(field) > 9 && strings.Contains(err.Error(), field) && !strings.Contains("0123456789abcdefghjkmnpqrstvwxyz", field) {
					t.Fatalf("%q in %v", field, err)
				}
			}
			return
		}
		forms := map[string]bool{}
		for _, line := range strings.Fields(keys.Fingerprint()) {
			name, _, _ := strings.Cut(line, ":")
			form := "text"
			if name == "number" {
				form = name
			}
			forms[form] = true
			more := fmt.Appendf(nil, "%s\n%s AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", file, name)
			if _, err := opaque.ParseKeys(more); !errors.Is(err, opaque.ErrKeys) {
				t.Fatalf("%s a second time: %v", name, err)
			}
		}
		for _, form := range []string{"number", "text"} {
			c, err := codecOf(keys, vector{Form: form, Tag: "order", Bits: 53})
			if !forms[form] {
				if !errors.Is(err, opaque.ErrNoKey) {
					t.Fatalf("%s without a key: %v", form, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			sealed, err := c.seal(1)
			if id, openErr := c.open(sealed); id != 1 || err != nil || openErr != nil {
				t.Fatalf("1 is sealed as %s, %v, which opens to %d, %v", sealed, err, id, openErr)
			}
		}
	})
}

// BenchmarkSeal seals a number: at most 400 ns, without allocation.
func BenchmarkSeal(b *testing.B) {
	c, err := parse(b, string(opaque.NewKeyFile())).Number("order", 63)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	id := int64(0)
	for b.Loop() {
		id++
		if _, err := c.Seal(id); err != nil {
			b.Fatal(err)
		}
	}
}
