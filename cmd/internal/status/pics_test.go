package status

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func TestPics(t *testing.T) {
	for _, l := range []look{{"w1280", 1280, 900, false, false}, {"w400", 400, 800, false, true}, {"w700", 700, 800, false, false}} {
		for _, good := range []bool{false, true} {
			tab := newTab(t)
			s, home := served(t)
			name := "bad-"
			if good {
				name = "good-"
				i := sample(time.Now())
				i.Unread = []Unread{{What: "enrichments", Why: "this NATS user lacks a right for it: the user may not publish $JS.API.STREAM.INFO.KV_ids_enrich, $JS.API.CONSUMER.CREATE.KV_ids_enrich.>", Denied: true}, {What: "worker IDs", Why: "this NATS user lacks a right for it", Denied: true}}
				i.Enrichments, i.Silent, i.Checks, i.WorkerIDs = nil, nil, i.Checks[:1], nil
				i.Totals.WorkersExpected = 3
				i.Processes[1].Overloads.Now = false
				i.Processes[2].Host = "ids-w3"
				i.Processes[4].Outages.Now = false
				i.Tags = i.Tags[2:]
				i.judge(i.Processes)
				s.current.Store(i)
			}
			do(t, tab, l.take(), chromedp.Navigate(home+"/"))
			keepScreenshot(t, tab, name+l.Name)
		}
	}
}
