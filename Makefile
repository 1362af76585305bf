# idworker: `make help` lists what there is to make.

GO      ?= go
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help
.PHONY: help run nats example build test bench lint

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Serve IDs on 127.0.0.1:4222, with a NATS server of its own, until Ctrl-C
	@NATS_URL= NATS_CONTEXT= IDWORKER_SERVER= IDWORKER_CONTEXT= bin/idworker serve --demo

# Passwords are made once, and those in the environment go first. For the shell that
# starts idworker: . nats-data/passwords
NATS_USERS = WORKER LOADER ADMIN CALLER ORDER ENRICHER ORDERS_ADMIN SYS

nats: ## Run nats-server with nats.conf on 127.0.0.1:4222, its data and passwords in nats-data
	@umask 077 && mkdir -p nats-data
	@test -s nats-data/passwords || { umask 077; for u in $(NATS_USERS); do \
		p=p$$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n'); \
		echo "export IDS_$${u}_PASSWORD=\"\$${IDS_$${u}_PASSWORD:-$$p}\""; \
	done > nats-data/passwords; }
	@. ./nats-data/passwords && IDS_NATS_DATA="$${IDS_NATS_DATA:-nats-data}" $(GO) run github.com/nats-io/nats-server/v2 -c nats.conf

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
