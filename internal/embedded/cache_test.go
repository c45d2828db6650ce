package embedded

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Two clusters that initdb makes never have the same identifier.
const identifier = "select system_identifier::text from pg_control_system()"

func TestANewServerBeginsWithTheCopyOfTheCache(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(tempDir(t), "made", "cache")
	first, second := cached(t, cache), cached(t, cache)
	start(t, first)
	query(t, first, "create table of_the_first (); select 'made'")
	start(t, second)
	want := queryAt(t, first.SuperuserURL(), identifier)
	if got := queryAt(t, second.SuperuserURL(), identifier); got != want {
		t.Errorf("the second server was made by initdb")
	}
	if got := query(t, second, "select count(*) from pg_class where relname = 'of_the_first'"); got != "0" {
		t.Error("the servers share data")
	}
	const which = `select current_user || ' ' || current_setting('data_checksums') || ' ' || current_setting('max_wal_size')`
	if got := query(t, second, which); got != "prescient on 2GB" {
		t.Errorf("role, checksums and settings are %s", got)
	}
	if names := names(t, cache); len(names) != 1 {
		t.Errorf("the cache has %v", names)
	}
}

func TestACopyThatIsNotWholeIsMadeAgain(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(tempDir(t), "cache")
	start(t, cached(t, cache))
	entry := filepath.Join(cache, names(t, cache)[0])
	whole, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	broken := map[string][]byte{
		"empty": nil, "shorter than its checksum": {1}, "cut off": whole[:len(whole)/2], "a flipped bit": flipped,
	}
	if testing.Short() {
		broken = map[string][]byte{"a flipped bit": flipped}
	}
	for name, content := range broken {
		if err := os.WriteFile(entry, content, 0o600); err != nil {
			t.Fatal(err)
		}
		start(t, cached(t, cache))
		again, err := os.ReadFile(entry)
		if err != nil || len(again) != len(whole) || string(again) == string(content) {
			t.Errorf("%s: the entry was not made again (%v)", name, err)
		}
	}
}

func TestAServerStartsWithoutTheCache(t *testing.T) {
	t.Parallel()
	file := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(tempDir(t), "cache")
	for name, s := range map[string]*Server{
		"a file":              cached(t, file),
		"below a file":        cached(t, filepath.Join(file, "cache")),
		"below a pseudo file": cached(t, "/proc/self/cache"),
		"the data is to last": open(t, Config{Dir: filepath.Join(tempDir(t), "pg"), Cache: cache}),
	} {
		t.Run(name, func(t *testing.T) {
			start(t, s)
			query(t, s, "select 1")
		})
	}
	if _, err := os.Stat(cache); !os.IsNotExist(err) {
		t.Errorf("a server whose data is to last has used the cache (%v)", err)
	}
}

func TestServersThatAreMadeAtOnceShareACache(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(tempDir(t), "cache")
	results := make(chan error)
	servers := []*Server{cached(t, cache), cached(t, cache), cached(t, cache)}
	for _, s := range servers {
		go func() { results <- s.Start(t.Context()) }()
	}
	for range servers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	start(t, cached(t, cache))
	if names := names(t, cache); len(names) != 1 {
		t.Errorf("the cache has %v", names)
	}
}

func TestTheCacheKeepsWhatWasUsedLast(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(tempDir(t), "cache")
	start(t, cached(t, cache))
	used := names(t, cache)[0]
	now := time.Now()
	for i, name := range []string{"a.data", "b.data", "c.data", "d.data", "dead.part", "other"} {
		path := filepath.Join(cache, name)
		age := time.Duration(i+1) * time.Minute
		if name == "dead.part" {
			age = 2 * time.Hour
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(cache, used), now, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	start(t, cached(t, cache)) // which uses its entry
	tidy(cache)
	want := []string{"a.data", "b.data", "c.data", "other", used}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, cache)); diff != "" {
		t.Error(diff)
	}
}

func cached(t *testing.T, cache string) *Server {
	t.Helper()
	return open(t, Config{Dir: filepath.Join(tempDir(t), "pg"), Settings: quick, Cache: cache})
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}
