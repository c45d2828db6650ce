package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const poolerConfig = `[databases]
* = host=%s port=5432 user=prescient
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
server_reset_query_always = 0
default_pool_size = 40
max_client_conn = 1000
`

// pooler is PgBouncer in transaction mode, which is killed and started again.
type pooler struct {
	dir   string
	start func() (*exec.Cmd, error)

	mu      sync.Mutex
	process *exec.Cmd
	over    bool
}

// newPooler starts PgBouncer between the proxies and the server.
func newPooler(dir, socket string) (*pooler, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t)
	p := &pooler{dir: filepath.Join(dir, "pooler")}
	config := filepath.Join(p.dir, "pgbouncer.ini")
	err = errors.Join(
		os.MkdirAll(p.dir, 0o755),
		os.WriteFile(config, fmt.Appendf(nil, poolerConfig, filepath.Dir(socket), p.dir), 0o644),
		os.Chown(p.dir, int(owner.Uid), int(owner.Gid)),
	)
	if err != nil {
		return nil, err
	}
	p.start = func() (*exec.Cmd, error) {
		c := exec.Command(program, "-q", config) //nolint:noctx // killed by stop
		c.Dir, c.SysProcAttr = "/", attributes()
		if os.Geteuid() == 0 { // PgBouncer does not run as root
			c.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
		}
		return c, c.Start()
	}
	p.process, err = p.start()
	if err != nil {
		return nil, err
	}
	go p.keepUp()
	return p, nil
}

// keepUp starts the pooler again when it has ended, as a service manager does.
func (p *pooler) keepUp() {
	for {
		p.mu.Lock()
		running := p.process
		p.mu.Unlock()
		_ = running.Wait()
		time.Sleep(100 * time.Millisecond)
		p.mu.Lock()
		if p.over {
			p.mu.Unlock()
			return
		}
		if next, err := p.start(); err == nil {
			p.process = next
		}
		p.mu.Unlock()
	}
}

func (p *pooler) socket() string { return filepath.Join(p.dir, ".s.PGSQL.5432") }

func (p *pooler) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Process.Kill() == nil
}

func (p *pooler) stop() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.kill()
}
