package liveview

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// ErrAddress is what the errors of Listen wrap that another address would prevent.
var ErrAddress = errors.New("the live view cannot listen there")

// Listen listens on a loopback address: "127.0.0.1:6080", "[::1]:6080", "localhost:6080",
// or ":6080" for 127.0.0.1. Port 0 is any free one. Other addresses are refused: what is
// served is a desktop with its mouse and keyboard, in plain HTTP.
//
// An error is one sentence that says which address would do.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not HOST:PORT; try 127.0.0.1:6080", ErrAddress, address)
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("%w: %q is not a port from 0 to 65535; try 127.0.0.1:6080", ErrAddress, port)
	} else if number == 0 {
		port = "0"
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
		return nil, fmt.Errorf("%w: %q is not this machine's loopback, and whoever reaches the port could take the desktop over; "+
			"give 127.0.0.1:%s, and on the other machine run: ssh -L %[3]s:127.0.0.1:%[3]s THIS-MACHINE", ErrAddress, host, port)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: another program listens on %s already; give another port, or 0 for any that is free", ErrAddress, address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%w: port %s is for root alone; give one of 1024 or more", ErrAddress, port)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return l, nil
}

// Serve serves a View on l until ctx ends or l fails, and closes both. When it returns all
// viewers have gone. The error is nil when ctx has ended.
func Serve(ctx context.Context, l net.Listener, v *View) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           v,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      60 * time.Second, // neither holds for a websocket
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(v.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		v.Close() // viewers are told before their connections go
		server.Close()
	}()
	err := server.Serve(l)
	over := ctx.Err() != nil
	cancel()
	<-ended
	if over {
		return nil
	}
	return fmt.Errorf("the live view cannot serve any more: %w", err)
}
