// Command licenses prints the licences of the modules that are linked into the binary prescient of a checkout, with
// their texts. It fails if the licence of a module is unknown, or asks for more than its text.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: licenses CHECKOUT")
	}
	modules, err := linked(args[0])
	if err != nil {
		return err
	}
	return write(w, modules)
}

// module is one that is linked, or Go's own.
type module struct {
	path, version string
	files         map[string]string // the texts of its licences, by their paths in it
}

// systems are those that a release has binaries for.
var systems = []string{"linux", "darwin"}

// isLicense matches the names of files that have to go with a binary.
var isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([.-].*)?$`)

// linked returns the modules of the packages that the binary of a checkout needs on any system, sorted by path.
func linked(checkout string) ([]module, error) {
	found := map[string]module{}
	for _, system := range systems {
		list := exec.Command("go", "list", "-deps", "-json=Dir,Root,Standard,Module", "./cmd/prescient")
		list.Dir, list.Env, list.Stderr = checkout, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system), os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir      string
				Root     string // Go's own, of a package of the standard library
				Standard bool
				Module   *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read the list of packages: %w", err)
			}
			m, root := module{path: "Go", version: runtime.Version()}, p.Root
			switch {
			case p.Standard:
				p.Dir = root
			case p.Module == nil || p.Module.Main:
				continue
			default:
				m, root = module{path: p.Module.Path, version: p.Module.Version}, p.Module.Dir
			}
			if old, ok := found[m.path]; ok {
				m = old
			} else {
				m.files = map[string]string{}
			}
			if err := m.read(root, p.Dir); err != nil {
				return nil, err
			}
			found[m.path] = m
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b module) int { return strings.Compare(a.path, b.path) }), nil
}

// read adds the texts in the directory of a package and in those above it, up to the root of its module.
func (m module) read(root, dir string) error {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("read a package of %s: %w", m.path, err)
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !isLicense.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
				continue
			}
			path := filepath.Join(dir, entry.Name())
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read a licence of %s: %w", m.path, err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil || !fs.ValidPath(name) {
				return fmt.Errorf("%s is not in %s", path, root)
			}
			m.files[name] = string(text)
		}
		if dir == root {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// allowed are licences that ask only for their text.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// known is the part of a text, in percent, that has to be a licence's: the rest is names and headings.
const known = 75

// licenses returns the licences of a module. It returns an error if the module has none, or one that is not allowed.
func (m module) licenses() ([]string, error) {
	var ids []string
	for name, text := range m.files {
		base := strings.ToLower(filepath.Base(name))
		if strings.HasPrefix(base, "notice") || strings.HasPrefix(base, "patents") {
			continue // goes with the licence beside it
		}
		cover := licensecheck.Scan([]byte(text))
		if cover.Percent < known {
			return nil, fmt.Errorf("%s %s: %s is no licence that is known: only %.0f%% of it match one",
				m.path, m.version, name, cover.Percent)
		}
		for _, match := range cover.Match {
			if !slices.Contains(allowed, match.ID) {
				return nil, fmt.Errorf("%s %s: %s has licence %s, want one of %s",
					m.path, m.version, name, match.ID, strings.Join(allowed, ", "))
			}
			ids = append(ids, match.ID)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s %s has no licence", m.path, m.version)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// write prints a list of modules, and then each text once.
func write(w io.Writer, modules []module) error {
	var list, texts strings.Builder
	users := map[string][]string{} // of a text
	var order []string
	var failed []error
	for _, m := range modules {
		ids, err := m.licenses()
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(&list, "  %s %s: %s\n", m.path, m.version, strings.Join(ids, ", "))
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			text := strings.TrimSpace(m.files[name])
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], m.path+"/"+name)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, text := range order {
		fmt.Fprintf(&texts, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 80), strings.Join(users[text], "\n"), text)
	}
	const head = "The binary prescient contains Go's standard library and these modules. Their licences follow.\n\n"
	_, err := io.WriteString(w, head+list.String()+texts.String())
	return err
}
