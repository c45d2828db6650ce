# Two commands are all a newcomer needs: make demo, make test.

GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER = github.com/goreleaser/goreleaser/v2@v2.14.3
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
export CYCLONEDX_GOMOD = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

# how long make test-long fuzzes each target
FUZZTIME = 20s

# packages that hardly share memory between goroutines: the race detector would make their tests two to three times slower
PLAIN = ./cmd $(shell go list ./cmd/internal/... | grep -v /internal/serve/) ./config/... ./docs/test ./examples/... ./internal/guard \
	./internal/plain ./internal/spoken ./internal/sqltext ./internal/tx ./internal/trust ./internal/upgrade ./internal/deadletter ./jobs/event/outbox \
	./internal/backtest ./internal/expr ./internal/rulestore \
	./internal/rule/... ./jobs/schedule/... ./internal/advise ./internal/duration ./internal/forecast ./slots/grid ./slots/health ./slots/internal/shape ./internal/replay ./testkit/oracle

# tests that measure memory, wait for leases or follow every link, and their packages: the race detector would make these
# tests two to four times slower, and find no more than the other tests of the packages
HEAVY = EveryPromise|PartOfTheMemory|MoreMemory|EveryLinkOfAServer|EveryBranchOfEveryTemplate|IsShownAsText
HEAVY_IN = ./slots ./jobs ./cmd/internal/serve/pages

# tests of which make test-all runs a sample: with PRESCIENT_TEST_LONG every fault at every statement of a runner and of a move,
# 100,000 schedules and 100,000 rows of rules beside their oracles, and 10,000 lives
LONG = EveryPromise|EachRowIsInOnePlace|Oracle|LivesCanBeTold

# the parts of make test-all, of which two run at once; the last are the modules beside this one, and other versions of PostgreSQL
PARTS = test-light test-race test-plain test-heavy test-bench test-short-versions test-browser test-orm test-deploy test-torture
.PHONY: $(PARTS)

# without it, each checkout compiles everything for itself, and so does the test that builds two versions
test $(PARTS): export GOFLAGS += -trimpath

# packages with long tests begin first, so that no core is idle at the end
PLAIN_FIRST = ./cmd ./docs/test ./jobs/schedule ./examples/orders

# tests wait for locks and leases now and then: each part has half of the cores, and one package more; without DWARF, a test
# binary is linked in three quarters of the time; make lint vets, which takes a minute of CPU time in a clean clone
TEST = PATH="$$PATH:$(CURDIR)/bin" GORACE=atexit_sleep_ms=0 \
	go test -vet=off -ldflags=-w -timeout 1h -p $$(($$(getconf _NPROCESSORS_ONLN) / 2 + 1))

.PHONY: help build demo test test-all test-long test-pooler test-citus test-failover test-upgrade test-versions test-dates mutants torture torture-full lint check-release release-snapshot test-release release vulncheck freeze clients pictures screenshots bench bench-30m bench-full figures postgres promtool languages browser clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/prescient
	go build -o bin/prescient ./cmd/prescient

demo: postgres build ## a two-day story on a private PostgreSQL: checks fire, an outage, catch-up
	@bin/prescient dev-db demo

test: postgres ## every promise, command and page once, in minutes, on a PostgreSQL that the tests start themselves: run it before a commit
	$(TEST) -short ./...

test-all: postgres promtool languages browser ## every test, with the race detector where it is worth its time, the modules beside this one, and other versions of PostgreSQL: half an hour
	@$(MAKE) --no-print-directory --keep-going --jobs 2 $(PARTS)

test-light:
	$(TEST) -race -skip '$(HEAVY)' $(HEAVY_IN)

test-race:
	$(TEST) -race $$(go list ./... | grep -vxF "$$(go list $(PLAIN) $(HEAVY_IN))")

test-plain:
	$(TEST) $(PLAIN_FIRST) $(PLAIN)

test-heavy:
	$(TEST) -run '$(HEAVY)' $(HEAVY_IN)

test-bench:
	cd bench && go test -timeout 1h ./...

test-short-versions:
	sql/pgtest/versions/test.sh short

test-browser:
	cd cmd/internal/serve/browsertest && go test ./...

test-orm:
	cd examples/orm && go generate ./ent && go test ./...

test-deploy:
	cd deploy/test && go test ./...

test-torture:
	cd internal/torture && go test -parallel 4 -timeout 1h ./...

test-long: postgres promtool languages browser ## what takes longer than make test-all should: all cases of which it takes a sample, every fuzz target, and every test with the race detector
	PATH="$$PATH:$(CURDIR)/bin" go test -race -timeout 1h ./...
	PRESCIENT_TEST_LONG=1 go test -count 1 -timeout 3h -run '$(LONG)' ./slots ./jobs/stores ./jobs/schedule/... ./testkit/oracle
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

test-versions: postgres ## every test on each PostgreSQL from 15 to 18, whose programs npm fetches: an hour
	sql/pgtest/versions/test.sh

test-dates: postgres ## the tests of the packages in PACKAGES, such as ./slots, with the clock before midnight at the end of a year, on 29 February and at changes of summer time
	sql/pgtest/dates/test.sh $(PACKAGES)

test-pooler: postgres ## what uses the database in production, through PgBouncer in transaction mode
	PRESCIENT_TEST_POOLER=1 go test -race -count 1 -timeout 30m ./jobs ./jobs/event/outbox ./jobs/schedule/... ./jobs/sqljob ./jobs/stores \
		./slots ./slots/daemon ./slots/delayq ./slots/metrics ./testkit ./examples/...

test-citus: ## every test of the database, on the Citus cluster whose coordinator PRESCIENT_TEST_CITUS_URL names
	@test -n "$$PRESCIENT_TEST_CITUS_URL" || { echo "PRESCIENT_TEST_CITUS_URL names no coordinator: docker compose -f deploy/citus/compose.yaml up -d, then" \
		"PRESCIENT_TEST_CITUS_URL='postgres://postgres@127.0.0.1:9700/postgres?sslmode=disable' make test-citus" >&2; exit 1; }
	go test -count 1 -p 1 -parallel 2 -timeout 1h ./cmd/... ./examples/... ./internal/advise ./internal/alert ./internal/backtest ./internal/deadletter ./internal/forecast \
		./internal/pg ./internal/receiver ./internal/retention ./internal/rule ./internal/rulestore ./internal/tx ./jobs/... ./slots/... ./sql ./testkit

test-failover: postgres ## a primary is killed and its standby promoted in the middle of runs, a hundred times
	PRESCIENT_TEST_FAILOVERS=100 go test -race -count 1 -timeout 1h -run AFailover ./slots

mutants: postgres ## plant one fault after another, and tell which test catches each: two hours; RUN names some of them, FLAGS=-short runs the tests of make test
	go run ./internal/mutants -run '$(RUN)' $(FLAGS)

test-upgrade: postgres ## an upgrade of the schema beside runners of the last release and of this tree, for several minutes
	PRESCIENT_UPGRADE_SLOTS=20 go test -count 1 -timeout 1h -v ./internal/upgrade

torture: postgres ## ten minutes of kills, cuts, lost replies and restarts under real processes; then what was lost is counted
	cd internal/torture && go run . -for 10m

torture-full: postgres ## the same for three hours
	cd internal/torture && go run . -for 3h

lint: ## golangci-lint at a pinned version, and the shape of the engine; the modules beside this one are vetted
	go run $(GOLANGCI_LINT) run ./...
	go test ./slots/internal/shape
	cd bench && go vet ./...
	cd deploy/test && go vet ./...
	cd examples/orm && go generate ./ent && go vet ./...
	cd cmd/internal/serve/browsertest && go vet ./...
	cd internal/torture && go vet ./...

check-release: ## goreleaser's check of .goreleaser.yaml; no part of lint, since compiling goreleaser takes minutes
	go run $(GORELEASER) check

release-snapshot: ## build what a release has, in build/dist: archives, deb, rpm, SBOMs and checksums
	go run $(GORELEASER) release --snapshot --clean

test-release: release-snapshot ## build that, and test it: what packages install and remove, what SBOMs name; twice from two folders with empty caches
	cd deploy/test && PRESCIENT_TEST_DIST=$(CURDIR)/build/dist PRESCIENT_TEST_LONG=1 go test -count 1 -timeout 1h -run 'Release|Reproducible' ./...

release: ## publish a release from its tag; the workflow of the repository calls it
	go run $(GORELEASER) release --clean

vulncheck: ## look for known vulnerabilities in what is linked; asks the database of the Go project
	@deploy/vulncheck.sh go run $(GOVULNCHECK)

freeze: ## add the migrations and the functions of a release to sql/migrations/released.txt, after which a test keeps them as they are
	go test -count 1 -run WhatIsReleasedStaysAsItIs ./sql -freeze

pictures: ## draw the pictures of docs anew, from rows that are measured
	go test -count 1 -run Picture ./docs/test -update
	cd internal/torture && go test -count 1 -run Picture . -update

clients: languages ## write the clients of the examples in Python and TypeScript anew, from the OpenAPI document
	go test -count 1 -run TheClientsAre ./examples -update

bench: postgres ## prescient beside other queues, the short set: more than 20 minutes
	cd bench && go run . -short -json results.json

bench-30m: postgres ## a virtual day of 30 million schedules: two hours, and 50 GB of disk
	cd bench && go run . -only day -pg shared_buffers=8GB -pg wal_compression=lz4 -pg max_wal_size=16GB

bench-full: postgres ## every workload of the benchmark: 70 minutes, and 30 GB of disk
	cd bench && go run . -json results.json

figures: ## write the results of the last make bench into README and docs
	cp bench/results.json bench/full.json
	go test -count 1 -run TheFiguresOfThePages ./docs/test -update

postgres: ## install PostgreSQL where its server programs are nowhere to be found
	@internal/embedded/install.sh

promtool: ## fetch Prometheus' promtool into bin/ where it is nowhere to be found and apt-get can
	@deploy/install-promtool.sh

languages: ## fetch what the examples in Python and TypeScript need, where it is not there and can be had
	@examples/python/install.sh
	@examples/typescript/install.sh

browser: ## install Chromium and axe-core, which look at the pages of prescient serve, where they are not there and can be had
	@cmd/internal/serve/browsertest/install.sh

screenshots: postgres browser ## a picture of every page of prescient serve, by light, by dark and on a phone, in build/pages
	mkdir -p build/pages
	cd cmd/internal/serve/browsertest && PRESCIENT_SCREENSHOTS=$(CURDIR)/build/pages go test -count 1 -run 'CanBeUsedByEverybody|AllRight' ./...

clean: ## remove what was built
	rm -rf bin build dist examples/typescript/node_modules examples/typescript/dist cmd/internal/serve/browsertest/node_modules
