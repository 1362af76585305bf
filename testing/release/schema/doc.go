// Package schema checks the form of docs/deploy and of the container image with
// the code that reads them elsewhere: Kubernetes' API server, kustomize, Docker
// Compose and a registry's client. It needs no network and no cluster.
//
//	cd testing/release/schema && go test ./...
//
// It is a module of its own, because these are large dependencies.
package schema
