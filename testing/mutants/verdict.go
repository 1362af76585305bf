package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
)

// verdict is the outcome of a planted bug.
type verdict string

const (
	found        verdict = "found"
	notFound     verdict = "NOT FOUND"
	timedOut     verdict = "TIMED OUT"
	doesNotBuild verdict = "DOES NOT BUILD"
	doesNotApply verdict = "DOES NOT APPLY"
	noSuchTest   verdict = "NO SUCH TEST"
	failsAnyhow  verdict = "FAILS WITHOUT IT"
	brokenOff    verdict = "BROKEN OFF"
)

// try plants a bug, runs its test and takes it out again. The text explains a
// verdict other than found.
func (t tree) try(ctx context.Context, m mutant) (v verdict, text string) {
	if err := t.apply(ctx, m); err != nil {
		return doesNotApply, err.Error()
	}
	defer func() {
		// The context may have ended.
		err := errors.Join(t.apply(context.WithoutCancel(ctx), m, "--reverse"), t.forgetFailures())
		if err != nil {
			v, text = brokenOff, "it cannot be taken out again: "+err.Error()
		}
	}()
	timeout := quickTimeout
	if m.slow {
		timeout = slowTimeout
	}
	output, err := t.test(ctx, m.pkg, onlyTest(m.test), m.count, timeout)
	if ctx.Err() != nil {
		return brokenOff, ""
	}
	return judge(m.test, output, err), output
}

// judge reads the output of go test.
func judge(test, output string, err error) verdict {
	switch {
	case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
		return doesNotBuild
	case !strings.Contains(output, "=== RUN   "+test+"\n"):
		return noSuchTest
	case err == nil:
		return notFound
	case strings.Contains(output, "panic: test timed out"):
		return timedOut
	}
	return found
}

// onlyTests is the expression for -run that matches these tests and no others.
func onlyTests(names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// onlyTest is the same for a test, or for a part of it.
func onlyTest(name string) string {
	test, part, isPart := strings.Cut(name, "/")
	if isPart {
		return onlyTests(test) + "/" + onlyTests(part)
	}
	return onlyTests(test)
}

// tail is the end of a text, indented.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	all = all[max(0, len(all)-lines):]
	return "    " + strings.Join(all, "\n    ")
}
