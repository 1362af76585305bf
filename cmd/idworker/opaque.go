package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/messages/opaque"
)

type opaqueCmds struct {
	Keygen opaqueKeygenCmd `cmd:"" help:"Print a new key file, and its fingerprint on stderr."`
	Seal   opaqueSealCmd   `cmd:"" help:"Print the opaque ID of an ID."`
	Open   opaqueOpenCmd   `cmd:"" help:"Print the ID of an opaque ID."`
}

// opaqueKeygenCmd prints a key file. It writes no file, so it replaces no keys.
type opaqueKeygenCmd struct{ printFlags }

// Run prints the file on stdout alone, so that a shell can redirect it.
func (opaqueKeygenCmd) Run(app *kong.Kong, out output) error {
	file := opaque.NewKeyFile()
	keys, err := opaque.ParseKeys(file)
	if err != nil {
		return err
	}
	if !out.JSON {
		fmt.Fprintln(app.Stderr, "fingerprint", keys.Fingerprint())
	}
	return out.Print(newKeys{string(file), keys.Fingerprint()})
}

// newKeys is the report of a new key file.
type newKeys struct {
	File        string `json:"file"`
	Fingerprint string `json:"fingerprint"`
}

// Text implements report.
func (k newKeys) Text(w io.Writer) error {
	_, err := io.WriteString(w, k.File)
	return err
}

// opaqueFlags select a codec of a tag.
type opaqueFlags struct {
	Keys string  `required:"" help:"Key file." type:"path" placeholder:"FILE"`
	Bits int     `help:"Bits of numbers: 63 or 53." default:"63" env:"-"`
	Text *string `help:"Use texts with this prefix, not numbers." placeholder:"PREFIX" env:"-"`

	printFlags `embed:""`
}

// codec returns the codec and the fingerprint of its keys.
func (f opaqueFlags) codec(tag string) (opaqueCodec, string, error) {
	if f.Text != nil && f.Bits != 63 {
		return opaqueCodec{}, "", problem.Usage(errors.New("give either --text or --bits, not both"))
	}
	keys, err := openKeys("--keys", f.Keys)
	if err != nil {
		return opaqueCodec{}, "", err
	}
	codec, err := codecOf(keys, tag, f.Bits, f.Text)
	return codec, keys.Fingerprint(), err
}

type opaqueSealCmd struct {
	opaqueFlags `embed:""`

	Tag string `arg:"" help:"Tag, or another name for what has the ID."`
	ID  string `arg:"" help:"ID."`
}

// Run prints the opaque ID.
func (c opaqueSealCmd) Run(out output) error {
	codec, fingerprint, err := c.codec(c.Tag)
	if err != nil {
		return err
	}
	id, err := parseDecimal(c.ID)
	if err != nil {
		return err
	}
	sealed, err := codec.seal(id)
	if err != nil {
		return err
	}
	return out.Print(sealedID{c.Tag, id, sealed, fingerprint})
}

type opaqueOpenCmd struct {
	opaqueFlags `embed:""`

	Tag   string `arg:"" help:"Tag, or another name for what has the ID."`
	Value string `arg:"" help:"Opaque ID."`
}

// Run prints the ID.
func (c opaqueOpenCmd) Run(out output) error {
	codec, fingerprint, err := c.codec(c.Tag)
	if err != nil {
		return err
	}
	id, err := codec.open(c.Value)
	if err != nil {
		return err
	}
	return out.Print(openedID{c.Tag, id, c.Value, fingerprint})
}

// sealedID is the report of an opaque ID.
type sealedID struct {
	Tag         string `json:"tag"`
	ID          int64  `json:"id,string"`
	Opaque      string `json:"opaque"`
	Fingerprint string `json:"fingerprint"` // of the keys
}

// Text implements report.
func (s sealedID) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, s.Opaque)
	return err
}

// openedID is the report of an opaque ID's ID.
type openedID sealedID

// Text implements report.
func (o openedID) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, o.ID)
	return err
}

// sealFlags are get's flags for opaque IDs.
type sealFlags struct {
	Opaque string  `help:"Print opaque IDs, sealed with this key file." type:"path" placeholder:"FILE" env:"-"`
	Text   *string `help:"With --opaque: print texts with this prefix, not numbers." placeholder:"PREFIX" env:"-"`
}

// sealer returns the function that seals IDs of a tag, or nil without --opaque.
func (f sealFlags) sealer(tag string, ranges bool) (func(id int64) (string, error), error) {
	switch {
	case f.Opaque == "" && f.Text != nil:
		return nil, problem.Usage(errors.New("--text needs --opaque"))
	case f.Opaque == "":
		return nil, nil
	case ranges:
		return nil, problem.Usage(errors.New("give either --ranges or --opaque, not both"))
	case tag == "":
		return nil, problem.Usage(errors.New("--opaque needs a tag; seal snowflake IDs with: idworker opaque seal NAME ID"))
	}
	keys, err := openKeys("--opaque", f.Opaque)
	if err != nil {
		return nil, err
	}
	codec, err := codecOf(keys, tag, 63, f.Text)
	return codec.seal, err
}

// openKeys reads the key file of a flag.
func openKeys(flag, path string) (*opaque.Keys, error) {
	file, err := secretfile.Open(new(secretfile.Set), "opaque keys", func(contents [][]byte) (*opaque.Keys, error) {
		return opaque.ParseKeys(contents[0])
	}, path)
	if err != nil {
		return nil, problem.Usage(fmt.Errorf("%s: %w", flag, err))
	}
	return file.Last(), nil
}

// opaqueCodec is a codec of either form, with numbers as decimals.
type opaqueCodec struct {
	seal func(id int64) (string, error)
	open func(sealed string) (int64, error)
}

// codecOf returns the codec for texts, or without a prefix for numbers.
func codecOf(keys *opaque.Keys, tag string, bits int, prefix *string) (opaqueCodec, error) {
	if prefix != nil {
		texts, err := keys.Text(tag, *prefix)
		if err != nil {
			return opaqueCodec{}, err
		}
		return opaqueCodec{texts.Seal, texts.Open}, nil
	}
	numbers, err := keys.Number(tag, bits)
	if err != nil {
		return opaqueCodec{}, err
	}
	return opaqueCodec{
		func(id int64) (string, error) {
			sealed, err := numbers.Seal(id)
			return strconv.FormatInt(sealed, 10), err
		},
		func(text string) (int64, error) {
			sealed, err := parseDecimal(text)
			if err != nil {
				return 0, fmt.Errorf("%w; a text needs --text PREFIX", err)
			}
			return numbers.Open(sealed)
		},
	}, nil
}

// parseDecimal reads an ID or an opaque number. Codecs check the bounds.
func parseDecimal(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, problem.Usage(fmt.Errorf("%.40q is not a decimal from 1 to 2^63-1", text))
	}
	return n, nil
}
