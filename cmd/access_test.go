package cmd_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prescient-go/prescient/internal/trust"
)

// shared is a directory with a settings file and the program, of root, for another user.
type shared struct {
	*testing.T
	dir, settings string
	other         syscall.Credential
}

func newShared(t *testing.T) *shared {
	t.Helper()
	nobody, err := user.Lookup("nobody")
	if os.Getuid() != 0 || err != nil || trust.PrivateGroup(nobody) == "" {
		t.Skip("this needs root, and a user nobody with a group of its own:", err)
	}
	dir, err := os.MkdirTemp("/tmp", "shared")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	uid, _ := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, _ := strconv.ParseUint(nobody.Gid, 10, 32)
	s := &shared{t, dir, filepath.Join(dir, "prescient.yaml"), syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = program.Close() }()
	to, err := os.OpenFile(filepath.Join(dir, "prescient"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(to, program)
		err = errors.Join(err, to.Close())
	}
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(s.settings, []byte("run: {page: 500}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs the program in the directory, as root or another user, and returns what it says.
func (s *shared) run(as *syscall.Credential, args ...string) (said string, code int) {
	s.Helper()
	c := exec.CommandContext(s.Context(), filepath.Join(s.dir, "prescient"), args...)
	c.Dir, c.Env, c.SysProcAttr = s.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}, &syscall.SysProcAttr{Credential: as}
	out, err := c.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.Fatalf("%v: %v", args, err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// follow runs the command that a message advises.
func (s *shared) follow(message string) {
	s.Helper()
	m := regexp.MustCompile(`(chown .*?)(  --|\n|"|$)`).FindStringSubmatch(message)
	if m == nil {
		s.Fatalf("there is no command in %s", message)
	}
	if out, err := exec.CommandContext(s.Context(), "sh", "-c", m[1]).CombinedOutput(); err != nil {
		s.Fatalf("%s: %v: %s", m[1], err, out)
	}
}

// isReadByBoth fails unless root and the other user read the file at the default place.
func (s *shared) isReadByBoth() {
	s.Helper()
	for name, as := range map[string]*syscall.Credential{"root": nil, "nobody": &s.other} {
		if said, _ := s.run(as, "config", "show"); !strings.Contains(said, s.settings) || strings.Contains(said, "skipped") {
			s.Errorf("%s does not read the file:\n%s", name, said)
		}
	}
}

func TestTheAdviceOfInstallCrontabMakesAFileThatItsUserAndRootRead(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	install := []string{"install", "crontab", "--width", "15m", "--user", "nobody", "--write", filepath.Join(s.dir, "crontab")}
	steps := 0
	for said, code := s.run(nil, install...); code != 0; said, code = s.run(nil, install...) {
		if steps++; steps > 2 {
			t.Fatalf("after %d steps: %s", steps, said)
		}
		s.follow(said)
	}
	if s.isReadByBoth(); steps == 0 {
		t.Error("it has advised nothing")
	}
}

func TestRootReadsAFileOfAnotherUserAfterTheAdviceAndTheUserStillDoes(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	if err := os.Chown(s.settings, int(s.other.Uid), int(s.other.Gid)); err != nil {
		t.Fatal(err)
	}
	said, code := s.run(nil, "status")
	if code != 2 || !strings.Contains(said, "no database.url is set, and configuration file "+s.settings+", which may have it, was skipped") {
		t.Errorf("exit code %d: %s", code, said)
	}
	s.follow(said)
	s.isReadByBoth()
}
