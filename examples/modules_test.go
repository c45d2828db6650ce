package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// A reader copies an example into a module of their own, which cannot import what is below a folder internal. The tests
// of the examples compile them; this one resolves their imports in such a module.
func TestTheGoExamplesCanBeModulesOfTheirOwn(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod = regexp.MustCompile(`^module .*`).ReplaceAll(mod, []byte("module example.org/shop"))
	mod = append(mod, "\nrequire github.com/prescient-go/prescient v0.0.0\n\nreplace github.com/prescient-go/prescient => "+root+"\n"...)
	sum, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"orders", "server"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(name)); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string][]byte{"go.mod": mod, "go.sum": sum} {
				if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "./...")
			list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
			if out, err := list.CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
