package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// closingTime is what requests get to finish when the server ends.
const closingTime = 5 * time.Second

// newServer returns an HTTP server that gives a client that is slow, or does nothing, its time and no more. A handler that
// takes longer has its deadlines extended, by http.ResponseController.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // the head and the body
		WriteTimeout:      time.Minute,      // from the end of the head to that of the answer
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// Listen serves at an address until end is called, which gives requests some seconds to finish. ctx is for the log alone: the
// server goes on while the process stops.
func Listen(ctx context.Context, address string, handler http.Handler, log *slog.Logger) (at net.Addr, end func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	server := newServer(handler)
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "the HTTP server ended", "error", err)
		}
	}()
	log.InfoContext(ctx, "listening", "address", listener.Addr().String())
	return listener.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}, nil
}

// WriteHealth answers a question whether all is well, with 503 where it is not.
func WriteHealth(w http.ResponseWriter, ok bool, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(v) // whoever asked has gone
}
