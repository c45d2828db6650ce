package embedded

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxSocketPath is a length that every system accepts: Linux has room for 107 bytes, macOS for 103.
const maxSocketPath = 100

// socketFile is the name that PostgreSQL gives its socket.
const socketFile = ".s.PGSQL." + port

// socket is the directory of the unix socket: a part of the server's own directory or, when that
// path is too long or has a comma (which separates hosts), one in /tmp. It does not follow TMPDIR:
// every caller has to find it.
func (s *Server) socket() string {
	dir := filepath.Join(s.dir, "socket")
	if len(filepath.Join(dir, socketFile)) <= maxSocketPath && !strings.Contains(dir, ",") {
		return dir
	}
	return fmt.Sprintf("/tmp/prescient-%x", sha256.Sum256([]byte(s.dir)))[:len("/tmp/prescient-")+16]
}

// makeSocketDir makes the directory that keeps other users out. It takes a directory that is there
// only if no other user can have prepared it, as /tmp is shared.
func (s *Server) makeSocketDir() error {
	dir := s.socket()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := s.CheckSocket(); err != nil {
		return err
	}
	if err := os.Lchown(dir, s.user.uid, s.user.gid); err != nil {
		return fmt.Errorf("hand the directory of the socket to user %s: %w", s.user.name, err)
	}
	return nil
}

// CheckSocket returns an error if another user may have put a server of its own in the place of
// this one: the directory of the socket has another owner, or lets others in. Call it before each
// connection to [Server.URL]. A directory that is missing is no error, as there is nothing to
// connect to.
func (s *Server) CheckSocket() error {
	dir := s.socket()
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the directory of the socket: %w", err)
	}
	known := owner(info) == s.user.uid || owner(info) == os.Geteuid()
	if !info.IsDir() || !known || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("check the directory of the socket: %s is %s of user %d, "+
			"not a directory that only user %s may enter, so another user's server may be there; "+
			"remove it and start again", dir, info.Mode(), owner(info), s.user.name)
	}
	return nil
}
