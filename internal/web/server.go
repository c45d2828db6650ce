package web

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

// closingTime is how long requests may take to finish when the server ends.
const closingTime = 5 * time.Second

// newServer returns an HTTP server with limits for slow and idle clients. A handler that takes
// longer extends its deadlines by http.ResponseController.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // for the head and the body
		WriteTimeout:      time.Minute,      // from the end of the request's head to the end of the answer
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// Listen serves at an address until end is called, which gives requests some seconds to finish. ctx
// is only for the log: the server goes on while the process stops.
func Listen(
	ctx context.Context, address string, handler http.Handler, log *slog.Logger,
) (at net.Addr, end func(), err error) {
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
	log.InfoContext(ctx, "listening", "address", listener.Addr().String(), "url", localURL(listener.Addr()))
	return listener.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}, nil
}

// localURL returns the URL of a server for a browser on this machine.
func localURL(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() || host == "127.0.0.1" {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port)) + "/"
}

// WriteHealth writes v, with status 503 unless ok.
func WriteHealth(w http.ResponseWriter, ok bool, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has gone
}
