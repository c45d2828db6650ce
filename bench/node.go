package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed peers/package.json peers/package-lock.json peers/*.mjs
var nodeFiles embed.FS

// errNoNode is why the peers that need Node.js are left out.
var errNoNode = errors.New("graphile-worker and pg-boss are left out: node and npm are needed, and the packages that npm fetches")

// node is the peers that run on Node.js, installed beside the database.
type node struct {
	dir string
}

// node installs them once. A machine without node or npm gets errNoNode.
func (b *bench) node(ctx context.Context) (*node, error) {
	n := &node{filepath.Join(b.server.dir, "peers")}
	if _, err := os.Stat(filepath.Join(n.dir, "installed")); err == nil {
		return n, nil
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, errNoNode
		}
	}
	files, err := fs.Sub(nodeFiles, "peers")
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(n.dir); err != nil {
		return nil, err
	}
	if err := os.CopyFS(n.dir, files); err != nil {
		return nil, fmt.Errorf("install peers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if _, err := n.output(ctx, nil, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
		if b.toy { // a test runs without a network, too
			return nil, errors.Join(errNoNode, err)
		}
		return nil, fmt.Errorf("install peers: %w", err)
	}
	if err := n.versions(ctx, b.report); err != nil {
		return nil, err
	}
	return n, os.WriteFile(filepath.Join(n.dir, "installed"), nil, 0o600)
}

func (n *node) versions(ctx context.Context, r *report) error {
	version, err := n.output(ctx, nil, "node", "--version")
	if err != nil {
		return err
	}
	r.version("Node.js", strings.TrimPrefix(strings.TrimSpace(string(version)), "v"))
	for _, name := range []string{"graphile-worker", "pg-boss", "pg"} {
		data, err := os.ReadFile(filepath.Join(n.dir, "node_modules", name, "package.json"))
		if err != nil {
			return fmt.Errorf("read the version of a peer: %w", err)
		}
		var about struct{ Version string }
		if err := json.Unmarshal(data, &about); err != nil {
			return fmt.Errorf("read the version of %s: %w", name, err)
		}
		if name == "pg" {
			name = "node-postgres"
		}
		r.version(name, about.Version)
	}
	return nil
}

// output runs a program in the directory of the peers and returns what it prints. It ends with ctx.
func (n *node) output(ctx context.Context, env []string, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := stderr.String()
		return nil, fmt.Errorf("run %s %s: %w; it said: %s", program, args[0], err, said[max(0, len(said)-2000):])
	}
	return stdout.Bytes(), nil
}

// script runs one of the .mjs files against a database; its last line is what it measured.
func (n *node) script(ctx context.Context, d *database, name string, args ...any) (part, error) {
	env, err := d.environment()
	if err != nil {
		return part{}, err
	}
	words := []string{name}
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	out, err := n.output(ctx, env, "node", words...)
	if err != nil {
		return part{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var result struct {
		Rows    int
		Seconds float64
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil {
		return part{}, fmt.Errorf("read what %s printed: %w", name, err)
	}
	return part{result.Rows, time.Duration(result.Seconds * float64(time.Second))}, nil
}

// environment says where the database is, as libpq and node-postgres understand it.
func (d *database) environment() ([]string, error) {
	u, err := url.Parse(d.url)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of the database: %w", err)
	}
	q := u.Query()
	return []string{
		"PGHOST=" + q.Get("host"), "PGPORT=" + q.Get("port"), "PGUSER=" + u.User.Username(), "PGDATABASE=" + d.name,
		"NODE_ENV=production",
	}, nil
}

const (
	graphileKeeps = "keeps no history"
	pgBossKeeps   = "keeps finished rows, in the same table"
)

// graphile is a database with graphile-worker's schema.
type graphile struct {
	*database
	node *node
}

func (s *server) graphile(ctx context.Context, n *node, name string) (*graphile, error) {
	d, err := s.database(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := n.script(ctx, d, "graphile.mjs", "setup"); err != nil {
		d.drop(ctx)
		return nil, fmt.Errorf("set up graphile-worker: %w", err)
	}
	return &graphile{d, n}, nil
}

// fill empties the table and adds due jobs.
func (g *graphile) fill(ctx context.Context, rows int) error {
	if err := g.exec(ctx, "truncate graphile_worker._private_jobs"); err != nil {
		return err
	}
	if err := g.add(ctx, rows); err != nil {
		return err
	}
	return g.exec(ctx, "vacuum graphile_worker._private_jobs")
}

// add adds due jobs and tells the planner, without which it chooses a plan that is many times slower.
func (g *graphile) add(ctx context.Context, rows int) error {
	const batch = 10_000
	for from := 0; from < rows; from += batch {
		_, err := g.db.ExecContext(ctx, fmt.Sprintf(`
			select count(*)
			from graphile_worker.add_jobs(array(
				select json_populate_record(null::graphile_worker.job_spec, json_build_object('identifier', '%s', 'payload', (%s)::json))
				from generate_series($1::bigint, $2::bigint) as i
			))`, jobName, payload), 1_000_000_001+from, 1_000_000_000+min(from+batch, rows))
		if err != nil {
			return fmt.Errorf("add jobs: %w", err)
		}
	}
	return g.exec(ctx, "analyze graphile_worker._private_jobs")
}

func (g *graphile) work(ctx context.Context, rows, processes int) (part, error) {
	p, err := g.node.script(ctx, g.database, "graphile.mjs", "work", rows, processes)
	if err != nil {
		return p, fmt.Errorf("work with graphile-worker: %w", err)
	}
	return p, g.expect(ctx, 0, "select count(*) from graphile_worker._private_jobs")
}

// pgBoss is a database with pg-boss's schema.
type pgBoss struct {
	*database
	node *node
}

func (s *server) pgBoss(ctx context.Context, n *node, name string) (*pgBoss, error) {
	d, err := s.database(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := n.script(ctx, d, "pgboss.mjs", "setup"); err != nil {
		d.drop(ctx)
		return nil, fmt.Errorf("set up pg-boss: %w", err)
	}
	return &pgBoss{d, n}, nil
}

func (g *pgBoss) fill(ctx context.Context, rows int) error {
	if err := g.exec(ctx, "truncate pgboss.job"); err != nil {
		return err
	}
	if _, err := g.node.script(ctx, g.database, "pgboss.mjs", "fill", rows); err != nil {
		return err
	}
	return g.exec(ctx, "vacuum (analyze) pgboss.job")
}

func (g *pgBoss) work(ctx context.Context, rows, loops, batch int) (part, error) {
	p, err := g.node.script(ctx, g.database, "pgboss.mjs", "work", rows, loops, batch)
	if err != nil {
		return p, fmt.Errorf("work with pg-boss: %w", err)
	}
	return p, g.expect(ctx, rows, "select count(*) from pgboss.job where state = 'completed'")
}
