// Package archtest holds the rules of the house in tests: which room may import which,
// as .golangci.yml says, and a few cheap ones for every committed file. It has no code
// of its own.
package archtest
