# idworker: `make help` lists what there is to make.

GO      ?= go
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help
.PHONY: help run example build test bench lint fuzz

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Serve IDs on 127.0.0.1:4222, with a NATS server of its own, until Ctrl-C
	@NATS_URL= IDWORKER_SERVER= bin/idworker serve --demo

example: build ## Watch 2,000 orders get IDs on their way into a database; ends by itself
	@cd docs/example && $(GO) run . ../../bin/idworker

build: ## Build bin/idworker
	$(GO) build -o bin/idworker ./cmd/idworker

test: ## Run all tests, with the race detector
	$(GO) test -race -timeout 40m ./...

bench: ## Measure, beside baselines in the same run
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./testing/bench/...
	cd testing/bench/peers && $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 10m ./...

lint: ## Check format, vet, static analysis
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(GOLANGCI_LINT) run ./...
	cd docs/example && $(GO) vet ./... && $(GO) run $(GOLANGCI_LINT) run ./...
