package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	pgsql "github.com/prescient-go/prescient/sql"
)

// citusVariable names a database of the coordinator of a Citus cluster, which knows all workers.
const citusVariable = "PRESCIENT_TEST_CITUS_URL"

// citusSettings are the settings that docs/citus.md asks for, on each node.
var citusSettings = []string{
	"citus.enable_schema_based_sharding = on",
	"citus.allow_nested_distributed_execution = on",
}

// OnCitus tells whether the databases of the tests are those of a Citus cluster, where each schema
// lives on one worker.
func OnCitus() bool { return os.Getenv(citusVariable) != "" }

// NotOnCitus skips a test that has no meaning on Citus, and logs the reason.
func NotOnCitus(t testing.TB, reason string) {
	t.Helper()
	if OnCitus() {
		t.Skip("not on Citus: " + reason)
	}
}

// CreateSchema is the SQL that makes a schema whose tables may have triggers: on Citus, they are
// local to the coordinator.
func CreateSchema(name string) string {
	create := "create schema " + name
	if OnCitus() {
		return "select set_config('citus.enable_schema_based_sharding', 'off', true); " + create
	}
	return create
}

// addWorkers makes each database of the tests a database of the whole cluster, with the same name
// on each node.
func (s *server) addWorkers(ctx context.Context) error {
	var workers []struct {
		Host string `db:"nodename"`
		Port int    `db:"nodeport"`
	}
	const query = `select nodename, nodeport from pg_dist_node where groupid <> 0 and isactive order by nodeid`
	if err := s.nodes[0].admin.SelectContext(ctx, &workers, query); err != nil {
		return fmt.Errorf("find the workers of %s, a database with the extension citus: %w", citusVariable, err)
	}
	if len(workers) == 0 {
		return fmt.Errorf("the database of %s knows no worker: select citus_add_node(host, port)", citusVariable)
	}
	for _, w := range workers {
		at := s.nodes[0].url
		at.Host = net.JoinHostPort(w.Host, strconv.Itoa(w.Port))
		if err := s.addNode(ctx, at); err != nil {
			return err
		}
	}
	name, err := s.create(ctx, "template0")
	if err != nil {
		return err
	}
	s.empty = name
	return errors.Join(s.assemble(ctx, name), s.freeze(ctx, name))
}

// assemble makes the databases of a name know each other. Copies of them do, too.
func (s *server) assemble(ctx context.Context, name string) error {
	var commands strings.Builder
	for i, n := range s.nodes {
		if err := execAt(ctx, n.urlOf(name), "create extension citus"); err != nil {
			return err
		}
		function := "citus_add_node"
		if i == 0 {
			function = "citus_set_coordinator_host"
		}
		fmt.Fprintf(&commands, "select %s('%s', %s);", function, n.url.Hostname(), n.url.Port())
	}
	return execAt(ctx, s.nodes[0].urlOf(name), commands.String())
}

// freeze forbids connections to a template. The maintenance daemon of Citus would connect, and a
// database in use cannot be copied.
func (s *server) freeze(ctx context.Context, name string) error {
	return s.everywhere(ctx,
		"alter database "+name+" with allow_connections false",
		"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '"+name+"'",
	)
}

func execAt(ctx context.Context, url, commands string) error {
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, commands)
	return errors.Join(err, db.Close())
}
