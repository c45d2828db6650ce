package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeInstall makes the programs of a PostgreSQL that say which version they are.
func fakeInstall(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		writeProgram(t, filepath.Join(dir, program), fmt.Sprintf("echo '%s'", version))
	}
	return dir
}

// writeProgram keeps parallel tests from forking meanwhile: a child that has the file open makes it
// "text file busy".
func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestNewestInstallComesFirst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		versions map[string]string
		want     []string
	}{
		"nothing":              {nil, nil},
		"by number, not text":  {map[string]string{"a": "9.6.24", "b": "15.9", "c": "15.10 (Debian 15.10-1)"}, []string{"15.10", "15.9"}},
		"too old":              {map[string]string{"a": "14.23"}, nil},
		"a beta":               {map[string]string{"a": "17.2", "b": "19beta1"}, []string{"19.0", "17.2"}},
		"not a PostgreSQL":     {map[string]string{"a": "no version"}, nil},
		"newest of many years": {map[string]string{"a": "15.13", "b": "18.1", "c": "16.4"}, []string{"18.1", "16.4", "15.13"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tempDir(t)
			for dir, version := range test.versions {
				fakeInstall(t, filepath.Join(root, dir, "bin"), "postgres (PostgreSQL) "+version)
			}
			var got []string
			for _, i := range findInstalls(t.Context(), []string{filepath.Join(root, "*", "bin"), filepath.Join(root, "a", "bin")}) {
				got = append(got, fmt.Sprintf("%d.%d", i.major, i.minor))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInstallOfTheDataWinsOverPATHAndThatOverTheNewest(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	for _, version := range []string{"18", "17", "16"} {
		fakeInstall(t, filepath.Join(root, version), "postgres (PostgreSQL) "+version+".1")
	}
	s := &Server{places: [][]string{{filepath.Join(root, "16"), filepath.Join(root, "17")}, {filepath.Join(root, "*")}}}
	for major, want := range map[int]string{0: "17", 18: "18", 16: "16"} {
		got, err := s.install(t.Context(), major)
		if err != nil || filepath.Base(got.dir) != want {
			t.Errorf("for data of version %d: %v (%v), want %s", major, got, err, want)
		}
	}
}

func TestIncompleteInstallIsNotTaken(t *testing.T) {
	t.Parallel()
	dir := fakeInstall(t, tempDir(t), "postgres (PostgreSQL) 16.4")
	if err := os.Remove(filepath.Join(dir, "initdb")); err != nil {
		t.Fatal(err)
	}
	if got := findInstalls(t.Context(), []string{dir}); got != nil {
		t.Errorf("found %v", got)
	}
}
