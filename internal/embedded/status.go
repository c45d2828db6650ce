package embedded

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/lib/pq"
)

// Status is the state of a server at one moment.
type Status struct {
	Running bool `json:"running"` // it accepts connections
	PID     int  `json:"pid"`     // of its main process; 0 when there is none. Set but not Running: starting or stopping
	// Version is that of the running server, as 15.13; of the data, as 15, when stopped; empty when there is no data.
	Version string `json:"version"`
	Data    string `json:"data"`   // the data directory
	Socket  string `json:"socket"` // the directory of the unix socket
	Log     string `json:"log"`    // the file that the server writes to
}

// Status looks at the server. It changes nothing, and a server that does not run is not an error.
func (s *Server) Status(ctx context.Context) (Status, error) {
	status := Status{Data: s.data(), Socket: s.socket(), Log: s.log()}
	major, err := s.dataVersion()
	if err != nil || major == 0 {
		return status, err
	}
	status.Version = strconv.Itoa(major)
	status.PID, err = s.pid(ctx)
	if err != nil || status.PID == 0 {
		return status, err
	}
	if version, err := s.version(ctx); err == nil {
		status.Running, status.Version = true, version
	}
	return status, nil
}

// String is a line for each field, aligned.
func (s Status) String() string {
	var text strings.Builder
	line := func(label, value string) { fmt.Fprintf(&text, "%-8s %s\n", label, value) }
	line("state", s.state())
	if s.PID != 0 {
		line("pid", strconv.Itoa(s.PID))
	}
	if s.Version != "" {
		line("version", s.Version)
	}
	line("data", s.Data)
	line("socket", s.Socket)
	line("log", s.Log)
	return strings.TrimSuffix(text.String(), "\n")
}

func (s Status) state() string {
	switch {
	case s.Running:
		return "running"
	case s.PID != 0:
		return "starting or stopping"
	case s.Version != "":
		return "stopped"
	default:
		return "not made yet"
	}
}

// version asks the server, which proves that the URL works, too.
func (s *Server) version(ctx context.Context) (string, error) {
	if err := s.CheckSocket(); err != nil {
		return "", err
	}
	connector, err := pq.NewConnector(s.URL())
	if err != nil {
		return "", fmt.Errorf("connect to the embedded PostgreSQL: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	var version string
	if err := db.QueryRowContext(ctx,
		"select split_part(current_setting('server_version'), ' ', 1)").Scan(&version); err != nil {
		return "", fmt.Errorf("ask the server for its version: %w", err)
	}
	return version, nil
}
