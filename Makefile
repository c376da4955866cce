# Needs only Go and a POSIX shell, except: race needs a C compiler, nightly qemu-arm, and
# integration needs the servers of compose.yaml, and the programs that CONTRIBUTING.md names.
#
# Modules are found, not listed: a new one needs no change here. To work on a
# few of them, name them: make race MODULES='. backoffhttp'.

.DEFAULT_GOAL := help
.NOTPARALLEL:

GO        ?= go
FUZZTIME  ?= 10s
COVER_MIN ?= 100.0
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1
RUN       ?= .
TAGS      ?= integration
PKG       ?= .

# The root module supports three releases of Go: OLDER_GO, that of its go.mod, on which nightly tests
# it; GO, which is that of the other modules where .ci/run runs; and NEWER_GO, on which race and
# nightly run. GO downloads the two others. NEWER_GO=local and OLDER_GO=local take GO. (vet, which
# reads go.mod, finds what an older release does not have.)
OLDER_GO  ?= go1.25.12
NEWER_GO  ?= go1.27.3

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
APIDIFF     := golang.org/x/exp/cmd/apidiff@v0.0.0-20260908205506-85c1c2202aba
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
BENCHSTAT   := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GREMLINS    := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0

# Without cgo the tests need no C compiler. A go.work lying about must not
# decide which versions are tested.
export CGO_ENABLED := 0
export GOWORK := off

# find, from here down, without testdata and hidden directories.
FIND := find . \( -name testdata -o -name '.?*' \) -prune -o

# Every module: ". examples internal/lab ...". docs is one without Go, which keeps it out of the
# download of the root.
MODULES := $(filter-out docs,$(sort $(patsubst ./%,%,$(patsubst %/go.mod,%,$(shell $(FIND) -name go.mod -print)))))

# Under the race detector the clients of these modules take longer to build than everything else
# together: make nightly runs those that may have races, and make race SLOW= runs all. (In
# internal/lab/compare the detector also finds a data race of another library, which one row is
# about. The simulator and backoffvet are one goroutine. The examples take their time in real time.)
# Of lint, which also reads what a module imports, the same holds: staticcheck leaves out the modules
# in SLOW, and vet those of them in UNVETTED.
SLOW      ?= cmd/backoffsim cmd/backoffvet examples examples/clients internal/lab $(filter contrib/%,$(MODULES))
UNVETTED  := examples/clients internal/lab

# The files whose tests need servers, and their directories.
TAGGED      := $(shell $(FIND) -name '*.go' -exec grep -l '^//go:build integration' {} +)
INTEGRATION := $(sort $(patsubst ./%/,%,$(dir $(TAGGED))))

# What lint vets, with all its tags, test, race and the like need not vet again: -vet=off. race and
# test-all leave out the long tests (nightly.Long), which test (those of the library) and nightly run.
SHORT := -short

# $(call each,directories,command) runs a command in each of the directories, and
# says how long it took. $(call run-each,...) is a part of a line that does so.
define run-each
for m in $(1); do \
	echo "== $$m: $(2)"; begun=$$(date +%s); (cd "$$m" && $(2)) || exit 1; echo "== $$m: $$(($$(date +%s) - begun)) s"; \
done
endef
each = @$(run-each)

# $(call tell,commands) ends with a line that says whether all of them passed.
tell = @($(1)) || { echo "make $@: FAILED, see above"; exit 1; }; echo "make $@: all tests passed"

# Of the targets that few need, the text begins with ##+, and not with ##.
.PHONY: help help-all
help: ## Show the targets that most changes need
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

help-all: ## Show all targets
	@awk 'BEGIN { FS = ":.*##[+]? " } /^[a-z-]+:.*##[+]? / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# go test downloads the modules of one module after those of another, while nothing else is
# done.
.PHONY: fetch
fetch: ##+ Download all modules and NEWER_GO at once
	@GOTOOLCHAIN=$(NEWER_GO) $(GO) version & for m in $(MODULES); do \
		(cd "$$m" && out=$$($(GO) list -deps -test -tags=$(TAGS) ./... 2>&1 >/dev/null) || { echo "== $$m: $$out"; exit 1; }) & \
		all="$$all $$!"; \
	done; for p in $$all; do wait $$p || failed=yes; done; wait; [ -z "$$failed" ]

# Some of the examples wait for ten seconds, and so four packages run at once. The cache of go test
# does not notice that a file outside the module has changed, such as README.md or one of docs.
.PHONY: test
test: ## Run the tests of the library and of its examples
	$(call tell,$(call run-each,.,$(GO) test -vet=off ./...); \
		$(call run-each,examples,$(GO) test -vet=off -p=4 $$($(GO) list ./... | grep -vE '/(examples|guides)$$') && $(GO) test -vet=off -count=1 . ./guides); \
		echo "left out: the other modules (make test-all); what needs servers (make integration); what takes long (make nightly)")

# Of TESTED, make test has run the tests. openai-go takes a processor two minutes to build, and so
# make nightly does that.
TESTED ?=

.PHONY: test-all
test-all: ## Run the tests that need no server, in every module
	$(call tell,$(call run-each,$(filter-out $(TESTED),$(MODULES)),$(GO) list ./... >/dev/null && $(GO) list ./... | grep -v '/clients/openai$$' | xargs $(GO) test -vet=off $(SHORT)); \
		echo "left out: what needs servers (make integration); what takes long (make nightly)")

# The tag nightly chooses long seeds, large models and two million calls (see internal/nightly). It
# also adds the tests that build Prometheus and the SDKs of the clouds. What .ci/run tests on one
# release of Go only, this tests on the other. Tables are printed by make sim.
.PHONY: nightly
nightly: TAGS := integration,nightly
nightly: SLOW :=
nightly: SHORT :=
nightly: export GOTOOLCHAIN := $(NEWER_GO)
nightly: lint tidy-check ## Check, test and race what takes too long for every change: over an hour
	$(call each,$(MODULES),$(GO) test -vet=off -count=1 -timeout=1h -tags=nightly -skip=PrintTheTables ./...)
	$(call each,internal/lab,echo ./soak ./sqlstoretest | $(RACE))
	$(call each,examples $(filter contrib/%,$(MODULES)),echo ./... | $(RACE))
	$(call each,.,$(GO) list ./... | GOTOOLCHAIN=local $(RACE))
	$(call each,.,GOTOOLCHAIN=$(OLDER_GO) $(GO) vet ./... && GOTOOLCHAIN=$(OLDER_GO) $(GO) test -vet=off ./...)
	$(call each,.,GOARCH=386 $(GO) vet ./... && GOARCH=386 $(GO) test -vet=off . ./guard)
	$(call each,.,GOOS=windows $(GO) vet ./... && GOOS=darwin GOARCH=arm64 $(GO) vet ./... && GOOS=js GOARCH=wasm $(GO) vet ./...)
	$(call each,. cmd/backoffsim,GOOS=plan9 GOARCH=386 $(GO) build ./... && GOOS=freebsd $(GO) build ./...)
	$(call each,.,$(GO) list ./... | grep -E 'backoff$$|/(backoffhttp|guard|limit|internal/.*)$$' | GOARCH=arm xargs $(GO) test -vet=off -timeout=1h -exec=qemu-arm)
	@$(MAKE) integration
	@$(MAKE) fuzz
	@$(MAKE) release-dry

# It reads the packages. The tests run in random order.
RACE = CGO_ENABLED=1 xargs $(GO) test -vet=off -race $(SHORT) -shuffle=on -count=$(COUNT) -run='$(RUN)' -timeout=1h

.PHONY: race
race: export GOTOOLCHAIN := $(NEWER_GO)
race: ## Run the tests matching RUN under the race detector, COUNT times, on NEWER_GO
	@$(GO) version
	$(call each,$(filter-out $(SLOW),$(MODULES)),$(GO) list ./... | $(RACE))

# Counted from the profile: the total of "go tool cover" is rounded, and reads
# 100.0% with one statement of three thousand missing.
.PHONY: cover
cover: ## Fail if the tests of the root package cover less of it than COVER_MIN
	@$(GO) test -vet=off -coverprofile=cover.out .
	@$(GO) tool cover -func=cover.out | awk '$$NF != "100.0%" || $$1 == "total:"'
	@awk -v min=$(COVER_MIN) ' \
		NR > 1 { all += $$2; if ($$3 > 0) hit += $$2; else print "not covered: " $$1 } \
		END { \
			got = all ? 100 * hit / all : 0; \
			printf "root package: %d of %d statements covered, %.2f %%, want %s %%\n", hit, all, got, min; \
			exit (got < min) \
		}' cover.out

.PHONY: mutants
mutants: ##+ Change PKG in one place at a time, and list what its tests do not notice
	$(GO) run $(GREMLINS) unleash --timeout-coefficient=10 $(PKG)

# With the tag of the tests that run only beside servers: they are checked too.
.PHONY: lint
lint: ## Check the modules with gofmt, go vet and staticcheck; SLOW= checks all of them
	@out=$$($(FIND) -name '*.go' -exec gofmt -l {} +) || exit 1; \
	if [ -n "$$out" ]; then echo "gofmt -w is needed on:"; echo "$$out"; exit 1; fi
	$(call each,$(filter-out $(filter $(UNVETTED),$(SLOW)),$(MODULES)),$(GO) vet -tags=$(TAGS) ./...)
	$(call each,$(filter-out $(SLOW),$(MODULES)),$(GO) run $(STATICCHECK) -tags=$(TAGS) ./...)

# The modules that programs import. Of each the API directory keeps what it exported at the last
# release, in the form of apidiff; changes.txt tells, for reviews, what it does otherwise since.
IMPORTED := . $(filter contrib/%,$(MODULES))
API      := internal/lab/release/api

# $(call apidiff,arguments) runs it in each of these modules; $$path is the module's, $$kept
# the file.
define apidiff
	for m in $(IMPORTED); do ( \
		cd $$m && path=$$($(GO) list -m) && kept=$(CURDIR)/$(API)/$${path##*/}.export && \
		out=$$($(GO) run $(APIDIFF) -m $(1) $$path 2>$(CURDIR)/api.log) || { cat $(CURDIR)/api.log >&2; exit 1; }; \
		out=$$(printf '%s\n' "$$out" | awk '/^(Inc|C)ompatible changes:$$/ { s = /^I/ ? "breaks" : "adds" } /^- / { print s, substr($$0, 3) }' | LC_ALL=C sort -k1,1r -k2); \
		[ -z "$$out" ] || printf '%s\n\n%s\n\n' "$$path" "$$out"; \
	) || exit 1; done
endef

.PHONY: api
api: ## Fail if the exported API has changed, and api/changes.txt does not say so
	@{ $(call apidiff,$$kept) } >api.out
	@diff -u $(API)/changes.txt api.out || { \
		echo "the exported API has changed: if it should, make api-changes, and commit what it writes"; exit 1; }

.PHONY: api-changes
api-changes: ## Write to api/changes.txt how the exported API differs from the last release
	@{ $(call apidiff,$$kept) } >$(API)/changes.txt
	@cat $(API)/changes.txt

.PHONY: api-baseline
api-baseline: ##+ Keep the exported API as that of a release
	@$(call apidiff,-w $$kept)
	@: >$(API)/changes.txt

# It asks vuln.go.dev, whose answer changes without a commit, and so is no part of .ci/run.
.PHONY: vuln
vuln: ##+ Fail if what users build has a known vulnerability; needs the network
	$(call each,$(IMPORTED) $(filter cmd/%,$(MODULES)),$(GO) run $(GOVULNCHECK) ./...)

# Until Go 1.27 a fuzz run could end in a bare "context deadline exceeded" when
# FUZZTIME was over (go.dev/issue/75804). A finding names a failing input or a
# seed, a failure of the test names its line: only a run with neither is let
# through.
.PHONY: fuzz
fuzz: ## Run each fuzz target of the root module for FUZZTIME
	@set -e; n=0; mod=$$($(GO) list -m); pkgs=$$($(GO) list ./...); \
	for pkg in $$pkgs; do \
		dir=.$${pkg#"$$mod"}; \
		for f in $$(cat "$$dir"/*_test.go 2>/dev/null | \
			sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)([A-Za-z_]* \*testing\.F).*/\1/p'); do \
			n=$$((n + 1)); echo "== $$pkg: $$f"; \
			{ $(GO) test -vet=off -run='^$$' -fuzz="^$$f\$$" -fuzztime=$(FUZZTIME) "$$dir" </dev/null 2>&1 || \
				echo "FAILED $$f"; } | tee fuzz.log; \
			if grep -q '^FAILED ' fuzz.log; then \
				grep -q '^    context deadline exceeded$$' fuzz.log || exit 1; \
				if grep -qE 'Failing input written|seed corpus|_test\.go:[0-9]' fuzz.log; then exit 1; fi; \
				echo "$$f: not a finding, see go.dev/issue/75804"; \
			fi; \
		done; \
	done; \
	echo "fuzzed $$n targets for $(FUZZTIME) each"

# In rounds, not with -count: candidates that are compared run side by side. The output stays in
# internal/lab/bench/bench.out, which OLD= of a later run can name.
OLD ?=

.PHONY: bench
bench: ## Run the benchmarks matching BENCH in COUNT rounds, beside those of OLD
	@cd internal/lab/bench && for i in $$(seq $(COUNT)); do \
		$(GO) test -run='^$$' -bench='$(BENCH)' -benchtime=$(BENCHTIME) -timeout=1h .; done >bench.out; \
		status=$$?; $(GO) run $(BENCHSTAT) $(OLD) bench.out && exit $$status

.PHONY: bench-docs
bench-docs: ##+ Write the table of docs/results/benchmarks.md from the last bench
	@cd internal/lab/bench && $(GO) run ./table ../../../docs/results/benchmarks.md <bench.out

.PHONY: speed
speed: ##+ Fail if a call or a program costs too much; needs a quiet machine
	@cd internal/lab/bench && $(GO) test -count=1 -v -run=BesideNetHTTP ./size; \
		size=$$?; $(GO) test -count=1 -v -run=TestSpeed . -speed && exit $$size

.PHONY: house
house: ## Print how large the project is, beside its limits
	@$(GO) run -C internal/lab ./house

.PHONY: sim
sim: ##+ Compare the simulation with its reference at full size: 15 minutes
	cd cmd/backoffsim && $(GO) test -count=1 -timeout=2h -tags=nightly ./sim

# make test-all runs the short ones of its commands, and fails if they do not print and draw what
# is there.
.PHONY: sim-docs
sim-docs: ##+ Run the commands of docs/results/simulation.md and docs/tuning.md, and write both
	cd cmd/backoffsim && $(GO) test -count=1 -timeout=1h -tags=nightly -run=SaysWhatTheProgramDoes . -update

# make field FIELD_CLIENTS=none,hand FIELD_LOADS=80 measures some of the runs. The others stay as
# they were kept. Nothing else should run meanwhile.
FIELD_CLIENTS ?=
FIELD_LOADS   ?= 80,90

.PHONY: field field-page
field: ##+ Measure the dip on real sockets, and write docs/results/field.md: half an hour
	$(GO) run -C internal/lab ./field -clients '$(FIELD_CLIENTS)' -loads '$(FIELD_LOADS)'

field-page: ##+ Write docs/results/field.md from the measurements that are kept
	$(GO) run -C internal/lab ./field -page

# A bar that is missed fails; the page is written all the same. Some worlds, or all worlds of a
# client: make guards WORLDS=TestWorlds/restarts GUARDS_CLIENTS=ours,failfast.
WORLDS         ?= TestWorlds
GUARDS_CLIENTS ?= all

.PHONY: guards guards-page
guards: ##+ Run all clients in all worlds, and write the pages of guards-page: an hour
	@$(GO) test -C internal/lab -count=1 -timeout=3h -run='$(WORLDS)' ./guards -clients '$(GUARDS_CLIENTS)' -update; \
	status=$$?; $(MAKE) guards-page && exit $$status

guards-page: ##+ Write docs/results/guards.md and the tables from the figures that are kept
	$(GO) test -C internal/lab -count=1 -run='TestThe(Page|README|Comparison)' ./guards -update

# It downloads 59 programs and what they import, and runs for an hour. Some of them:
# VET_CORPUS='-only dskit'.
VET_CORPUS ?=

.PHONY: vet-corpus
vet-corpus: ##+ Run backoffvet over real programs, and print its findings beside our verdicts
	@$(GO) test -C cmd/backoffvet ./corpus/real -run=RealPrograms -v -timeout=3h -corpus $(VET_CORPUS)

.PHONY: examples
examples: ## Build every example, and run the quickstart
	$(call each,$(filter examples examples/%,$(MODULES)),$(GO) build -buildvcs=false -o /dev/null ./...)
	$(GO) run -C examples ./quickstart

# A skipped test would pass without its server, and a cached one without asking
# it: the first is refused, the second switched off. They wait more than they compute, so three
# packages run at once, and the longest, that of the browser, is one of the first.
.PHONY: integration
integration: ## Run the tests that need servers (compose.yaml); fails without them
	@if grep -nE '\.Skip(f|Now)?\(' /dev/null $(TAGGED); then \
		echo "an integration test fails without its server, it does not skip"; exit 1; fi
	@printf '%s\n' $(INTEGRATION) | sort -r | xargs -P3 -I{} sh -c 'cd {} && $(GO) test -vet=off -count=1 -parallel=8 -tags=integration .'
	@echo "integration tests run in: $(or $(INTEGRATION),there are none)"

.PHONY: tidy-check
tidy-check: ## Fail if go mod tidy would change a go.mod or go.sum
	$(call each,$(MODULES),$(GO) mod tidy -diff)

# 386 tests the width of int and the alignment of 64-bit atomics, and runs as it is on amd64, if the
# kernel runs programs of 32 bits. The others must compile: backoffhttp for Windows, the root package
# for macOS and wasm. make nightly vets all for each, tests the root package and guard on 386, builds
# for Plan 9 and FreeBSD, and tests on arm. darwin stands for arm64 on Linux, too.
ON_32 := ./hedge/internal/histogram ./hedge/internal/lazyctx ./internal/circuit ./internal/clock \
	./internal/inorder ./internal/limits ./internal/registry ./internal/window

.PHONY: cross
cross: ## Test on 32 bits what depends on them; build for Windows, macOS and wasm
	@echo "== linux/386: go test"; \
	if GOARCH=386 $(GO) test -vet=off -run='^$$' ./internal/limits 2>&1 | grep 'exec format error'; \
	then echo "the kernel runs no programs of 32 bits: build only"; \
	else GOARCH=386 $(GO) test -vet=off $(ON_32); fi
	@GOARCH=386 $(GO) build ./...
	@set -e; for t in windows/amd64/backoffhttp darwin/arm64 js/wasm; do echo "== $$t: go build"; \
		GOOS=$${t%%/*} GOARCH=$$(echo $$t | cut -d/ -f2) $(GO) build -gcflags='all=-N -l -dwarf=false' ./$$(echo $$t | cut -sd/ -f3); \
	done

# Nothing is published: dist/release is a clone with the commits and the tags of the release. VERSION
# is a tag: v0.1.0 releases all modules, and contrib/backoffgrpc/v0.1.1 that one.
.PHONY: release release-dry version-given
version-given:
	@[ -n '$(VERSION)' ] || { echo 'which version? make release VERSION=v0.1.0'; exit 1; }

release: version-given ##+ Check everything, and tag VERSION (v0.1.0) in a clone, dist/release
	@.ci/run
	@$(GO) run -C internal/lab ./release -root ../.. -tag '$(VERSION)' -dir $(CURDIR)/dist/release

# The commits of a dry run have an author, too.
release-dry: export GIT_AUTHOR_NAME := nobody
release-dry: export GIT_AUTHOR_EMAIL := nobody@example.com
release-dry: export GIT_COMMITTER_NAME := nobody
release-dry: export GIT_COMMITTER_EMAIL := nobody@example.com
release-dry: ##+ Release what CHANGELOG.md announces into a temporary clone, and print its notes
	@$(GO) run -C internal/lab ./release -root ../..
