# idworker: `make help` lists the targets.

GO      ?= go
GORELEASER    = github.com/goreleaser/goreleaser/v2@v2.15.1
ACTIONLINT    = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help
.PHONY: help run nats cluster example build test deps test-all soak clients release check-packages check-release nemesis history bench mutants spec site lint

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# PORT_OFFSET=100, in the environment or after make, adds 100 to every port of these
# three targets. docs/deploy/local.sh writes the addresses to nats-data, for terminals.
SETTINGS = @sh docs/deploy/local.sh $@ '$(strip $(PORT_OFFSET))'
port = $$(($(1) + $(PORT_OFFSET)))

# LISTEN, DATA and PORT moved a port or named a folder in 0.2.0. If they were ignored, another
# folder would be served, with IDs from 1.
$(foreach v,LISTEN DATA PORT,$(if $(filter command%,$(origin $v)),$(error $v= is gone: move all ports with PORT_OFFSET=, or name a folder with IDWORKER_DATA)))

run: build ## Serve IDs on 127.0.0.1:4222 until Ctrl-C (PORT_OFFSET=)
	$(SETTINGS)
	@env -u NATS_URL -u NATS_USER -u NATS_PASSWORD -u IDWORKER_INBOX_PREFIX -u NATS_CONTEXT -u IDWORKER_SERVER -u IDWORKER_CONTEXT -u IDWORKER_STORE -u IDWORKER_STORE_FILE bin/idworker serve --demo$(if \
		$(PORT_OFFSET), --listen 127.0.0.1:$(call port,4222) --api 127.0.0.1:$(call port,8080) --http 127.0.0.1:$(call port,9090))

nats: build bin/nats-server ## Run a NATS server with nats.conf until Ctrl-C; its users are in nats-data (PORT_OFFSET=)
	$(SETTINGS)
	@. ./nats-data/server.env && exec bin/nats-server -c nats.conf$(if $(PORT_OFFSET), -p $(call port,4222))

cluster: build bin/nats-server ## Write the settings of three NATS servers, and of their users, to nats-data (PORT_OFFSET=)
	$(SETTINGS)

bin/nats-server: go.mod
	$(GO) build -o $@ github.com/nats-io/nats-server/v2

example: ## Run the programs in docs/example against idworker serve
	IDWORKER_TESTS=all $(GO) test -count=1 -v -timeout 5m ./testing/examples

build: ## Build bin/idworker
	$(GO) build -o bin/idworker ./cmd/idworker

# Most tests wait for a server, so four packages run at once even on two processors.
# vet is among the linters of make lint; here it would read all dependencies first.
TEST = $(GO) test -vet=off -timeout 30m -p 4 -parallel 4 $(FLAGS)
# Packages that make test skips: they run for minutes, or measure.
LATER = e2e pages examples java clients bench nemesis mutants regions compat release/packages release/image release/manifests
PACKAGES = $(or $(filter-out $(addprefix %/testing/,$(LATER)),$(shell $(GO) list ./...)),$(error go list lists no packages))
MORE     = ./testing/nemesis ./testing/mutants
FUZZ     = internal/oneline.FuzzCut messages/opaque.FuzzParseText messages/opaque.FuzzKeys messages/number.FuzzFormat
# The build tag links a browser and containers, see testing/tier.
ALL = -tags all

# The race detector needs a C compiler. CONCURRENT are the packages that start
# goroutines or promise that several may call them. The allocator promises it for
# a few calls, and most of its tests are models that run in one goroutine, so only
# those with several are repeated. testing/e2e and testing/conformance build the
# programs that they test with the race detector.
RACE = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
CONCURRENT = ./cmd/idworker ./cmd/internal/bench ./cmd/internal/embedded ./cmd/internal/health ./cmd/internal/natsconn \
	./cmd/internal/progress ./cmd/internal/tags ./internal/goroutines ./internal/inbox ./internal/kv ./internal/secretfile \
	./internal/streamread ./messages/... ./snowflake/... ./store/... ./worker/...
CALLERS = TestConcurrentCallers|TestNoTakeAfterLearn|TestNothingIsLost|TestReadersSeeEveryTag|TestNoMarkIsMissed
# Tests outside these packages that make test leaves to make test-all.
REST = ./docs/site ./testing/dbtest

# go test caches results by files and variables, so a variable holds the list of
# installed programs.
test test-all soak: export IDWORKER_FOUND = $(shell $(GO) run ./testing/deps/install -found)

test: ## Run the tests of all packages (5 minutes, needs only Go)
	$(TEST) $(PACKAGES)
	@$(GO) run ./testing/deps/install

deps: ## Install what make test-all needs (as root on Debian or Ubuntu)
	@$(GO) run ./testing/deps/install -install

# The last packages start many processes and mostly wait, so two run at once: one is e2e nearly
# all the time. They build the binary, which go test does not track, so their results are not cached.
# testing/compat rolls from the old version, if the history is there. Fuzzing takes a second
# each, without coverage: go test -fuzz would compile all dependencies once more.
test-all: export IDWORKER_TESTS = all
test-all: deps ## Run what make test leaves out: races, the binary, databases, a browser, Node.js, Python, Java
	$(TEST) $(ALL) $(RACE) $(CONCURRENT)
	$(if $(RACE),$(TEST) $(RACE) -run '^($(CALLERS))$$' ./allocator)
	$(TEST) $(ALL) $(REST) $(MORE)
	@for fuzz in $(FUZZ); do $(TEST) -count=1 -run '^$$' ./$${fuzz%.*} -args -test.fuzz="^$${fuzz##*.}$$" -test.fuzztime=1s \
		-test.fuzzcachedir=$(CURDIR)/bin/fuzz || exit 1; done
	$(TEST) $(ALL) -count=1 -p 2 ./testing/e2e ./testing/pages ./testing/compat ./testing/java ./testing/clients ./testing/conformance ./testing/examples
	@$(GO) run ./testing/deps/install

# RUN selects tests by name, as in: make soak RUN=NoDuplicate
soak: export SOAK = 1
soak: deps ## Run all tests for longer, with more IDs (RUN=)
	$(TEST) $(ALL) $(RACE) -count=1 -timeout 60m -run '$(RUN)' $(PACKAGES) $(MORE)
	$(TEST) $(ALL) -count=1 -timeout 60m -p 1 -parallel 2 -run '$(RUN)' ./testing/e2e ./testing/bench

VERSION = $(shell sed -n 's/^const version = "\(.*\)"/\1/p' cmd/idworker/version.go)

MVN = mvn -B -ntp -f messages/clients/java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn

# Jars go into the local Maven repository, the npm package and the wheel into
# dist/clients. A language whose tools are not installed is left out.
clients: ## Build the clients for Java, TypeScript and Python, to install them from this clone
	@mkdir -p dist/clients && rm -f dist/clients/*
	@if command -v mvn >/dev/null; then $(MVN) -q -DskipTests install && \
		echo "Java: installed $$(sed -n 's,^  <version>\(.*\)</version>,io.github.idworker \1,p' messages/clients/java/pom.xml) into the local Maven repository"; \
		else echo "Java: left out, mvn is not installed"; fi
	@if command -v npm >/dev/null; then (cd messages/clients/typescript && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && \
		npm pack --loglevel=error --pack-destination $(CURDIR)/dist/clients) >/dev/null && \
		echo "TypeScript: $$(ls $(CURDIR)/dist/clients/*.tgz)"; else echo "TypeScript: left out, npm is not installed"; fi
	@if command -v python3 >/dev/null; then python3 -m venv bin/wheel && cp LICENSE messages/clients/python && \
		bin/wheel/bin/pip wheel -q --disable-pip-version-check --no-deps -w dist/clients messages/clients/python && \
		echo "Python: $$(ls $(CURDIR)/dist/clients/*.whl)"; else echo "Python: left out, python3 is not installed"; fi

# Maven deploys the jars into a folder, because that leaves out what is not published.
release: ## Build a release in dist, of a tagged commit (or SNAPSHOT=1)
	@$(if $(SNAPSHOT),,test "$$(git describe --tags --exact-match 2>/dev/null)" = v$(VERSION) || \
		{ echo "the commit has no tag v$(VERSION), the version in cmd/idworker/version.go; for any other commit use SNAPSHOT=1"; exit 1; })
	@$(if $(SNAPSHOT),,grep -q '^  <version>$(VERSION)</version>' messages/clients/java/pom.xml || \
		{ echo "messages/clients/java has another version than $(VERSION), that of cmd/idworker/version.go"; exit 1; })
	@$(if $(SNAPSHOT),,grep -q '^  "version": "$(VERSION)",' messages/clients/typescript/package.json || \
		{ echo "messages/clients/typescript has another version than $(VERSION), that of cmd/idworker/version.go"; exit 1; })
	@$(if $(SNAPSHOT),,grep -q '^version = "$(VERSION)"' messages/clients/python/pyproject.toml || \
		{ echo "messages/clients/python has another version than $(VERSION), that of cmd/idworker/version.go"; exit 1; })
	@$(if $(SNAPSHOT),,test "$$(sed -nE 's/^(v|appV)ersion: //p' docs/deploy/chart/Chart.yaml | sort -u)" = $(VERSION) || \
		{ echo "docs/deploy/chart has another version than $(VERSION), that of cmd/idworker/version.go"; exit 1; })
	@test -x messages/clients/python/.venv/bin/python || { echo "messages/clients/python has no virtual environment: make deps"; exit 1; }
	@$(if $(SNAPSHOT),,test -z "$$(git status --porcelain)" || { git status --short; echo "the tree has changes that are not committed"; exit 1; })
	VERSION=$(VERSION) $(GO) run $(GORELEASER) release --clean $(if $(SNAPSHOT),--snapshot)
	sh docs/deploy/image.sh dist
	cd testing/release/schema && $(GO) run ./chart -dist $(CURDIR)/dist
	@rm -rf bin/maven
	$(MVN) -P release -DskipTests -Dmaven.install.skip clean deploy -DaltDeploymentRepository=dist::file://$(CURDIR)/bin/maven
	@find bin/maven -type f -name 'idworker-*' ! -name '*.md5' ! -name '*.sha1' -exec cp {} dist \;
	cd messages/clients/typescript && npm ci --ignore-scripts --no-audit --no-fund && npm pack --pack-destination $(CURDIR)/dist
	cp LICENSE messages/clients/python && messages/clients/python/.venv/bin/python -m build --no-isolation --outdir dist messages/clients/python
	git archive -o dist/idworker_$(VERSION)_deploy.tar.gz HEAD docs/deploy/chart docs/deploy/nats-chart docs/deploy/compose.yaml docs/deploy/monitoring docs/deploy/systemd docs/prometheus-rules.yml docs/grafana.json nats.conf cluster.conf LICENSE
	@awk '/^## /{on = index($$0, "[$(VERSION)]")} on && !/^## /' CHANGELOG.md | \
		sed 's#](docs/#](https://github.com/idworker/idworker/blob/v$(VERSION)/docs/#g' > dist/notes.md
	@grep -q . dist/notes.md || { echo "CHANGELOG.md has no section [$(VERSION)]"; exit 1; }
	@cd dist && ls -p | grep '^idworker.*[^/]$$' | xargs sha256sum > checksums.txt && cat checksums.txt

check-packages: ## Build a release, and check packages, image, manifests, regions, monitoring
	$(GO) run $(GORELEASER) check
	$(GO) run $(ACTIONLINT)
	$(MAKE) release SNAPSHOT=1
	IDWORKER_TESTS=release $(GO) test $(ALL) -count=1 -p 1 -timeout 60m ./testing/release/... ./testing/regions ./testing/compat
	IDWORKER_TESTS=release $(GO) test $(ALL) -count=1 -run '^TestInstall$$' -timeout 60m ./testing/clients
	cd testing/release/schema && $(GO) test -count=1 ./...
	cd testing/monitoring && $(GO) test -count=1 -parallel 2 -timeout 30m ./...

check-release: check-packages lint test test-all spec mutants soak bench ## Run every check before a release, for hours
	for store in jetstream mysql postgres; do $(MAKE) nemesis DURATION=20m STORE=$$store || exit 1; done

# The same SEED repeats the same faults in the same order. FAULTS is a regular
# expression for their names. SYNC is the servers' sync_interval. PRODUCT is a folder
# with the source of another version, whose binary is put to the test.
DURATION ?= 2m
STORE    ?= jetstream
SEED     ?=
OUTAGE   ?=
FAULTS   ?=
SYNC     ?=
PRODUCT  ?=

nemesis: ## Inject faults into real processes (DURATION=, SEED=, STORE=jetstream, mysql or postgres, FAULTS=, SYNC=, OUTAGE=, PRODUCT=)
	NEMESIS_DURATION=$(DURATION) NEMESIS_SEED=$(SEED) NEMESIS_STORE=$(STORE) NEMESIS_OUTAGE=$(OUTAGE) \
	NEMESIS_FAULTS='$(FAULTS)' NEMESIS_SYNC=$(SYNC) NEMESIS_PRODUCT=$(abspath $(PRODUCT)) \
		$(GO) test -count=1 -v -timeout 24h -run '^TestNemesis$$' ./testing/nemesis

history: ## Check a recorded history (FILE=)
	@test -n '$(FILE)' || { echo 'usage: make history FILE=bench.gz'; exit 2; }
	$(GO) test -count=1 -v -run '^TestHistory$$' ./testing/nemesis -history $(abspath $(FILE))

bench: ## Measure against baselines in the same run
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./testing/bench/...
	cd testing/bench/peers && $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 10m ./...

# WHICH selects bugs by name, as in: make mutants WHICH=register; each of the quick
# ones takes seconds.
mutants: ## Check that the tests find planted bugs (WHICH=, or WHICH=quick)
	$(GO) run ./testing/mutants $(if $(filter quick,$(WHICH)),-quick,-run '$(WHICH)')

spec: ## Check the specifications in docs/spec with Spin
	sh docs/spec/run.sh

# The generator is in a virtual environment of its own.
site: ## Build the site of docs/ in dist/site, and check its links
	@python3 -m venv bin/site
	@bin/site/bin/pip install -q --disable-pip-version-check -r docs/site/requirements.txt
	@$(GO) run ./docs/site . bin/pages
	@cd bin/pages && ../site/bin/zensical build --strict -f zensical.yml
	@rm -rf dist/site && mkdir -p dist && cp -R bin/pages/site dist/site

# Modules that only tests need.
TESTONLY = idworker/testing|testcontainers|pgregory.net/rapid|goleak|chromedp

# vet compiles everything for a 32-bit system, where an int cannot hold an ID.
lint: ## Check format, code and prose
	@test -z "$$(git ls-files '*.go' | xargs gofmt -l)" || { git ls-files '*.go' | xargs gofmt -l; echo "run gofmt"; exit 1; }
	$(GO) run $(GOLANGCI_LINT) run ./...
	CGO_ENABLED=0 GOARCH=386 $(GO) vet ./...
	@! $(GO) list -deps ./cmd/... | grep -E '$(TESTONLY)' || { echo "the binary contains the above"; exit 1; }
	$(GO) run ./testing/prose
