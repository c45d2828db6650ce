package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Refusal says why a user cannot read a file, and what to do about it.
type Refusal struct{ What, Do string }

// CheckAccess returns why a user of this machine cannot read a file, or nil. It goes by the modes of the file and of
// its directories. It returns nil if the caller cannot see these.
func CheckAccess(name, file string) *Refusal {
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return &Refusal{
			fmt.Sprintf("there is no user %s on this machine", name),
			"make the user, such as with useradd --system " + name + ", or name another one",
		}
	}
	if err != nil || u.Uid == "0" {
		return nil
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return nil
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Refusal{
			file + " does not exist",
			fmt.Sprintf("write it elsewhere, and install it: install -o %s -m 0600 %s %s", name, filepath.Base(file), file),
		}
	}
	if err != nil {
		return nil
	}
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if of, err := os.Stat(dir); err == nil && !may(u.Uid, groups, of, 1) {
			return &Refusal{
				fmt.Sprintf("user %s cannot read %s, because it may not enter %s", name, file, dir),
				"chmod o+x " + dir + "  -- or put the file elsewhere",
			}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if may(u.Uid, groups, info, 4) {
		return nil
	}
	return &Refusal{
		fmt.Sprintf("user %s cannot read %s (%s)", name, file, info.Mode()),
		fmt.Sprintf("chown %s %s && chmod 0600 %[2]s  -- or put it there with install -o %[1]s -m 0600", name, file),
	}
}

// may reports whether the mode of a file gives a right (4: read, 1: enter) to a user with groups.
func may(uid string, groups []string, info fs.FileInfo, right fs.FileMode) bool {
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	mode := info.Mode().Perm()
	switch {
	case uid == strconv.FormatUint(uint64(of.Uid), 10):
		return mode>>6&right != 0
	case slices.Contains(groups, strconv.FormatUint(uint64(of.Gid), 10)):
		return mode>>3&right != 0
	}
	return mode&right != 0
}
