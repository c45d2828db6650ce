package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/prescient-go/prescient/internal/trust"
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
			file + " does not exist", fmt.Sprintf("write it elsewhere, and install it: %s%s %s %s",
				making(filepath.Dir(file)), installing(u), filepath.Base(file), file),
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
	mend := cmp.Or(trust.WithRoot(u, file), fmt.Sprintf("chown %s %s && chmod 0600 %[2]s", name, file))
	return &Refusal{
		fmt.Sprintf("user %s cannot read %s (%s)", name, file, info.Mode()),
		mend + "  -- or put it there with " + installing(u),
	}
}

// making returns a command that makes a directory, and what joins the next one to it. It is empty if there is one.
func making(dir string) string {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "install -d -m 0755 " + dir + " && "
	}
	return ""
}

// installing begins the command that puts a file in a place where the user reads and trusts it, and root as well if the
// user has a private group.
func installing(u *user.User) string {
	if group := trust.PrivateGroup(u); group != "" {
		return "install -o root -g " + group + " -m 0640"
	}
	return "install -o " + u.Username + " -m 0600"
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
