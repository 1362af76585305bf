package messages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the machine's may lack zones

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/number"
	"github.com/idworker/idworker/messages/opaque"
)

// vectorErrors are the errors of the sections opaque and numbers.
var vectorErrors = map[string]error{
	"alphabet": opaque.ErrAlphabet, "bits": opaque.ErrBits, "check": opaque.ErrCheck, "generation": opaque.ErrGeneration,
	"keys": opaque.ErrKeys, "length": opaque.ErrLength, "no key": opaque.ErrNoKey, "prefix": opaque.ErrPrefix, "range": opaque.ErrRange,
	"tag":    messages.ErrTag,
	"format": number.ErrFormat, "date": number.ErrDate, "seq": number.ErrSeq, "number": number.ErrNumber,
}

// opaqueVectors is the section opaque.
type opaqueVectors struct {
	Keys            map[string]keyVector
	Seal, Open, Bad []opaqueVector
	BadKeys         []keyVector `json:"bad_keys"`
}

type keyVector struct{ Why, File, Fingerprint, Error string }

// opaqueVector is a case. ID or Sealed is missing in a bad one.
type opaqueVector struct {
	Why, Keys, Form, Tag, Prefix string
	Bits                         int
	ID, Sealed                   *string
	Error                        string
}

// numberVector is a case of the section numbers. It has a number, or a text
// that is read.
type numberVector struct {
	Why, Base, Format, Zone string
	At, Parse               *string
	Seq                     int64 `json:",string"`
	Tag, Number, Error      string
}

// failures are texts about cases that failed.
type failures []string

// want adds a failure unless a case has this result, or an error of this kind
// alone.
func (f *failures) want(section, why, want, kind, got string, err error) {
	var found []string
	for known, e := range vectorErrors {
		if errors.Is(err, e) {
			found = append(found, known)
		}
	}
	if got != want || strings.Join(found, " and ") != kind || (err == nil) != (kind == "") {
		*f = append(*f, fmt.Sprintf("%s: %s: %q, %v; want %q, error %q", section, why, got, err, want, kind))
	}
}

func checkVectors(_ *driver, _ context.Context, f struct{ File string }) (any, error) {
	data, err := os.ReadFile(f.File)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDriver, err)
	}
	var file struct {
		Opaque  opaqueVectors
		Numbers struct{ Cases []numberVector }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%w: %w", errDriver, err)
	}
	failed := failures{}
	o := file.Opaque
	o.check(&failed)
	for _, v := range file.Numbers.Cases {
		v.check(&failed)
	}
	return map[string]any{"failed": failed, "cases": map[string]int{
		"opaque":  len(o.Keys) + len(o.Seal) + len(o.Open) + len(o.Bad) + len(o.BadKeys),
		"numbers": len(file.Numbers.Cases),
	}}, nil
}

func (o opaqueVectors) check(failed *failures) {
	keys := make(map[string]*opaque.Keys)
	for name, v := range o.Keys {
		k, err := opaque.ParseKeys([]byte(v.File))
		if err != nil {
			failed.want("opaque", v.Why, v.Fingerprint, "", "", err)
			return
		}
		keys[name] = k
		failed.want("opaque", v.Why, v.Fingerprint, "", k.Fingerprint(), nil)
	}
	for _, v := range o.BadKeys {
		_, err := opaque.ParseKeys([]byte(v.File))
		failed.want("opaque", v.Why, "", v.Error, "", err)
	}
	for _, v := range slices.Concat(o.Seal, o.Open) {
		id, err := v.open(keys[v.Keys])
		failed.want("opaque", v.Why, *v.ID, "", id, err)
	}
	for _, v := range o.Seal {
		sealed, err := v.seal(keys[v.Keys])
		failed.want("opaque", v.Why, *v.Sealed, "", sealed, err)
	}
	for _, v := range o.Bad {
		wrong := v.seal
		if v.ID == nil {
			wrong = v.open
		}
		result, err := wrong(keys[v.Keys])
		failed.want("opaque", v.Why, "", v.Error, result, err)
	}
}

// seal seals the ID.
func (v opaqueVector) seal(keys *opaque.Keys) (string, error) {
	id, err := strconv.ParseInt(*v.ID, 10, 64)
	if err != nil {
		return "", err
	}
	if v.Form == "text" {
		codec, err := keys.Text(v.Tag, v.Prefix)
		if err != nil {
			return "", err
		}
		return codec.Seal(id)
	}
	codec, err := keys.Number(v.Tag, v.Bits)
	if err != nil {
		return "", err
	}
	return decimal(codec.Seal(id))
}

// open opens the sealed ID.
func (v opaqueVector) open(keys *opaque.Keys) (string, error) {
	if v.Form == "text" {
		codec, err := keys.Text(v.Tag, v.Prefix)
		if err != nil {
			return "", err
		}
		return decimal(codec.Open(*v.Sealed))
	}
	sealed, err := strconv.ParseInt(*v.Sealed, 10, 64)
	if err != nil {
		return "", err
	}
	codec, err := keys.Number(v.Tag, v.Bits)
	if err != nil {
		return "", err
	}
	return decimal(codec.Open(sealed))
}

// decimal is a number as text, empty beside an error.
func decimal(n int64, err error) (string, error) {
	if err != nil && n == 0 {
		return "", err
	}
	return strconv.FormatInt(n, 10), err
}

func (v numberVector) check(failed *failures) {
	var tag, text string
	err := v.make(&tag, &text)
	failed.want("numbers", v.Why, v.Tag+" "+v.Number, v.Error, tag+" "+text, err)
}

// make makes the format, then the tag and the number, which it reads back; or
// reads another text.
func (v numberVector) make(tag, text *string) error {
	zone, err := time.LoadLocation(v.Zone)
	if err != nil {
		return err
	}
	f, err := number.NewFormat(v.Base, v.Format, zone)
	switch {
	case err != nil:
		return err
	case v.Parse != nil:
		_, err := f.Parse(*v.Parse)
		return err
	case v.At == nil:
		return nil
	}
	at, err := f.ParseDate(*v.At)
	if err != nil {
		return err
	}
	made, err := f.Number(at, v.Seq)
	if err != nil {
		return err
	}
	if *tag, err = f.Tag(at); err != nil {
		return err
	}
	*text = made
	got, err := f.Parse(made)
	if err == nil && (got.Tag() != *tag || got.Seq != v.Seq) {
		err = errors.New("the number is read as another")
	}
	return err
}
