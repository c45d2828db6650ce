package doctor

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/trust"
)

func TestAUserWhoCannotReadAFileIsFound(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "access")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "prescient.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := "nobody"
	if me, err := user.Current(); err != nil || me.Username == other {
		t.Skip("no other user is known:", err)
	}
	u, err := user.Lookup(other)
	if err != nil || trust.PrivateGroup(u) == "" {
		t.Skip("there is no such user with a private group:", err)
	}
	group := trust.PrivateGroup(u)
	for _, test := range []struct {
		name, file   string
		dirMode      os.FileMode
		fileMode     os.FileMode
		what, remedy string
	}{
		{other, file, 0o755, 0o600, "user nobody cannot read " + file + " (-rw-------)", "chown root:" + group + " " + file + " && chmod 0640 " + file},
		{other, file, 0o700, 0o644, "because it may not enter " + dir, "chmod o+x " + dir},
		{other, file, 0o755, 0o644, "", ""},
		{other, file + ".new", 0o755, 0o644, "does not exist", ": install -o root -g " + group + " -m 0640 prescient.yaml.new " + file + ".new"},
		{other, dir + "/new/prescient.yaml", 0o755, 0o644, "does not exist", "install -d -m 0755 " + dir + "/new && install -o root"},
		{"no_such_user", file, 0o755, 0o644, "there is no user no_such_user", "useradd"},
		{"root", file, 0o700, 0o600, "", ""},
	} {
		if err := os.Chmod(file, test.fileMode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, test.dirMode); err != nil {
			t.Fatal(err)
		}
		got := CheckAccess(test.name, test.file)
		if got == nil {
			got = &Refusal{}
		}
		if (got.What == "") != (test.what == "") || !strings.Contains(got.What, test.what) || !strings.Contains(got.Do, test.remedy) {
			t.Errorf("%s, %s: %+v", test.name, test.file, got)
		}
	}
}
