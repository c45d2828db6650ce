package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is the user that the server runs as.
type account struct {
	name     string
	uid, gid int
}

// serverUser returns the caller. For root it returns the owner of the data, or else the user
// postgres or nobody.
func serverUser(data string) (account, error) {
	if os.Geteuid() != 0 {
		return account{strconv.Itoa(os.Geteuid()), os.Geteuid(), os.Getegid()}, nil
	}
	if info, err := os.Stat(data); err == nil && owner(info) != 0 {
		uid := owner(info)
		return account{strconv.Itoa(uid), uid, int(info.Sys().(*syscall.Stat_t).Gid)}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		return account{name, uid, gid}, errors.Join(uidErr, gidErr)
	}
	return account{}, errors.New("find a user to run PostgreSQL: there is neither postgres nor nobody, " +
		"and it does not run as root; run this as another user, or set database.url")
}

// attributes make a child process run as the account. Only root has to change for that.
func (a account) attributes() *syscall.SysProcAttr {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
}

// makeDir makes the directory that holds everything. Root keeps it, open to be passed through, so
// that the server's user can replace nothing that root writes there.
func (s *Server) makeDir(ctx context.Context) error {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := os.MkdirAll(s.dir, mode); err != nil {
		return fmt.Errorf("make the directory of the embedded PostgreSQL: %w; "+
			"set XDG_DATA_HOME to a directory that can be written, or database.url to a server", err)
	}
	return s.checkReach(ctx)
}

// checkReach asks the server's user itself whether it gets to the directory: mode bits are not the
// whole truth.
func (s *Server) checkReach(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	steps := []string{"-c", `for d; do test -x "$d" || { printf %s "$d"; exit 1; }; done`, "sh"}
	for dir := s.dir; dir != "/"; dir = filepath.Dir(dir) {
		steps = slices.Insert(steps, 3, dir)
	}
	cmd := s.command(ctx, "/bin/sh", steps...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		return fmt.Errorf("become user %s, which runs PostgreSQL for root: %w; run this as another user", s.user.name, err)
	}
	if closed := strings.TrimSpace(string(out)); err != nil {
		return fmt.Errorf("reach %s as user %s, which runs PostgreSQL for root: %s is closed to it (%w); "+
			"open it with: chmod o+x '%s', or set XDG_DATA_HOME to another directory", s.dir, s.user.name, closed, err, closed)
	}
	return nil
}

func owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
