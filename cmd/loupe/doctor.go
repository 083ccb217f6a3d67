package main

import (
	"context"
	"fmt"

	"github.com/loupe-tools/loupe/computer/x11"
	"github.com/loupe-tools/loupe/internal/doctor"
	"github.com/loupe-tools/loupe/picture"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"Print one JSON object: findings, ok."`
}

// Run prints what there is and what is missing. It fails when something is missing
// without which no question can be answered.
func (c *doctorCmd) Run(env *environment) error {
	system := doctor.System(doctor.Program{
		JPEG: picture.JPEGAvailable, Display: lookAtDisplay, Isolate: isolate, Limit: limit,
	})
	system.Getenv = env.getenv
	findings := doctor.Check(env.ctx, system)
	ok := doctor.OK(findings)
	var err error
	if c.JSON {
		err = env.printJSON(struct {
			Findings []doctor.Finding `json:"findings"`
			OK       bool             `json:"ok"`
		}{findings, ok})
	} else {
		err = doctor.Write(env.stdout, findings)
	}
	if err == nil && !ok {
		err = errReported
	}
	return err
}

// lookAtDisplay connects to the display that act would use.
func lookAtDisplay(ctx context.Context) (size string, lacks []string, err error) {
	display, err := x11.Open(ctx, "", nil)
	if err != nil {
		return "", nil, err
	}
	defer display.Close() //nolint:contextcheck // it must work after the context has ended
	at, err := display.Size(ctx)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%dx%d", at.X, at.Y), display.Missing(), nil
}
