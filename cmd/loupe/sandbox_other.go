//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/loupe-tools/loupe/computer/x11"
)

var errNoDesktops = errors.New("desktops need Linux: start one there, and act on it there")

// desktopCmd is the verb where there are no desktops.
type desktopCmd struct {
	Arguments []string `arg:"" optional:"" passthrough:"" hidden:""`
}

// Run says that there are none.
func (c *desktopCmd) Run(*environment) error { return errNoDesktops }

func runGuest() {}

func applications() string { return "" }

func openDesktopDisplay(context.Context, string, *x11.Options) (*x11.Display, func(), error) {
	return nil, nil, errNoDesktops
}

func isolate(context.Context) error { return errNoDesktops }
func limit() error                  { return errNoDesktops }
