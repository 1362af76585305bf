// Site prepares the pages of docs/ for the site's generator, so that no page is
// written twice: the navigation is that of docs/README.md, and a link to what is
// no page leads to the repository.
//
//	go run ./docs/site FROM TO
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	repository = "https://github.com/idworker/idworker"
	folder     = "docs"
	contents   = "README.md"
	settings   = "site/zensical.yml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site REPOSITORY FOLDER")
		os.Exit(2)
	}
	if err := prepare(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// prepare writes the generator's settings and pages into a new folder.
func prepare(repo, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	names, err := onSite(filepath.Join(repo, folder))
	if err != nil {
		return err
	}
	var problems []error
	for name := range names {
		text, err := os.ReadFile(filepath.Join(repo, folder, name))
		if err != nil {
			return err
		}
		if path.Ext(name) == ".md" {
			page := page{repo: repo, name: name, onSite: names}
			text = []byte(page.links(string(text)))
			problems = append(problems, page.problems...)
		}
		if err := write(filepath.Join(to, "pages", name), text); err != nil {
			return err
		}
	}
	nav, err := navigation(filepath.Join(repo, folder), names)
	problems = append(problems, err)
	static, err := os.ReadFile(filepath.Join(repo, folder, settings))
	problems = append(problems, err, write(filepath.Join(to, "zensical.yml"), append(static, nav...)))
	return errors.Join(problems...)
}

// onSite are the pages and pictures.
func onSite(docs string) (map[string]bool, error) {
	names := map[string]bool{}
	err := fs.WalkDir(os.DirFS(docs), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "deploy" || name == "example" || name == "site" || name == "spec"):
			return fs.SkipDir
		case path.Ext(name) == ".md", path.Ext(name) == ".png":
			names[name] = true
		}
		return nil
	})
	return names, err
}

func write(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// page is a page whose links are changed.
type page struct {
	repo, name string // the name is that in docs
	onSite     map[string]bool
	problems   []error
}

// target is that of a link, without its anchor.
var target = regexp.MustCompile(`\]\(([^)#\s]+)`)

// links is the text with its links to what is not on the site leading to the
// repository. The generator checks the others, and all anchors.
func (p *page) links(text string) string {
	code := false
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if !code {
			lines[i] = target.ReplaceAllStringFunc(line, p.link)
		}
	}
	return strings.Join(lines, "")
}

func (p *page) link(link string) string {
	to := target.FindStringSubmatch(link)[1]
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return link
	}
	name := path.Join(folder, path.Dir(p.name), to)
	onSite, inDocs := strings.CutPrefix(name, folder+"/")
	info, err := os.Stat(filepath.Join(p.repo, name))
	kind := "blob"
	switch {
	case err != nil:
		p.problems = append(p.problems, fmt.Errorf("docs/%s links to %s, which does not exist", p.name, to))
		return link
	case inDocs && p.onSite[onSite]:
		return link
	case info.IsDir():
		kind = "tree"
	}
	return "](" + repository + "/" + kind + "/main/" + name
}

var (
	section = regexp.MustCompile(`^\*\*(.+)\*\*$`)
	row     = regexp.MustCompile(`^\| \[`)
	link    = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+\.md)\)`)
)

// navigation is the tables of the page of contents as the generator's menu.
// Each page must be in it.
func navigation(docs string, names map[string]bool) (nav []byte, err error) {
	text, err := os.ReadFile(filepath.Join(docs, contents))
	if err != nil {
		return nil, err
	}
	nav = fmt.Appendf(nav, "nav:\n  - Documentation: %s\n", contents)
	listed := map[string]bool{contents: true}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title := section.FindStringSubmatch(line); title != nil {
			nav = fmt.Appendf(nav, "  - %s:\n", title[1])
		}
		if !row.MatchString(line) {
			continue
		}
		for _, to := range link.FindAllStringSubmatch(line, -1) {
			if names[to[2]] {
				first, size := utf8.DecodeRuneInString(to[1])
				nav = fmt.Appendf(nav, "    - %c%s: %s\n", unicode.ToUpper(first), to[1][size:], to[2])
				listed[to[2]] = true
			}
		}
	}
	var missing []error
	for name := range names {
		if path.Ext(name) == ".md" && !listed[name] {
			missing = append(missing, fmt.Errorf("docs/%s does not list %s", contents, name))
		}
	}
	return nav, errors.Join(missing...)
}
