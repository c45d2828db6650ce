package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/trust"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// Config configures a Spool. Dir must be set.
type Config struct {
	// Dir is the directory of the spool, on a local file system. It must exist.
	Dir string
	// Grid has a width of whole minutes. Defaults to grid.Default.
	Grid grid.Grid
	// Grace is how long a check may go on after its run is told to stop. Defaults to 20 s.
	// Negative: not at all.
	Grace time.Duration
	// Timeout is how long a check may take. Defaults to the constant Timeout.
	Timeout time.Duration
	// Now is the clock that slots are compared with. Defaults to the machine's clock.
	Now func() time.Time
	// Logger gets a warning for each file with a problem. Defaults to slog.Default().
	Logger *slog.Logger
}

// Spool is a directory with a folder for each slot. It is safe for concurrent use, also by several
// processes.
type Spool struct{ cfg Config }

// State says what became of a file.
type State string

// The states.
const (
	StateWaiting State = "waiting" // its slot is not over
	StateMissed  State = "missed"  // its slot is over
	StateRefused State = "refused" // it cannot run as it is
	StateDone    State = "done"    // a run has finished it
	StateMoved   State = "moved"   // a run has moved it to a later slot
	StateFailed  State = "failed"  // a run has given it up
	StateLeft    State = "left"    // a run has left it in its slot without an outcome
)

// File is an entry of a slot's folder, or an entry of the spool's directory that is refused.
type File struct {
	Slot    time.Time `json:"slot,omitzero"` // that runs it: the first one at or after the instant in the folder's name
	Name    string    `json:"name"`          // of the file
	State   State     `json:"state"`         // waiting, missed, refused, done, moved, failed or left
	Problem string    `json:"problem"`       // the error of the check, or why the file was refused or left

	path string
	info fs.FileInfo
}

// ErrExists is returned by Add if the slot has a file of this name.
var ErrExists = errors.New("the name is taken")

const slotLayout = "200601021504" // without the first two digits, which are 20

func slotName(slot time.Time) string { return slot.UTC().Format(slotLayout)[2:] }

// parseSlot is the reverse of slotName.
func parseSlot(name string) (time.Time, bool) {
	slot, err := time.Parse(slotLayout, "20"+name)
	return slot, err == nil && slotName(slot) == name
}

// Open returns the spool of a directory that exists. It writes nothing. Returns a jobs.FieldError
// for a bad setting.
func Open(cfg Config) (*Spool, error) {
	cfg.Grace = max(0, cmp.Or(cfg.Grace, defaults.Grace))
	cfg.Timeout = cmp.Or(cfg.Timeout, Timeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Now == nil {
		cfg.Now = time.Now //nolint:forbidigo // a spool has no database that could say what time it is
	}
	switch {
	case spoken.Unitless(cfg.Grace) != "":
		return nil, &jobs.FieldError{Field: "grace", Message: spoken.Unitless(cfg.Grace)}
	case spoken.Unitless(cfg.Timeout) != "":
		return nil, &jobs.FieldError{Field: "timeout", Message: spoken.Unitless(cfg.Timeout)}
	case cfg.Grid.Width()%time.Minute != 0:
		return nil, &jobs.FieldError{Field: "width", Message: "must be whole minutes, like the names of the folders"}
	case cfg.Dir == "":
		return nil, &jobs.FieldError{
			Field: "dir", Message: "must be set, by spool.dir in the configuration or by PRESCIENT_SPOOL_DIR",
		}
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	if err := trust.File(cfg.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open spool: %w; make it by: mkdir -m 700 %s", err, spoken.Word(cfg.Dir))
	} else if err != nil {
		return nil, fmt.Errorf("open spool: %s is refused: %w", cfg.Dir, err)
	}
	return &Spool{cfg}, nil
}

// Now returns the instant that slots are compared with.
func (s *Spool) Now() time.Time { return s.cfg.Now().UTC() }

// Add puts an executable into the first slot at or after an instant, and returns that slot. A slot
// that has begun is never a target: the next one is. When Add returns, the whole file waits and
// survives a power cut. If Add fails or is killed, nothing waits. Returns ErrExists if the name is
// taken, and a jobs.FieldError for a bad argument.
func (s *Spool) Add(name string, content []byte, at time.Time) (time.Time, error) {
	now := s.Now()
	slot := grid.Later(s.cfg.Grid.Ceil(at), s.cfg.Grid.Next(now))
	switch {
	case badName(name):
		return slot, &jobs.FieldError{Field: "name", Message: nameRule}
	case !bytes.HasPrefix(content, []byte("#!")) && bytes.IndexByte(content, 0) < 0:
		return slot, &jobs.FieldError{Field: "content", Message: "must be a program, or a script that begins with #!"}
	case slot.Sub(now) > Horizon:
		return slot, &jobs.FieldError{Field: "at", Message: "must be within " + spoken.Duration(Horizon) + " from now"}
	}
	if err := s.place(filepath.Join(s.cfg.Dir, slotName(slot), name), content); err != nil {
		return slot, fmt.Errorf("add %s to slot %s: %w", name, slot.Format(time.RFC3339), err)
	}
	return slot, nil
}

// place makes an executable appear at a path, as a whole.
func (s *Spool) place(path string, content []byte) error {
	temp, err := os.CreateTemp(s.cfg.Dir, ".add-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(0o755), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := trust.File(folder); err != nil {
		return fmt.Errorf("the folder is refused: %w", err)
	}
	err = os.Link(temp.Name(), path) // unlike a rename, it replaces nothing
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: take another name or slot, or remove %s first", ErrExists, path)
	}
	return errors.Join(err, syncDir(folder), syncDir(s.cfg.Dir))
}

// syncDir makes the names in a directory survive a power cut.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

const nameRule = "must have 1 to 200 bytes, not begin with a dot, and have no slash, comma or control character"

func badName(name string) bool {
	return len(name) > 200 || !regexp.MustCompile(`^[^.,/[:cntrl:]][^,/[:cntrl:]]*$`).MatchString(name)
}

// Files returns the files that wait, were missed or are refused, in the order of the slots and of
// the names.
func (s *Spool) Files() (files []File, err error) {
	folders, err := read(s.cfg.Dir, func(f *File) error {
		at, ok := parseSlot(f.Name)
		switch {
		case strings.HasPrefix(f.Name, ".") || f.Name == doneDir || f.Name == failedDir || f.Name == outputDir:
			return fs.SkipDir
		case !ok:
			return errors.New("not named after a slot: want yymmddhhmm in UTC, such as " +
				slotName(s.cfg.Grid.Next(s.Now())))
		case !f.info.IsDir():
			return errors.New("not a folder")
		}
		f.Slot = s.cfg.Grid.Ceil(at)
		return trust.Info(f.path, f.info)
	})
	for _, folder := range folders {
		if folder.State == StateRefused {
			files = append(files, folder)
			continue
		}
		in, err := read(folder.path, func(f *File) error {
			if f.Slot = folder.Slot; f.Slot.Before(s.cfg.Grid.Floor(s.Now())) {
				f.State = StateMissed
			}
			plain, _ := parseName(f.Name)
			switch mode := f.info.Mode(); {
			case !mode.IsRegular():
				return errors.New("not a regular file: put the executable itself here")
			case mode.Perm()&0o111 == 0:
				return errors.New("not executable: chmod +x it, or move it away")
			case badName(plain):
				return errors.New("name: " + nameRule)
			}
			return trust.Info(f.path, f.info)
		})
		if err != nil {
			return nil, err
		}
		files = append(files, in...)
	}
	return files, err
}

// read returns the entries of a directory in the order of their names. An error of judge makes an
// entry refused, and fs.SkipDir leaves it out.
func read(dir string, judge func(*File) error) (list []File, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // the owner has removed it meanwhile
		}
		f := File{Name: entry.Name(), State: StateWaiting, path: filepath.Join(dir, entry.Name()), info: info}
		err = judge(&f)
		if errors.Is(err, fs.SkipDir) {
			continue
		} else if err != nil {
			f.State, f.Problem = StateRefused, err.Error()
		}
		list = append(list, f)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	return list, nil
}
