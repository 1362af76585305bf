package worker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestLyingReports: whatever somebody answers who may, whoever asked goes on, and takes only what can be a report.
func TestLyingReports(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	conn := net.Connect(t)
	lie := func() []string {
		answers := []string{
			`{"instance":"A","part":1,"parts":2}`, `{"instance":"A","part":1,"parts":2}`, // complete without a part 0
			`{"instance":"B","part":0,"parts":1}`,
			`{"instance":"C","part":0,"parts":2,"report":{"instance":"C"}}`, `{"instance":"C","part":0,"parts":2,"report":{"instance":"C"}}`,
			`{"instance":"D","part":0,"parts":1000000000,"report":{}}`, `{"instance":"D","part":-1,"parts":1}`,
			`{"instance":"E","part":0,"parts":1,"report":{"host":"` + strings.Repeat("x", 900_000) + `"}}`,
			`{"instance":"F","part":0,"parts":1,"report":` + strings.Repeat("[", 400_000),
			`{"instance":"G","part":0,"parts":1,"report":{"instance":"H","host":"g","not_ready":"` + strings.Repeat("ö", 50_000) + `","stats":{"tags":[{"tag":"x"}]}},"tags":[{"tag":"y"},{"tag":"<script>"}]}`,
			`null`, `[]`, `{}`, "",
		}
		for n := range 2000 {
			answers = append(answers, fmt.Sprintf(`{"instance":"many%d","part":0,"parts":1,"report":{}}`, n))
		}
		return answers
	}
	sub, err := conn.Subscribe("ids.report", func(msg *nats.Msg) {
		var q struct{ Asker string }
		if err := json.Unmarshal(msg.Data, &q); err != nil {
			t.Error(err)
		}
		for _, text := range lie() {
			if err := conn.Publish("ids.report."+q.Asker, []byte(text)); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	asker := net.Connect(t)
	var reports []worker.Report
	natstest.Eventually(t, "reports", func() bool {
		reports = ask(t, asker, 10)
		return len(reports) > 0 && reports[0].Instance == "G"
	})
	if len(reports) > 1000 {
		t.Errorf("%d reports", len(reports))
	}
	if g := reports[0]; g.Instance != "G" || g.Host != "g" || len(g.NotReady) != 1000 || len(g.Stats.Tags) != 1 || g.Stats.Tags[0].Tag != "y" {
		t.Errorf("%.300v", g)
	}
	for _, r := range reports[1:] {
		if !strings.HasPrefix(r.Instance, "many") {
			t.Errorf("%.300v", r)
		}
	}
}
