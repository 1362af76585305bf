package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNoDuplicateWhileLeavingLeafByHTTP runs every command in
// docs/leaving-leaf.md, in its order, and in between the text's instructions,
// on a table that Leaf's servers use until the last step. Callers that use only
// Leaf's path, behind a load balancer, get no ID twice, and never anything but
// an ID.
func TestNoDuplicateWhileLeavingLeafByHTTP(t *testing.T) {
	t.Parallel()
	d := databases[0] // Leaf's own
	db := d.with(t, "'leaf-segment-test', 1, 2000", "'order', 18400001, 1000")
	all := newLedgers([]string{"order", "leaf-segment-test"})
	leaf := []*leafHTTP{d.startLeafHTTP(t, db), d.startLeafHTTP(t, db)}
	front := startBalancer(t)
	front.use(t, leaf[0].URL, leaf[1].URL)
	var callers []*httpCallers
	for tag, l := range all {
		callers = append(callers, startHTTPCallers(t, 2, front.URL, tag, l))
	}
	more := func() {
		t.Helper()
		target := all.ids() + 1_000
		natstest.Eventually(t, "callers get IDs", func() bool { return all.ids() >= target || t.Failed() })
	}
	more()

	guide := newGuide(t, "leaving-leaf.md")
	guide.env = []string{"IDWORKER_STORE=" + db.DSN()}
	guide.follow("export IDWORKER_STORE=", "bin/idworker serve --api 127.0.0.1:8080")
	ls := guide.follow("export IDWORKER_STORE=", "bin/idworker tag ls")
	for _, tag := range []string{"leaf-segment-test 2000 ", "order 1000 "} {
		if !strings.Contains(strings.Join(strings.Fields(ls), " "), tag) {
			t.Errorf("tag ls: %s", ls)
		}
	}
	id, err := strconv.ParseInt(guide.follow("curl -s 127.0.0.1:8080/api/segment/get/order"), 10, 64)
	if err != nil {
		t.Error(err)
	}
	all["order"].add([]messages.Range{{First: id, Last: id}})
	guide.follow("curl -s 127.0.0.1:8080/api/segment/get/nosuch")
	if !sameButNumbers(guide.last.body, guide.printed) || guide.last.status != 500 {
		t.Errorf("got %+v, and the page says %s", guide.last, guide.printed)
	}

	second := freeport.Address(t)
	join := strings.NewReplacer("nats://127.0.0.1:4222", guide.url, "127.0.0.1:8081", second).Replace(guide.next())
	settings{env: guide.env}.launch(t, strings.Fields(join)[1:]...).serving()
	workers := []string{"http://" + guide.api, "http://" + second}
	front.use(t, append(workers, leaf[0].URL, leaf[1].URL)...)
	more()
	front.use(t, workers...)
	more()
	before := leaf[0].ids.Load() + leaf[1].ids.Load()
	for _, l := range leaf {
		l.Close()
	}
	more()
	front.use(t, d.startLeafHTTP(t, db).URL) // back, and over again
	more()
	front.use(t, workers...)
	more()
	byNATS := startCallers(t, guide.url, load{callers: 2, tags: []string{"order", "leaf-segment-test"}, maxBatch: 100, into: all})
	byNATS.more(1_000)
	byNATS.finish()
	for _, c := range callers {
		c.stop()
		if n := c.again.Load(); n > 0 {
			t.Errorf("%d requests were not answered", n)
		}
	}
	if now := leaf[0].ids.Load() + leaf[1].ids.Load(); now != before || before == 0 {
		t.Errorf("Leaf handed out %d IDs after it was taken out, and %d before", now-before, before)
	}
	all.check(t)
	guide.serve.stop(syscall.SIGTERM)

	guide.env = nil
	guide.follow("bin/idworker serve --api 127.0.0.1:8080 --layout '41:1ms/w10/s12@1288834974657'")
	natstest.Eventually(t, "a worker ID", func() bool {
		return strings.Contains(settings{env: guide.env}.run(t, "workers").stdout, guide.serve.instance())
	})
	if held := guide.follow("bin/idworker workers"); !strings.Contains(held, guide.serve.instance()) {
		t.Errorf("workers: %s", held)
	}
	snowflake := guide.follow("curl -s 127.0.0.1:8080/api/snowflake/get/order")
	guide.replace = [2]string{regexp.MustCompile(`\d{15,}`).FindString(guide.printed), snowflake}
	parts := guide.follow("curl -s '127.0.0.1:8080/decodeSnowflakeId?snowflakeId=")
	at := regexp.MustCompile(`"timestamp":"(\d+)\(`).FindStringSubmatch(parts)
	if at == nil || !sameButNumbers(parts, guide.printed) {
		t.Fatalf("got %s, and the page says %s", parts, guide.printed)
	}
	if ms, _ := strconv.ParseInt(at[1], 10, 64); time.Since(time.UnixMilli(ms)).Abs() > time.Hour {
		t.Errorf("%s is of another time than now", parts)
	}
	guide.done()
}

var digits = regexp.MustCompile(`\d+`)

// sameButNumbers reports whether two texts differ in numbers at most.
func sameButNumbers(a, b string) bool {
	return digits.ReplaceAllString(a, "#") == digits.ReplaceAllString(b, "#")
}
