# The one list of tasks. `make help` prints it.

# Version stamping is off, because it fails in a checkout that belongs to another user.
export GOFLAGS := -buildvcs=false

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

FUZZTIME ?= 30s   # how long each fuzz target runs
BENCH    ?= .     # which benchmarks run, a regular expression
BENCHARGS ?=      # more arguments for the reader's benchmark

.PHONY: help setup build demo demo-computer demo-desktop test check bench bench-reader bench-computer bench-desktop fuzz lint fmt update clean
.NOTPARALLEL:

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the Debian packages that are missing (as root, or with sudo)
	@scripts/setup test

build: ## build bin/loupe
	@scripts/setup build
	go build -o bin/loupe ./cmd/loupe

demo: ## draw a dense chart, ask it a question, print each zoom and the answer
	@scripts/setup build demo
	@go build -o bin/loupe ./cmd/loupe
	@scripts/demo

demo-computer: ## type into a terminal on a display of its own, and keep the screenshot
	@scripts/setup build display
	@go build -o bin/loupe ./cmd/loupe
	@scripts/demo-computer

demo-desktop: ## start an isolated desktop, write a file in its editor, copy it out, keep the screenshot
	@scripts/setup build desktop
	@go build -o bin/loupe ./cmd/loupe
	@scripts/demo-desktop

test: setup check ## the whole test suite: formatting, vet, builds without cgo and for another system, tests with the race detector
	CGO_ENABLED=0 go build ./...
	GOOS=darwin CGO_ENABLED=0 go build -o /dev/null ./cmd/loupe
	go test -race -timeout 15m ./...

check: # the cheap checks that come before the tests
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { \
		printf 'These files are not formatted; run "make fmt":\n%s\n' "$$unformatted" >&2; exit 1; }
	go vet -race ./... # with -race it shares what it compiles with the tests

bench: ## measure speed; BENCH=regexp chooses
	@scripts/setup test
	go test -run '^$$' -bench '$(strip $(BENCH))' -benchmem ./...

bench-reader: ## how many of 50 charts the built-in reader gets right, with zoom and without
	@scripts/setup build demo
	go run ./reader/bench $(BENCHARGS)

bench-computer: ## how fast the computer toolset acts, beside xdotool and scrot
	@scripts/setup build display
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m ./computer/bench

bench-desktop: ## how fast isolated desktops and their applications start and end, and their memory
	@scripts/setup test
	go test -run '^$$' -bench . -benchtime 1x -timeout 15m ./sandbox/bench

fuzz: ## run each fuzz target for FUZZTIME (30s)
	@scripts/setup test
	@scripts/fuzz $(strip $(FUZZTIME))

lint: ## golangci-lint, pinned; the first run compiles it
	@scripts/setup build
	go run $(GOLANGCI_LINT) run ./...

fmt: ## format the Go files
	gofmt -w .

update: ## rewrite the golden files of the tests
	@scripts/setup test
	@scripts/update

clean: ## remove what was built
	rm -rf bin out
