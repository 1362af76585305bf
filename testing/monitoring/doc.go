// Package monitoring tests what docs/ gives to Prometheus and Grafana: the alert rules and the dashboard, and the Compose
// file, which starts them too. Docker Compose's own code reads that file. For the rules and the dashboard, real processes
// are scraped into Prometheus's own database, at a virtual pace, and its own code evaluates rules and queries.
//
//	cd testing/monitoring && go test ./...
//
// It is a module of its own, because Prometheus is a large dependency. It has only tests. lab_test.go is Prometheus,
// site_test.go has the processes. alerts_test.go plays the faults that the stories in alerts_*_test.go list, at least one for
// each rule, in four minutes.
package monitoring
