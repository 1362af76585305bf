//go:build all

package health

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/tier"
)

// tabWithin bounds everything that a tab does.
const tabWithin = 2 * time.Minute

// newTab returns a tab of a new browser, which ends with the test. The browser
// is Debian's chromium, headless, and reaches only this machine. Without a
// browser the test is skipped, see package deps.
func newTab(t testing.TB) context.Context {
	t.Helper()
	tier.All(t)
	program := deps.Browser.Require(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	ctx, cancel := context.WithTimeout(context.Background(), tabWithin)
	t.Cleanup(cancel)
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancelAllocator)
	ctx, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(cancelTab)
	if err := chromedp.Do(ctx); err != nil {
		deps.Browser.Missing(t, err)
	}
	return ctx
}

// look is a color scheme and a size.
type look struct {
	Name          string
	Width, Height int64
	Dark, Touch   bool
}

// looks are those that the page is made for.
var looks = []look{
	{"light", 1280, 900, false, false},
	{"dark", 1280, 900, true, false},
	{"phone", 400, 844, false, true},
	{"phone-dark", 400, 844, true, true},
}

// take takes a look.
func (l look) take() chromedp.Action[chromedp.Void] {
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	viewport := []chromedp.EmulateViewportOption{}
	if l.Touch {
		viewport = append(viewport, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	return chromedp.Steps(
		chromedp.EmulateViewport(l.Width, l.Height, viewport...),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}),
	)
}

// keepScreenshot saves a screenshot of the whole page in the folder of
// IDWORKER_SCREENSHOTS, if that is set.
func keepScreenshot(t testing.TB, tab context.Context, name string) {
	t.Helper()
	folder := os.Getenv("IDWORKER_SCREENSHOTS")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600)
	}
	if err != nil {
		t.Errorf("screenshot %s: %v", name, err)
	}
}
