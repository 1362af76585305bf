package main

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tagging"
	"github.com/idworker/idworker/cmd/internal/tags"
)

type tagCmd struct {
	Ls     tagLsCmd     `cmd:"" help:"List tags and templates."`
	Create tagCreateCmd `cmd:"" help:"Create a tag, or a template for tags that come into being when they are first asked for."`
	Set    tagSetCmd    `cmd:"" help:"Change the step of a tag, or a template."`
	Rm     tagRmCmd     `cmd:"" help:"Remove a tag or a template."`
	Raise  tagRaiseCmd  `cmd:"" help:"Skip IDs of tags, so that none is handed out twice after a restore."`
	Export tagExportCmd `cmd:"" help:"Print all tags and templates as text, for import."`
	Import tagImportCmd `cmd:"" help:"Create and raise tags, and create templates, from the text of an export."`
}

// withTags opens the tags of an installation, and calls use.
func (i installation) withTags(ctx context.Context, source backend.Backend, use func(context.Context, *tags.Tags) error) error {
	return i.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		t, err := tags.Open(ctx, js, i.Prefix, source)
		if err != nil {
			return err
		}
		defer t.Close()
		return use(ctx, t)
	})
}

// changeTags checks the arguments of a command, and opens the tags for it.
func changeTags(ctx context.Context, i installation, s storeFlags, check func() error, do func(context.Context, *tags.Tags) error) error {
	if err := check(); err != nil {
		return err
	}
	source, err := s.backend()
	if err != nil {
		return err
	}
	return i.withTags(ctx, source, do)
}

type tagLsCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`
	tagging.List `embed:""`
	printFlags   `embed:""`
}

// Run lists tags and templates.
func (l *tagLsCmd) Run(ctx context.Context, out output) error {
	return changeTags(ctx, l.installation, l.storeFlags, l.Check, func(ctx context.Context, t *tags.Tags) error {
		return l.Do(ctx, t, out)
	})
}

type tagCreateCmd struct {
	installation   `embed:"" group:"nats"`
	storeFlags     `embed:"" group:"store"`
	tagging.Create `embed:""`
	printFlags     `embed:""`
}

// Run creates a tag or a template.
func (c *tagCreateCmd) Run(ctx context.Context, out output) error {
	return changeTags(ctx, c.installation, c.storeFlags, c.Check, func(ctx context.Context, t *tags.Tags) error {
		return c.Do(ctx, t, out)
	})
}

type tagSetCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`
	tagging.Set  `embed:""`
	printFlags   `embed:""`
}

// Run changes a tag or a template.
func (s *tagSetCmd) Run(ctx context.Context, out output) error {
	return changeTags(ctx, s.installation, s.storeFlags, s.Check, func(ctx context.Context, t *tags.Tags) error {
		return s.Do(ctx, t, out)
	})
}

type tagRmCmd struct {
	installation   `embed:"" group:"nats"`
	storeFlags     `embed:"" group:"store"`
	tagging.Remove `embed:""`
	printFlags     `embed:""`
}

// Run removes a tag or a template.
func (r *tagRmCmd) Run(ctx context.Context, in input, out output) error {
	return changeTags(ctx, r.installation, r.storeFlags, r.Check, func(ctx context.Context, t *tags.Tags) error {
		return r.Do(ctx, t, in.Reader, out)
	})
}
