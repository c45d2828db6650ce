package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// checkout copies the files of this checkout into a new directory, as one commit with the tag v0.1.0. Its hash depends
// only on the files.
func checkout(t *testing.T, dir string) {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skipf("this needs a checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		path := filepath.Join("../..", name)
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, and not committed yet
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, text, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "--all", "--force"},
		{"config", "user.name", "A"},
		{"config", "user.email", "a@example.com"},
		{"commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message", "A release"},
		{"tag", "v0.1.0"},
	} {
		git(t, dir, args...)
	}
}

// git runs git without the settings of the person who tests.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	const noon = "2026-11-26T12:00:00Z"
	command := exec.Command("git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_DATE="+noon, "GIT_COMMITTER_DATE="+noon)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// release builds the binary of a checkout for this machine, as goreleaser does.
func release(t *testing.T, dir string, env ...string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Builds []struct {
			Main                string
			Env, Flags, Ldflags []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil || len(config.Builds) != 1 {
		t.Fatalf("%v in .goreleaser.yaml: %v", config, err)
	}
	b, binary := config.Builds[0], filepath.Join(t.TempDir(), "prescient")
	args := append(append([]string{"build"}, b.Flags...), "-ldflags="+strings.Join(b.Ldflags, " "), "-o", binary, b.Main)
	build := exec.Command("go", args...)
	build.Dir, build.Env = dir, append(append(os.Environ(), b.Env...), env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", args, err, out)
	}
	text, err = os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	version := exec.Command(binary, "--version")
	version.Env = []string{}
	out, err := version.Output()
	want := regexp.MustCompile(`^prescient v0\.1\.0, schema \d+, go1\.\S+, revision ` +
		git(t, dir, "rev-parse", "HEAD") + ` of 2026-11-26T12:00:00Z\n$`)
	if err != nil || !want.Match(out) {
		t.Errorf("--version: %v: %s, want %s", err, out, want)
	}
	return text
}

// With PRESCIENT_TEST_LONG, each build compiles all packages: its cache is empty.
func TestABuildIsReproducible(t *testing.T) {
	t.Parallel()
	var binaries [2][]byte
	for i, name := range []string{"a", filepath.Join("quite", "another", "folder")} {
		dir := filepath.Join(t.TempDir(), name)
		checkout(t, dir)
		var env []string
		if os.Getenv("PRESCIENT_TEST_LONG") != "" {
			env = append(env, "GOCACHE="+t.TempDir())
		}
		binaries[i] = release(t, dir, env...)
		if bytes.Contains(binaries[i], []byte(dir)) {
			t.Errorf("the binary has %s in it", dir)
		}
	}
	if a, b := sha256.Sum256(binaries[0]), sha256.Sum256(binaries[1]); a != b {
		t.Errorf("two builds of one commit have the checksums %x and %x", a, b)
	}
}
