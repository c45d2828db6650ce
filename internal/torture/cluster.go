package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// cluster is the server, which crashes, is replaced by a standby, and runs out of disk.
type cluster struct {
	dir  string // of the servers, one below it for each
	disk *disk  // that dir is on; nil: it cannot be filled

	changing sync.Mutex // held while the server is brought down and up

	number int // of servers that there were

	mu     sync.Mutex
	server *embedded.Server
}

// settings are those of each server. A crash of processes loses nothing that the system was given to write.
func settings(more ...string) map[string]string {
	all := map[string]string{
		"max_connections": "200", "fsync": "off", "max_wal_size": "128MB", "min_wal_size": "32MB",
		"dynamic_shared_memory_type": "mmap", // a killed server leaves no other behind
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func newCluster(ctx context.Context, dir string, small bool) (_ *cluster, err error) {
	c := &cluster{dir: dir}
	if small {
		c.dir = filepath.Join(dir, "disk")
		if c.disk, err = newDisk(c.dir); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.disk.remove())
			}
		}()
	}
	server, err := embedded.Open(embedded.Config{Dir: c.place(), Settings: settings()})
	if err != nil {
		return nil, err
	}
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	return c, c.use(ctx, server)
}

// use makes a server the one that others reach.
func (c *cluster) use(ctx context.Context, server *embedded.Server) error {
	status, err := server.Status(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = server
	next := c.link() + ".next"
	return errors.Join(os.Symlink(status.Socket, next), os.Rename(next, c.link()))
}

// link leads to the directory of the socket.
func (c *cluster) link() string { return filepath.Join(c.dir, "now") }

// place returns the directory of the next server.
func (c *cluster) place() string {
	c.number++
	return filepath.Join(c.dir, "pg"+strconv.Itoa(c.number))
}

func (c *cluster) current() *embedded.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

// socket is the file where the server listens.
func (c *cluster) socket() string { return filepath.Join(c.link(), ".s.PGSQL.5432") }

func (c *cluster) stop() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c.changing.Lock()
	defer c.changing.Unlock()
	err := c.current().Stop(ctx)
	if c.disk != nil {
		err = errors.Join(err, c.disk.remove())
	}
	return err
}

// up starts the server, however often that fails.
func (c *cluster) up(ctx context.Context) bool {
	for range 300 {
		wait(ctx, 100*time.Millisecond)
		if err := c.current().Start(ctx); err == nil {
			return true
		}
	}
	return false
}

// restart ends the server as a crash would, and starts it again.
func (c *cluster) restart(ctx context.Context) bool {
	if !c.changing.TryLock() {
		return false
	}
	defer c.changing.Unlock()
	status, err := c.current().Status(ctx)
	if err != nil || status.PID == 0 || syscall.Kill(status.PID, syscall.SIGQUIT) != nil {
		return false
	}
	return c.up(ctx)
}

// failover kills the server as if its machine had lost power, and promotes a synchronous standby. It reports whether
// the standby has taken over.
func (c *cluster) failover(ctx context.Context, before time.Duration) (bool, error) {
	if !c.changing.TryLock() {
		return false, nil
	}
	defer c.changing.Unlock()
	old := c.current()
	standby, err := c.standby(ctx, old)
	if err != nil || standby == nil {
		return false, err
	}
	wait(ctx, before)
	ctx = context.WithoutCancel(ctx) // an interrupted run leaves no server behind
	if err := errors.Join(pgtest.PowerOff(ctx, old), pgtest.Promote(ctx, standby)); err != nil {
		return false, err
	}
	return true, errors.Join(c.use(ctx, standby), os.RemoveAll(old.Dir()))
}

// standby returns a server that follows the old one, which acknowledges a commit only if the standby has it. It is nil
// if the old one went down meanwhile.
func (c *cluster) standby(ctx context.Context, old *embedded.Server) (*embedded.Server, error) {
	status, err := old.Status(ctx)
	if err != nil || status.PID == 0 {
		return nil, err
	}
	standby, err := embedded.Open(embedded.Config{Dir: c.place(), Settings: settings()})
	if err != nil {
		return nil, err
	}
	if err := pgtest.Follow(ctx, standby, old); err != nil {
		return nil, errors.Join(err, standby.Stop(context.WithoutCancel(ctx)), os.RemoveAll(standby.Dir()))
	}
	return standby, nil
}

// says executes statements, and reports whether the last one returns true.
func says(ctx context.Context, url string, statements ...string) (yes bool) {
	db, err := sqlx.Open("postgres", url)
	if err != nil {
		return false
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		var answer string
		if err := db.GetContext(ctx, &answer, statement); err != nil {
			answer = ""
		}
		yes = answer == "true"
	}
	return yes
}

// disk is a small filesystem of the servers, which can be filled.
type disk struct{ dir string }

const diskSize = "700m"

// newDisk mounts a filesystem in memory. That needs root.
func newDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size="+diskSize); err != nil {
		return nil, fmt.Errorf("mount a small filesystem: %w", err)
	}
	return &disk{dir}, nil
}

func (d *disk) remove() error { return syscall.Unmount(d.dir, syscall.MNT_DETACH) }

// fill leaves no room on the disk for a while. The server may go down, and is started again.
func (c *cluster) fill(ctx context.Context, most time.Duration) (bool, error) {
	if c.disk == nil || !c.changing.TryLock() {
		return false, nil
	}
	defer c.changing.Unlock()
	path := filepath.Join(c.disk.dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		return false, err
	}
	full := time.Now().Add(most)
	var size int64
	for time.Now().Before(full) && ctx.Err() == nil {
		// What the server frees meanwhile is taken too.
		for step := int64(64 << 20); step >= 4096; {
			if err := syscall.Fallocate(int(file.Fd()), 0, size, step); err != nil {
				step /= 2
				continue
			}
			size += step
		}
		wait(ctx, 50*time.Millisecond)
	}
	if err := errors.Join(file.Close(), os.Remove(path)); err != nil {
		return false, err
	}
	return c.up(ctx), nil
}
