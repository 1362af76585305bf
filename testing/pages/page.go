package pages

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Document is a parsed page.
type Document struct {
	Name    string // its path in the repository
	Blocks  []Block
	Links   []Link
	Anchors []string // of the headings
	NotRun  string   // why none of its blocks is run, if so
}

// Block is a fenced or an indented block.
type Block struct {
	Line     int // the number of its first line
	Language string
	Lines    []string
	Terminal int // that the paragraph above names, 0 if none
	NotRun   string
	File     string   // its lines are a file of this name
	RunIn    []string // its lines are statements for these kinds of database: mysql, postgres
	Vary     bool     // numbers in the output vary
}

// Link is a link, or an image.
type Link struct {
	Line   int
	Target string
}

var (
	fence        = regexp.MustCompile("^( *)(```+)(.*)$")
	comment      = regexp.MustCompile(`^ *<!-- *(page not run|not run|run in|file|figures vary):? *(.*?) *-->$`)
	heading      = regexp.MustCompile(`^#{1,6} +(.*)$`)
	link         = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	inTerminal   = regexp.MustCompile(`(?i)(?:\bterminal |终端 ?)(\d+)`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// Parse reads a page.
func Parse(name, text string) Document {
	p := parser{Document: Document{Name: name}}
	for i, line := range strings.Split(text, "\n") {
		p.line(i+1, line)
	}
	p.closeIndented()
	return p.Document
}

// parser reads a page line by line.
type parser struct {
	Document
	open      *Block // the block that is being read
	margin    int    // indentation of its fence; -1 for a block without a fence
	next      Block  // the next block's settings, from comments
	paragraph []string
	blank     bool // the line before was blank
}

func (p *parser) line(number int, line string) {
	if p.open != nil && p.margin >= 0 {
		p.fenced(line)
		return
	}
	if p.open != nil && (strings.HasPrefix(line, "    ") || line == "") {
		p.open.Lines = append(p.open.Lines, strings.TrimPrefix(line, "    "))
		return
	}
	p.closeIndented()
	p.text(number, line)
}

// fenced reads a line of a fenced block.
func (p *parser) fenced(line string) {
	if m := fence.FindStringSubmatch(line); m != nil && m[3] == "" {
		p.Blocks, p.open = append(p.Blocks, *p.open), nil
		return
	}
	margin := min(p.margin, len(line)-len(strings.TrimLeft(line, " ")))
	p.open.Lines = append(p.open.Lines, line[margin:])
}

func (p *parser) closeIndented() {
	if p.open != nil && p.margin < 0 {
		p.Blocks, p.open = append(p.Blocks, *p.open), nil
	}
}

// text reads a line outside blocks.
func (p *parser) text(number int, line string) {
	wasBlank := p.blank
	p.blank = line == ""
	if m := fence.FindStringSubmatch(line); m != nil {
		p.begin(number+1, m[3], len(m[1]))
		return
	}
	if strings.HasPrefix(line, "    ") && wasBlank && command(strings.TrimSpace(line)) {
		p.begin(number, "", -1)
		p.open.Lines = append(p.open.Lines, line[4:])
		return
	}
	if m := comment.FindStringSubmatch(line); m != nil {
		switch m[1] {
		case "page not run":
			p.NotRun = m[2]
		case "not run":
			p.next.NotRun = m[2]
		case "run in":
			p.next.RunIn = strings.Split(m[2], " and ")
		case "file":
			p.next.File = m[2]
		default:
			p.next.Vary = true
		}
		return
	}
	if m := heading.FindStringSubmatch(line); m != nil {
		p.Anchors = append(p.Anchors, p.anchor(m[1]))
	}
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		p.Links = append(p.Links, Link{number, m[1]})
	}
	if wasBlank {
		p.paragraph = nil
	}
	if line != "" {
		p.paragraph = append(p.paragraph, line)
	}
}

// begin begins a block.
func (p *parser) begin(number int, language string, margin int) {
	b := p.next
	b.Line, b.Language = number, strings.TrimSpace(language)
	if all := inTerminal.FindAllStringSubmatch(strings.Join(p.paragraph, " "), -1); all != nil {
		b.Terminal, _ = strconv.Atoi(all[len(all)-1][1])
	}
	p.open, p.margin, p.next, p.paragraph = &b, margin, Block{}, nil
}

// anchor is how a heading is linked to, as GitHub makes it.
func (p *parser) anchor(title string) string {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	base := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	anchor := base
	for n := 1; slices.Contains(p.Anchors, anchor); n++ {
		anchor = base + "-" + strconv.Itoa(n)
	}
	return anchor
}
