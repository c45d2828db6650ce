// Package trust tells whether only the user who runs the process, or root, can have written a file.
//
// A command obeys some files: a configuration file names the server that gets the password, and a
// spool's executables run. Such a file is trusted under one rule:
//
//   - The user who runs the process owns the file, or root does. The same goes for a symbolic link at its path.
//   - Others may not write to it. Its group may not either, unless the number of the group is the number of the owner.
//     Most distributions number the private group of a user like that, and let it write to each new file (umask 002).
//
// The rule for a directory is the same. The sticky bit changes nothing, since others may add files
// to a sticky directory.
package trust

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/prescient-go/prescient/internal/spoken"
)

// Error says why a file is not trusted.
type Error struct {
	Path string
	// Why names the owner or the mode, and who may have written the file.
	Why string
	// Do is the command that makes the file trusted.
	Do string
}

// Error does not name the path: the caller's own message does.
func (e *Error) Error() string {
	return fmt.Sprintf("%s; if its content is right, trust it by: %s", e.Why, e.Do)
}

// File checks the file or directory at path. It returns an *Error if the file is not trusted, and
// an *fs.PathError if it cannot be looked at.
func File(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return withLink(path, info)
}

// ReadFile checks a file as File does and returns its content. The content is that of the file that
// was checked, even when another one replaces it meanwhile.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := withLink(path, info); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// Info checks a file whose information the caller has already read, such as an entry of a
// directory. It judges a symbolic link by the link's owner alone.
func Info(path string, info fs.FileInfo) error { return judge(path, info, os.Geteuid()) }

func withLink(path string, info fs.FileInfo) error {
	link, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if link.Mode()&fs.ModeSymlink != 0 {
		if err := Info(path, link); err != nil {
			return err
		}
	}
	return Info(path, info)
}

// judge applies the rule for a process of the user uid.
func judge(path string, info fs.FileInfo, uid int) error {
	stat := info.Sys().(*syscall.Stat_t)
	owner, group, perm := int(stat.Uid), int(stat.Gid), info.Mode().Perm()
	file, chown := "it", "chown "
	if info.Mode()&fs.ModeSymlink != 0 {
		file, chown, perm = "the symbolic link", "chown -h ", 0
	}
	var why, do []string
	if owner != uid && owner != 0 {
		why = append(why, fmt.Sprintf("%s belongs to %s, and %s runs this", file, userName(owner), userName(uid)))
		mend := chown + strconv.Itoa(uid) + " " + spoken.Word(path)
		if of, err := user.LookupId(strconv.Itoa(owner)); err == nil && uid == 0 && info.Mode()&^0o666 == 0 {
			mend = cmp.Or(WithRoot(of, path), mend)
		}
		do = append(do, mend)
	}
	writers := ""
	switch groupWrites := perm&0o020 != 0 && group != owner; {
	case perm&0o002 != 0:
		writers = "every user"
	case groupWrites:
		writers = "group " + groupName(group)
	}
	if writers != "" {
		why = append(why, fmt.Sprintf("%s may write to it (mode %04o)", writers, perm))
		do = append(do, "chmod go-w "+spoken.Word(path))
	}
	if len(why) == 0 {
		return nil
	}
	return &Error{Path: path, Why: strings.Join(why, ", and "), Do: strings.Join(do, " && ")}
}

// WithRoot returns the command that makes both root and a user read and trust a file. It is empty if the user has no
// private group: other users would then read the file, too.
func WithRoot(u *user.User, path string) string {
	group := PrivateGroup(u)
	if group == "" {
		return ""
	}
	return fmt.Sprintf("chown root:%s %s && chmod 0640 %[2]s", group, spoken.Word(path))
}

// PrivateGroup returns the name of the group of a user if it has the user's number or name, otherwise none.
func PrivateGroup(u *user.User) string {
	group, err := user.LookupGroupId(u.Gid)
	if err != nil || u.Gid != u.Uid && group.Name != u.Username {
		return ""
	}
	return group.Name
}

func userName(uid int) string {
	if found, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("%s (uid %d)", found.Username, uid)
	}
	return fmt.Sprintf("uid %d", uid)
}

func groupName(gid int) string {
	if found, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil {
		return fmt.Sprintf("%s (gid %d)", found.Name, gid)
	}
	return fmt.Sprintf("gid %d", gid)
}
