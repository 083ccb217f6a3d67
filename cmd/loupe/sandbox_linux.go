package main

import (
	"context"
	"strings"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/sandbox"
)

// What the rest of the command takes of desktops, which only Linux has.

// runGuest does the work of a desktop's guest, where this process is one.
func runGuest() { sandbox.RunGuest() }

// applications lists the applications that desktops know.
func applications() string { return strings.Join(sandbox.Apps(), ", ") }

// openDesktopDisplay connects to a desktop. What is returned with its display ends the rest of
// the connection, after the display was closed.
func openDesktopDisplay(ctx context.Context, name string, settling *x11.Options) (*x11.Display, func(), error) {
	desk, err := openDesktop(ctx, name, settling)
	if err != nil {
		return nil, nil, err
	}
	return desk.Display(), func() { _ = desk.Close() }, nil
}

// isolate and limit try what a desktop needs.
func isolate(ctx context.Context) error { return sandbox.CanIsolate(ctx) }
func limit() error                      { return sandbox.CanLimit() }
