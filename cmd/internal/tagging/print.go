package tagging

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// What the commands print. The names of JSON's fields are in
// docs/command-line.md.

// tagInfo is a tag. What a command does not know, or did not change, is
// missing.
type tagInfo struct {
	Tag      string      `json:"tag"`
	Step     int64       `json:"step,omitempty"`
	First    int64       `json:"first,string,omitempty"` // of one that was created
	Next     int64       `json:"next,string,omitempty"`  // the first ID that no worker has
	Order    store.Order `json:"order,omitempty"`
	Removed  bool        `json:"removed,omitempty"`
	Unusable string      `json:"unusable,omitempty"` // why it cannot be served
}

// templateInfo is a template. A limit of 0 is none.
type templateInfo struct {
	Pattern      string      `json:"pattern"`
	Step         int64       `json:"step"`
	Order        store.Order `json:"order"`
	First        int64       `json:"first,string"`
	MaxTags      int64       `json:"max_tags"`
	NewPerSecond int64       `json:"new_per_second"`
	Tags         *int64      `json:"tags,omitempty"` // how many it counts for, if they were counted
}

func infoOf(t templates.Template) templateInfo {
	return templateInfo{
		Pattern: t.Pattern, Step: t.Step, Order: t.Order, First: t.FirstID(),
		MaxTags: t.MaxTags, NewPerSecond: t.NewPerSecond,
	}
}

// lists are tags and templates.
type lists struct {
	Tags      []tagInfo      `json:"tags"`
	Templates []templateInfo `json:"templates"`
}

func listsOf(l tags.Listing) lists {
	all := lists{[]tagInfo{}, []templateInfo{}}
	for _, tag := range l.Tags {
		one := tagInfo{Tag: tag.Name, Step: tag.Step, Next: tag.Next, Order: tag.Order}
		if err := cmp.Or(messages.CheckTag(tag.Name), tag.Check()); err != nil {
			one.Unusable = err.Error()
		}
		all.Tags = append(all.Tags, one)
	}
	for _, t := range l.Templates {
		one := infoOf(t)
		one.Tags = new(l.Made[t.Pattern])
		all.Templates = append(all.Templates, one)
	}
	return all
}

// Export is what tag export prints: as text what import reads.
type Export tags.Transfer

// Text is part of report.Report.
func (e Export) Text(w io.Writer) error { return tags.Write(w, tags.Transfer(e)) }

// MarshalJSON has the fields of tag ls.
func (e Export) MarshalJSON() ([]byte, error) {
	all := lists{[]tagInfo{}, []templateInfo{}}
	for _, tag := range e.Tags {
		all.Tags = append(all.Tags, tagInfo{Tag: tag.Name, Step: tag.Step, Next: tag.Next, Order: tag.Order, Removed: tag.Step == 0})
	}
	for _, t := range e.Templates {
		all.Templates = append(all.Templates, infoOf(t))
	}
	return json.Marshal(all)
}

// created is a tag that there is now.
type created struct {
	tagInfo
	Created bool `json:"created"` // false if it was there before
}

// Text is part of report.Report.
func (c created) Text(w io.Writer) error {
	kind := "tag"
	if c.Order == store.Strict {
		kind = "strict tag"
	}
	if c.Created {
		_, err := fmt.Fprintf(w, "created %s %s: step %d, first ID %d\n", kind, c.Tag, c.Step, c.First)
		return err
	}
	_, err := fmt.Fprintf(w, "%s %s is there: step %d, next ID %d\n", kind, c.Tag, c.Step, c.Next)
	return err
}

func createdTag(tag store.Tag) created {
	return created{tagInfo{Tag: tag.Name, Step: tag.Step, First: tag.Next, Order: tag.Order}, true}
}

// createdTemplate is a template that there is now.
type createdTemplate struct {
	templateInfo
	Created bool `json:"created"` // false if it was there before
}

// Text is part of report.Report.
func (c createdTemplate) Text(w io.Writer) error {
	if c.Created {
		_, err := fmt.Fprintf(w, "created template %s: %s\n", c.Pattern, c.describe())
		return err
	}
	_, err := fmt.Fprintf(w, "template %s is there: %s\n", c.Pattern, c.describe())
	return err
}

// changedTag is a tag with what was changed, and no more.
type changedTag tagInfo

// Text is part of report.Report.
func (c changedTag) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "tag %s: step %d\n", c.Tag, c.Step)
	return err
}

// changedTemplate is a template as it is now.
type changedTemplate struct{ templateInfo }

// Text is part of report.Report.
func (c changedTemplate) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "template %s: %s\n", c.Pattern, c.describe())
	return err
}

// removed is a tag or a template that there was.
type removed struct {
	Name     string `json:"removed"` // or the pattern
	Template bool   `json:"template"`
	Told     bool   `json:"workers_told,omitempty"` // to drop the tag from memory
}

// Text is part of report.Report.
func (r removed) Text(w io.Writer) error {
	if r.Template {
		_, err := fmt.Fprintf(w, "removed template %s; its tags stay\n", r.Name)
		return err
	}
	told := ""
	if r.Told {
		told = "; workers were told to drop it, and one that is cut off goes on with what it has in memory"
	}
	_, err := fmt.Fprintf(w, "removed tag %s%s\n", r.Name, told)
	return err
}

// describe says what a template does.
func (t templateInfo) describe() string {
	most, rate := "no limit on tags", "no limit on new ones"
	if t.MaxTags > 0 {
		most = "at most " + grouped(t.MaxTags) + " tags"
	}
	if t.NewPerSecond > 0 {
		rate = "at most " + grouped(t.NewPerSecond) + " new ones a second"
	}
	return fmt.Sprintf("step %d, order %s, %s, %s", t.Step, t.Order, most, rate)
}
