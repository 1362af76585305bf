// Package schema checks the form of the container image with the code that reads
// it elsewhere: a registry's client. Its folder chart packs the Helm chart, and
// checks it with Helm and Kubernetes' API server. It needs no network and no
// cluster.
//
//	cd testing/release/schema && go test ./...
//
// It is a module of its own, because these are large dependencies.
package schema
