// Package schema checks the form of the Compose file and of the container image
// with the code that reads them elsewhere: Docker Compose and a registry's
// client. Its folder chart packs the Helm chart, and checks it with Helm and
// Kubernetes' API server. It needs no network and no cluster.
//
//	cd testing/release/schema && go test ./...
//
// It is a module of its own, because these are large dependencies.
package schema
