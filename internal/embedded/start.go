package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// errOrphans is a start that failed because processes of a killed server have not ended yet.
var errOrphans = errors.New("processes of the server's last run are still there")

// errEnded is returned for a server that another process stopped while it was starting.
var errEnded = errors.New("it was stopped meanwhile; start it again")

// Start creates the database if it is missing, starts the server if it does not run, and returns
// when the server accepts connections. Any number of processes may do so at once. When ctx ends first the
// server goes on starting: call again.
//
// The errors ErrNoBinaries and ErrVersion are for a person to resolve; any other has the end of the
// server's log.
func (s *Server) Start(ctx context.Context) error {
	if err := s.makeDir(ctx); err != nil {
		return err
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	pid, err := s.pid(ctx)
	if err != nil {
		return err
	}
	if pid != 0 {
		return s.await(ctx, nil)
	}
	in, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	return s.launchPatiently(ctx, in)
}

// prepare brings everything in order that a stopped server needs to start.
func (s *Server) prepare(ctx context.Context) (install, error) {
	major, err := s.dataVersion()
	if err != nil {
		return install{}, err
	}
	in, err := s.install(ctx, major)
	if err != nil {
		return install{}, err
	}
	if major == 0 {
		if err := s.initialise(ctx, in); err != nil {
			return install{}, err
		}
	}
	if err := s.makeSocketDir(); err != nil {
		return install{}, err
	}
	return in, s.removeStale()
}

// launchPatiently gives the processes of a server that was killed 30 s to notice.
func (s *Server) launchPatiently(ctx context.Context, in install) error {
	for range 150 {
		err := s.launch(ctx, in)
		if !errors.Is(err, errOrphans) {
			return err
		}
		if !elapsed.Sleep(ctx, 200*time.Millisecond) {
			return fmt.Errorf("wait until %w: %w", errOrphans, context.Cause(ctx))
		}
	}
	return s.launch(ctx, in)
}

func (s *Server) launch(ctx context.Context, in install) error {
	log, err := s.open(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	info, err := log.Stat()
	if err != nil {
		return fmt.Errorf("read the server's log: %w", err)
	}
	cmd := s.command(context.WithoutCancel(ctx), in.program("postgres"), s.arguments()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL %v: %w", in, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	if err := s.await(ctx, exited); err != nil {
		return s.explain(err, in, info.Size())
	}
	return nil
}

// arguments are the defaults that must hold, after the caller's settings: the last one wins.
func (s *Server) arguments() []string {
	args := []string{"-D", s.data()}
	for _, key := range slices.Sorted(maps.Keys(s.settings)) {
		args = append(args, "-c", key+"="+s.settings[key])
	}
	return append(args,
		"-c", "listen_addresses=",
		"-c", "port="+port,
		"-c", "unix_socket_directories="+s.socket(),
		"-c", "unix_socket_permissions=0700")
}

// await returns when the server accepts connections, or cannot any more. A nil exited means that it
// is not our child.
func (s *Server) await(ctx context.Context, exited <-chan error) error {
	for {
		_, err := s.version(ctx)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*pq.Error](err); ok && refused.Code != pqerror.CannotConnectNow {
			return fmt.Errorf("connect to the embedded PostgreSQL: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the embedded PostgreSQL accepts connections: %w; it goes on starting, see %s",
				context.Cause(ctx), s.log())
		case err := <-exited:
			return fmt.Errorf("run the server: %w", cmp.Or(err, errEnded))
		case <-time.After(20 * time.Millisecond):
		}
		if exited != nil {
			continue
		}
		if pid, err := s.pid(ctx); err != nil || pid == 0 {
			return fmt.Errorf("wait until the embedded PostgreSQL accepts connections: %w", cmp.Or(err, errEnded))
		}
	}
}

// explain adds what the server has written to its log since it was started.
func (s *Server) explain(err error, in install, from int64) error {
	content, readErr := os.ReadFile(s.log())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	tail := lastLines(string(content[min(from, int64(len(content))):]))
	if strings.Contains(tail, "pre-existing shared memory block") {
		err = fmt.Errorf("%w: %w", errOrphans, err)
	}
	return fmt.Errorf("start PostgreSQL %v: %w; the end of %s:\n%s", in, err, s.log(), tail)
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
