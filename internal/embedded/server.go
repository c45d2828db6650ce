package embedded

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"
)

// name is that of the database and of the role that owns it, which is an ordinary one: what a query
// of a check may do ends at the database.
const name = "prescient"

// superuser is the role that made the server.
const superuser = "postgres"

// port is a part of the socket's file name; the server opens no TCP port.
const port = "5432"

// logFile is where the server prints to.
const logFile = "server.log"

// Config says where the server lives. The zero value is the server of the user who asks.
type Config struct {
	// Dir holds the data, the log and the socket; it is made when it is not there. Relative to the
	// working directory. Empty: the directory that the package comment names.
	Dir string

	// Settings are settings as in postgresql.conf, given to the server with each start: they win
	// over that file and over alter system. A server that already runs keeps those it was started
	// with. Nil: none.
	//
	// listen_addresses, port and unix_socket_directories are not to be changed: what is given here
	// for them is ignored.
	Settings map[string]string

	// Cache is a directory for copies of the data of new servers, for tests that make many. A server
	// that has no data yet begins with a copy, which takes a seventh of the CPU time of initdb. Copies
	// of four versions of PostgreSQL are kept, of 40 MB each. A cache that cannot be read or written is
	// no error. Relative to the working directory. Empty: none.
	Cache string
}

// Server is a private PostgreSQL, running or not. Its methods may be used concurrently, by any
// number of processes.
type Server struct {
	dir      string
	settings map[string]string
	cache    string
	user     account
	// globs of the directories that may hold the programs, in groups: the first that has any is preferred
	places [][]string
}

// Open says which server is meant. It reads and starts nothing: a Server that was never started has
// no files.
func Open(cfg Config) (*Server, error) {
	dir := cfg.Dir
	if dir == "" {
		dir = defaultDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("locate the data directory: %w; give an absolute path", err)
	}
	user, err := serverUser(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	return &Server{dir: dir, settings: cfg.Settings, cache: cfg.Cache, user: user, places: places()}, nil
}

// URL is where the running server is reached, for lib/pq as for psql. It has no password, and it
// stays the same over restarts: it depends on the directory alone. Its role owns the database, and
// is no superuser.
func (s *Server) URL() string { return s.urlOf(name) }

// SuperuserURL is URL for who looks after the server itself: its role may do anything, to files of
// the server's user, too.
func (s *Server) SuperuserURL() string { return s.urlOf(superuser) }

func (s *Server) urlOf(role string) string {
	query := url.Values{"host": {s.socket()}, "port": {port}, "sslmode": {"disable"}, "connect_timeout": {"10"}}
	u := url.URL{
		Scheme: "postgres",
		User:   url.User(role),
		Path:   "/" + name,
		// libpq takes a plus sign for a plus sign.
		RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"),
	}
	return u.String()
}

func defaultDir() string {
	if os.Geteuid() == 0 && os.Getenv("XDG_DATA_HOME") == "" {
		return "/var/lib/prescient/postgres"
	}
	return filepath.Join(xdg.DataHome, "prescient", "postgres")
}

// Dir returns the directory that everything of the server is in.
func (s *Server) Dir() string { return s.dir }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) log() string { return filepath.Join(s.dir, logFile) }

// command runs as the server's user, and inherits no variable that could hold a password or change
// the server.
func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = s.user.attributes()
	cmd.WaitDelay = time.Second
	return cmd
}
