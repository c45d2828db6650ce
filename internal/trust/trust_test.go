package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// entry is a file of any owner, group and mode.
type entry struct {
	fs.FileInfo
	mode fs.FileMode
	stat syscall.Stat_t
}

func (e entry) Mode() fs.FileMode { return e.mode }
func (e entry) Sys() any          { return &e.stat }

func TestAFileIsTrustedThatOnlyItsUserOrRootCanHaveWritten(t *testing.T) {
	t.Parallel()
	const me, other = 54321, 54322
	for name, test := range map[string]struct {
		uid, gid uint32
		mode     fs.FileMode
		do       string
		why      []string
	}{
		"one's own":                         {me, 100, 0o644, "", nil},
		"root's":                            {0, 100, 0o644, "", nil},
		"readable by the owner alone":       {me, me, 0o600, "", nil},
		"a private group may write":         {me, me, 0o664, "", nil},
		"root's group may write":            {0, 0, 0o664, "", nil},
		"another user's":                    {other, 100, 0o600, "chown 54321 'a file'", []string{"it belongs to uid 54322", "uid 54321"}},
		"a shared group may write":          {me, 54323, 0o664, "chmod go-w 'a file'", []string{"group gid 54323 may write to it", "0664"}},
		"root's that a shared group writes": {0, 54323, 0o660, "chmod go-w 'a file'", []string{"group gid 54323"}},
		"everybody may write":               {me, me, 0o646, "chmod go-w 'a file'", []string{"every user may write to it", "0646"}},
		"both":                              {other, 100, 0o666, "chown 54321 'a file' && chmod go-w 'a file'", []string{"54322", "every user"}},
		"a sticky directory":                {0, 0, fs.ModeDir | fs.ModeSticky | 0o777, "chmod go-w 'a file'", []string{"every user"}},
		"one's own link":                    {me, 100, fs.ModeSymlink | 0o777, "", nil},
		"another user's link":               {other, 100, fs.ModeSymlink | 0o777, "chown -h 54321 'a file'", []string{"the symbolic link belongs to uid 54322"}},
	} {
		err := judge("a file", entry{mode: test.mode, stat: syscall.Stat_t{Uid: test.uid, Gid: test.gid}}, me)
		refused, _ := errors.AsType[*Error](err)
		if test.do == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if refused == nil || refused.Do != test.do || refused.Path != "a file" {
			t.Errorf("%s: %v, want %q", name, err, test.do)
			continue
		}
		for _, part := range test.why {
			if !strings.Contains(refused.Why, part) {
				t.Errorf("%s: %q lacks %q", name, refused.Why, part)
			}
		}
	}
}

func TestFilesAreCheckedAsTheyStand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, open, link := filepath.Join(dir, "own"), filepath.Join(dir, "open"), filepath.Join(dir, "link")
	for path, mode := range map[string]fs.FileMode{own: 0o600, open: 0o602} {
		if err := errors.Join(os.WriteFile(path, []byte("text"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(own); err != nil || string(text) != "text" || File(own) != nil || File(dir) != nil {
		t.Errorf("one's own: %q, %v, %v, %v", text, err, File(own), File(dir))
	}
	for _, path := range []string{open, link} {
		_, err := ReadFile(path)
		for _, err := range []error{err, File(path)} {
			if refused, ok := errors.AsType[*Error](err); !ok || refused.Path != path {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	missing := filepath.Join(dir, "missing")
	if _, err := ReadFile(missing); !errors.Is(err, fs.ErrNotExist) || !errors.Is(File(missing), fs.ErrNotExist) {
		t.Errorf("a missing file: %v, %v", err, File(missing))
	}
}
