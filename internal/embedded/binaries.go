package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prescient-go/prescient/internal/pg"
)

var (
	// ErrNoBinaries is returned by Start when the machine has no PostgreSQL 15 or newer. The
	// error's text says what to type to install it.
	ErrNoBinaries = errors.New("no PostgreSQL 15 or newer is installed")

	// ErrVersion is returned by Start when the data was made by a major version that is not
	// installed. The error's text says which, and how to go on. The data is left as it is.
	ErrVersion = errors.New("the data is of another PostgreSQL version")
)

// install is a directory with the programs of one PostgreSQL.
type install struct {
	dir          string
	major, minor int
}

func (i install) program(name string) string { return filepath.Join(i.dir, name) }

func (i install) String() string { return fmt.Sprintf("%d.%d (%s)", i.major, i.minor, i.dir) }

// places are groups of globs. PATH comes first, because the user has chosen it. Then come the
// directories of Debian and Ubuntu, of Fedora and its PGDG packages, and of Homebrew.
func places() [][]string {
	return [][]string{filepath.SplitList(os.Getenv("PATH")), {
		"/usr/lib/postgresql/*/bin",
		"/usr/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	}}
}

// install chooses the programs: those of the data's version or, when there is no data yet (0), the
// newest of PATH, or else of the other places.
func (s *Server) install(ctx context.Context, major int) (install, error) {
	var found []install
	for _, group := range s.places {
		found = append(found, findInstalls(ctx, group)...)
	}
	if len(found) == 0 {
		return install{}, fmt.Errorf("start the embedded PostgreSQL: %w; install it, or set database.url to a server\n"+
			"  Debian, Ubuntu:  sudo apt-get install -y postgresql\n"+
			"  Fedora:          sudo dnf install -y postgresql-server\n"+
			"  macOS:           brew install postgresql@17", ErrNoBinaries)
	}
	if major == 0 {
		return found[0], nil
	}
	if i := slices.IndexFunc(found, func(i install) bool { return i.major == major }); i >= 0 {
		return found[i], nil
	}
	return install{}, fmt.Errorf("start the embedded PostgreSQL: %w: %s was made by PostgreSQL %d, but there is only %v; "+
		"install PostgreSQL %d and start again, then stay with it or move the data with pg_upgrade or pg_dump. "+
		"Nothing was changed", ErrVersion, s.data(), major, found, major)
}

// findInstalls lists what is there, newest first.
func findInstalls(ctx context.Context, globs []string) []install {
	var found []install
	seen := map[string]bool{}
	for _, glob := range globs {
		dirs, _ := filepath.Glob(glob) // a PATH entry that is no valid pattern holds nothing for us
		for _, dir := range dirs {
			target, err := filepath.EvalSymlinks(dir)
			if err != nil || seen[target] {
				continue
			}
			seen[target] = true
			if i, ok := inspect(ctx, dir); ok {
				found = append(found, i)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b install) int {
		return cmp.Or(b.major-a.major, b.minor-a.minor)
	})
	return found
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// inspect reports the PostgreSQL in a directory, when all of it is there and it is new enough.
func inspect(ctx context.Context, dir string) (install, bool) {
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return install{}, false
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	match := versionPattern.FindStringSubmatch(strings.TrimSpace(string(out)))
	if err != nil || match == nil {
		return install{}, false
	}
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2]) // a beta has none
	return install{dir, major, minor}, major >= pg.MinMajor
}
