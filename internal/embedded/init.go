package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// defaults become a part of postgresql.conf, where the owner may change them.
const defaults = `
# prescient: a small server of its own
max_wal_size = 2GB
wal_compression = %s
log_checkpoints = off
`

// dataVersion is the major version that made the data, 0 when there is none yet.
func (s *Server) dataVersion() (int, error) {
	if _, err := os.Stat(s.data()); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	content, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("read the version of the data: %w; run as the user who owns it", err)
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the data: %w; %s is no PostgreSQL data directory, "+
			"move it away or restore it from a backup", err, s.data())
	}
	major, _, _ := strings.Cut(strings.TrimSpace(string(content)), ".")
	version, err := strconv.Atoi(major)
	if err != nil {
		return 0, fmt.Errorf("read the version of the data: %w; %s is damaged, restore it from a backup", err, s.data())
	}
	return version, nil
}

// initialise makes the data beside its place and moves it there when it is whole: a crash leaves
// nothing half done.
func (s *Server) initialise(ctx context.Context, in install) error {
	dir := s.data() + ".new"
	if err := s.emptyDir(dir); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	args := []string{
		"--username", superuser, "--encoding", "UTF8", "--locale", "C", "--data-checksums",
		"--auth-local", "trust", "--auth-host", "reject", "--no-instructions",
	}
	if s.settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	entry := s.entry(in, append(args, roleAndDatabase, defaults)...)
	if s.restore(entry, dir) {
		return s.moveInPlace(dir)
	}
	if err := s.emptyDir(dir); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := s.fill(ctx, in, dir, args); err != nil {
		return err
	}
	keep(entry, dir)
	return s.moveInPlace(dir)
}

// roleAndDatabase has a statement in each line.
const roleAndDatabase = "create role " + name + " login in role pg_read_all_stats\n" +
	"create database " + name + " owner " + name + "\n"

// fill makes the data of a server in an empty directory.
func (s *Server) fill(ctx context.Context, in install, dir string, args []string) error {
	if err := run(s.command(ctx, in.program("initdb"), append([]string{"-D", dir}, args...)...)); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	single := []string{"--single", "-D", dir, "-c", "exit_on_error=on", "-c", "listen_addresses="}
	if s.settings["fsync"] == "off" {
		single = append(single, "-F")
	}
	create := s.command(ctx, in.program("postgres"), append(single, "postgres")...)
	create.Stdin = strings.NewReader(roleAndDatabase)
	if err := run(create); err != nil {
		return fmt.Errorf("create the database %s: %w", name, err)
	}
	if err := s.configure(ctx, in, dir); err != nil {
		return fmt.Errorf("write postgresql.conf: %w", err)
	}
	return nil
}

func (s *Server) emptyDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Lchown(dir, s.user.uid, s.user.gid)
}

// configure asks the server itself whether it was built with lz4.
func (s *Server) configure(ctx context.Context, in install, dir string) error {
	compression := "lz4"
	probe := s.command(ctx, in.program("postgres"), "-D", dir, "-C", "wal_compression", "-c", "wal_compression=lz4")
	if probe.Run() != nil {
		compression = "on"
	}
	root, err := os.OpenRoot(dir) // follows no link out of a directory that is not root's
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	file, err := root.OpenFile("postgresql.conf", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, defaults, compression)
	return errors.Join(err, file.Sync(), file.Close())
}

func (s *Server) moveInPlace(dir string) error {
	if err := os.Rename(dir, s.data()); err != nil {
		return fmt.Errorf("move the data directory in place: %w", err)
	}
	parent, err := os.Open(s.dir)
	if err != nil {
		return fmt.Errorf("sync the data directory: %w", err)
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// run adds what the program said to its error.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w; it said:\n%s", filepath.Base(cmd.Path), err, lastLines(string(out)))
	}
	return nil
}
