package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("list", false, "print log messages, errors and help")
	flag.Parse()
	files, err := tracked(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var r findings
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // deleted, not yet committed
		}
		r.file(filepath.ToSlash(name), string(text))
	}
	if *list {
		r.texts(os.Stdout)
		return
	}
	r.judge(flag.NArg() == 0)
	for _, fault := range r.faults {
		fmt.Println(fault)
	}
	r.measures(os.Stdout)
	if len(r.faults) > 0 {
		os.Exit(1)
	}
}

// tracked are the files that Git has, or would add.
func tracked(paths []string) ([]string, error) {
	args := append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--"}, paths...)
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Fields(string(out))
	slices.Sort(files)
	return slices.Compact(files), nil
}

// findings collects measures and faults of the files that it reads.
type findings struct {
	faults                   []string
	commentWords             int
	commentLines, wide       int
	counts                   [10]int // of rates
	pageWords                int
	typeAt                   map[string]string // exported, by name
	logs, errors, help       []message
	sentences, longSentences int
}

// A message is a string of a program that people read.
type message struct {
	at, text string
}

func (r *findings) fault(at, format string, args ...any) {
	r.faults = append(r.faults, at+": "+fmt.Sprintf(format, args...))
}

func (r *findings) file(name, text string) {
	switch {
	case strings.HasPrefix(name, "testing/prose/"): // lists the words that are banned
	case strings.HasSuffix(name, ".go"):
		r.goFile(name, text)
	case strings.HasSuffix(name, ".md"):
		r.page(name, text)
	case slices.Contains([]string{".conf", ".yml", ".yaml", ".html", ".txt", ".js", ".pml", ".sh"}, filepath.Ext(name)), name == "Makefile":
		for n, line := range strings.Split(text, "\n") {
			r.banned(fmt.Sprintf("%s:%d", name, n+1), line)
		}
	}
}

func (r *findings) banned(at, text string) {
	for _, b := range never {
		if found := b.expression.FindString(text); found != "" {
			r.fault(at, "%q: %s", found, b.instead)
		}
	}
}

// judge compares measures with their limits; the whole repository has limits that
// a part does not have.
func (r *findings) judge(whole bool) {
	for i, rate := range rates {
		if got := r.per10000(i); got > rate.limit && whole {
			r.fault("comments", "%s: %.1f in 10,000 words, at most %v", rate.name, got, rate.limit)
		}
	}
	if 100*r.wide > wideComments*r.commentLines {
		r.fault("comments", "%d of %d lines are wider than %d columns", r.wide, r.commentLines, commentColumns)
	}
	if r.pageWords > pageWords {
		r.fault("pages", "%d words, at most %d", r.pageWords, pageWords)
	}
	if whole && median(r.errors) > medianErrors {
		r.fault("errors", "median of %d words, at most %d", median(r.errors), medianErrors)
	}
	if whole && median(r.help) > medianHelp {
		r.fault("help", "median of %d words, at most %d", median(r.help), medianHelp)
	}
}

func (r *findings) per10000(rate int) float64 {
	return 10000 * float64(r.counts[rate]) / float64(max(r.commentWords, 1))
}

func (r *findings) measures(out *os.File) {
	fmt.Fprintf(out, "%d words of comment; in 10,000:", r.commentWords)
	for i, rate := range rates {
		fmt.Fprintf(out, " %s %.1f;", rate.name, r.per10000(i))
	}
	fmt.Fprintf(out, " %.1f %% of %d lines of comment are wider than %d columns\n",
		100*float64(r.wide)/float64(max(r.commentLines, 1)), r.commentLines, commentColumns)
	fmt.Fprintf(out, "%d words of pages; %d of %d sentences have more than 25 words\n", r.pageWords, r.longSentences, r.sentences)
	fmt.Fprintf(out, "median words: %d log messages %d, %d errors %d, %d help texts %d\n",
		len(r.logs), median(r.logs), len(r.errors), median(r.errors), len(r.help), median(r.help))
}

func (r *findings) texts(out *os.File) {
	for _, kind := range []struct {
		name     string
		messages []message
	}{{"log", r.logs}, {"error", r.errors}, {"help", r.help}} {
		for _, m := range kind.messages {
			fmt.Fprintf(out, "%s\t%d\t%s\t%s\n", kind.name, words(m.text), m.at, m.text)
		}
	}
}

func median(messages []message) int {
	if len(messages) == 0 {
		return 0
	}
	var lengths []int
	for _, m := range messages {
		lengths = append(lengths, words(m.text))
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

// aWord has a letter or a digit.
var aWord = regexp.MustCompile(`\S*[\pL\pN]\S*`)

func words(text string) int { return len(aWord.FindAllString(text, -1)) }
