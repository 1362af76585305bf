//go:build all

package health

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/idworker/idworker/testing/natstest"
)

// served is a page of a sample, with its URL.
func served(t *testing.T) (*source, string) {
	t.Helper()
	s := new(source)
	s.current.Store(sample(time.Now()))
	mux := http.NewServeMux()
	newPage(s.collect).Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return s, server.URL
}

// seen is a tab's unwanted behavior.
type seen struct {
	mu    sync.Mutex
	wrong []string
}

// watch records requests to other sites, and errors of the browser: violations
// of the policy, and failures.
func watch(t *testing.T, tab context.Context, home string) {
	t.Helper()
	s := new(seen)
	err := chromedp.Listen(tab, func(ev any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, home+"/") {
				s.wrong = append(s.wrong, "request to "+e.Request.URL)
			}
		case *log.EventEntryAdded:
			if !strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
				s.wrong = append(s.wrong, "complaint: "+e.Entry.Text)
			}
		case *runtime.EventExceptionThrown:
			s.wrong = append(s.wrong, "exception: "+e.ExceptionDetails.Text)
		}
	})
	if err == nil {
		err = chromedp.Do(tab, call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, wrong := range s.wrong {
			t.Error(wrong)
		}
	})
}

// call is a command without a result.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// do runs actions in the tab.
func do(t *testing.T, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// value returns the value of an expression in the page.
func value[T any](t *testing.T, tab context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(tab, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// await waits until an expression in the page is true. The page may change.
func await(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	natstest.Eventually(t, expression, func() bool {
		is, err := chromedp.Run(tab, chromedp.Evaluate[bool](expression))
		return err == nil && is
	})
}

// TestPageInABrowser: by day and by night, on a desk and on a phone, the page
// fits, is accessible, shows all names as text, and contacts no other site.
func TestPageInABrowser(t *testing.T) {
	t.Parallel()
	tab := newTab(t)
	_, home := served(t)
	watch(t, tab, home)
	for _, look := range looks {
		do(t, tab, look.take(), chromedp.Navigate(home+"/"))
		if wide := value[int64](t, tab, `document.documentElement.scrollWidth`); wide > look.Width {
			t.Errorf("%s: the page is %d pixels wide, the screen %d", look.Name, wide, look.Width)
		}
		if look.Touch && value[bool](t, tab, `[...document.querySelectorAll(".scroll")].some(e => e.scrollWidth > e.clientWidth)`) {
			t.Errorf("%s: a table is cut off", look.Name)
		}
		// Axe-core does not check these.
		if value[bool](t, tab, `[...document.querySelectorAll("meter")].some(e => !e.ariaLabel)`) {
			t.Errorf("%s: a bar has no name", look.Name)
		}
		if value[bool](t, tab, `typeof hacked !== "undefined" || document.getElementById("hostile") !== null || document.scripts.length !== 1`) {
			t.Errorf("%s: a name was taken for markup", look.Name)
		}
		if shown := value[int](t, tab, `[...document.querySelectorAll("bdi")].filter(e => e.textContent.includes("<script>hacked=1</script>")).length`); shown < 4 {
			t.Errorf("%s: hostile names are shown as they are %d times, want worker, tag, enrichment, and more", look.Name, shown)
		}
		keepScreenshot(t, tab, look.Name)
		checkAccess(t, tab, look.Name)
	}
}

// TestPageRefreshesItself: changes are replaced in place; typed text and the
// focus stay. Refreshing can be paused. If the process does not answer, the
// page shows that.
func TestPageRefreshesItself(t *testing.T) {
	t.Parallel()
	tab := newTab(t)
	s, home := served(t)
	do(t, tab, chromedp.Navigate(home+"/"), chromedp.SendKeys("#q", "shop"))
	value[int](t, tab, `window.same = 1`)
	quiet := sample(time.Now())
	quiet.Prefix, quiet.Tags = "other", quiet.Tags[:1]
	s.current.Store(quiet)
	await(t, tab, `document.getElementById("about").textContent.includes("other") && document.querySelectorAll("#taglist tbody tr").length === 1`)
	if !value[bool](t, tab, `same === 1 && document.activeElement.id === "q" && document.activeElement.value === "shop"`) {
		t.Error("the page was reloaded, or the typed text is lost")
	}
	do(t, tab, chromedp.Click("#pause"))
	asked := s.asked.Load()
	// Longer than the interval of refreshes: nothing must happen.
	time.Sleep(3500 * time.Millisecond)
	if n := s.asked.Load() - asked; n > 1 {
		t.Errorf("asked %d times while it was paused", n)
	}
}

// TestPageByKeyboard: the first key leads to the tags, and Enter searches.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	tab := newTab(t)
	_, home := served(t)
	do(t, tab, chromedp.Navigate(home+"/"), chromedp.KeyEvent(kb.Tab))
	if !value[bool](t, tab, `document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the first Tab does not show the link to the tags")
	}
	do(t, tab, chromedp.Focus("#q"), chromedp.KeyEvent("shop-00"), chromedp.KeyEvent(kb.Enter))
	await(t, tab, `location.search.includes("q=shop-00") && document.querySelector("#taglist .note")?.textContent.includes("97 tags with")`)
	rings := value[int](t, tab, `[...document.querySelectorAll("a, button:not([hidden]), input, select, .scroll")].filter(e => {
		e.focus(); return document.activeElement !== e }).length`)
	if rings > 0 {
		t.Errorf("%d controls cannot be reached by keyboard", rings)
	}
}

// TestPageWithoutScript: everything is there, and the page reloads.
func TestPageWithoutScript(t *testing.T) {
	t.Parallel()
	tab := newTab(t)
	s, home := served(t)
	do(t, tab, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(home+"/"))
	text, err := chromedp.Run(tab, chromedp.Text("main"))
	if err != nil || !strings.Contains(text, "checkout.order") || !strings.Contains(text, "overloaded") {
		t.Errorf("%v, %.200s", err, text)
	}
	asked := s.asked.Load()
	natstest.Eventually(t, "the page reloads", func() bool { return s.asked.Load() > asked })
}
