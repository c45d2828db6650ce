package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestStartWithoutBinariesSaysWhatToType(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.places = [][]string{{filepath.Join(tempDir(t), "*", "bin")}}
	err := s.Start(t.Context())
	if !errors.Is(err, ErrNoBinaries) {
		t.Errorf("not ErrNoBinaries: %v", err)
	}
	wantError(t, err, "sudo apt-get install -y postgresql\n", "sudo dnf install", "brew install", "database.url")
}

func TestStartOfAnotherMajorVersionNamesBothAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := started(t)
	stop(t, s)
	version := filepath.Join(s.data(), "PG_VERSION")
	if err := os.WriteFile(version, []byte("13\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.Start(t.Context())
	if !errors.Is(err, ErrVersion) {
		t.Errorf("not ErrVersion: %v", err)
	}
	wantError(t, err, "made by PostgreSQL 13", "install PostgreSQL 13", "pg_upgrade")
	if _, err := os.Stat(version); err != nil {
		t.Errorf("the data was touched: %v", err)
	}
}

func TestStartWhereNothingCanBeMadeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Dir: filepath.Join(file, "pg")})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Start(t.Context()), file, "not a directory", "XDG_DATA_HOME", "database.url")
}

func TestStartAsRootWhereItsUserCannotPassNamesTheClosedDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root starts the server as another user")
	}
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{Dir: filepath.Join(dir, "pg")})
	wantError(t, s.Start(t.Context()), dir+" is closed", "chmod o+x '"+dir+"'")
}

func TestStartWithAWrongSettingShowsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	s := started(t)
	stop(t, s)
	s.settings = map[string]string{"no_such_setting": "1"}
	wantError(t, s.Start(t.Context()), s.log(), "no_such_setting")
	s.settings = quick
	start(t, s)
}

func TestStartInADirectoryOfOtherThingsTouchesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := os.MkdirAll(s.data(), 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(s.data()) }()
	wantError(t, s.Start(t.Context()), s.data(), "no PostgreSQL data directory")
}

func TestInitdbThatFailsLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	s := setup(t)
	fake := fakeInstall(t, tempDir(t), "postgres (PostgreSQL) 99.1")
	writeProgram(t, filepath.Join(fake, "initdb"), `touch "$2/PG_VERSION"; echo 'No space left on device' >&2; exit 1`)
	s.places = [][]string{{fake}}
	wantError(t, s.Start(t.Context()), "No space left on device")
	if got := status(t, s); got.state() != "not made yet" {
		t.Errorf("after the failure it is %s", got.state())
	}
	s.places = places()
	start(t, s)
}
