package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prescient-go/prescient/jobs"
)

// What is below the directory of a spool, and below the directory of an entry of its history.
const (
	historyDir     = "history"
	executableFile = "executable"
	outputFile     = "output"
	resultFile     = "result.json"
)

// maxName leaves room around a name for what stands beside it, in the 255 bytes of a file system.
const maxName = 200

// minSlot and maxSlot bound what two digits of a year can say.
var (
	minSlot = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	maxSlot = time.Date(2099, time.December, 31, 0, 0, 0, 0, time.UTC)
)

const slotLayout = "200601021504" // without the first two digits, which are 20

// slotName returns the name of a slot's directory: yymmddhhmm in UTC.
func slotName(slot time.Time) string { return slot.UTC().Format(slotLayout)[2:] }

// parseSlot is the reverse of slotName.
func parseSlot(name string) (time.Time, bool) {
	slot, err := time.Parse(slotLayout, "20"+name)
	return slot, err == nil && slotName(slot) == name
}

func (s *Spool) slotDir(slot time.Time) string { return filepath.Join(s.dir, slotName(slot)) }

func (s *Spool) path(slot time.Time, name string) string { return filepath.Join(s.slotDir(slot), name) }

// checkName returns a jobs.FieldError for a name that no executable of a spool can have.
func checkName(name string) error {
	rule := ""
	switch {
	case name == "":
		rule = "must not be empty"
	case len(name) > maxName:
		rule = fmt.Sprintf("must be at most %d bytes, is %d", maxName, len(name))
	case strings.HasPrefix(name, "."):
		rule = "must not begin with a dot: hidden files are not run"
	case strings.Contains(name, "/"):
		rule = "must not contain a slash"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		rule = "must be UTF-8 without control characters"
	default:
		return nil
	}
	return &jobs.FieldError{Field: "name", Rule: rule}
}

// refusal tells why an entry of a slot's directory is never run, and what to do about it. Empty: it is run.
func refusal(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return "a directory: executables belong into the slot's own directory"
	case !mode.IsRegular():
		return "no regular file: put the executable itself here"
	case mode.Perm()&0o111 == 0:
		return "not executable: chmod +x it, or move it away"
	case forEverybody(mode):
		return "everybody may write to it: chmod o-w it"
	}
	if err := checkName(info.Name()); err != nil {
		return err.Error()
	}
	return ""
}

// slotRefusal tells why nothing in an entry of the spool's directory is ever run. Empty: it is a slot.
func (s *Spool) slotRefusal(info fs.FileInfo) string {
	slot, ok := parseSlot(info.Name())
	switch {
	case !ok:
		return "not named after a slot: want yymmddhhmm in UTC, such as " + slotName(s.current())
	case !info.IsDir():
		return "no directory"
	case !s.Grid().Contains(slot):
		return fmt.Sprintf("not on the grid of %s: move what is in it to %s", s.Grid(), slotName(s.Grid().Ceil(slot)))
	case forEverybody(info.Mode()):
		return "everybody may write to it: chmod o-w it"
	}
	return ""
}

// readDir lists a directory in the order of the names. What disappears meanwhile is left out.
func readDir(path string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var list []fs.FileInfo
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err == nil:
			list = append(list, info)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return list, nil
}

// content splits a directory's entries into those that are run or refused, and the spool's own sidecars.
func content(entries []fs.FileInfo) (files, sidecars []fs.FileInfo) {
	for _, info := range entries {
		if info.Mode().IsRegular() && isSidecar(info.Name()) {
			sidecars = append(sidecars, info)
		} else {
			files = append(files, info)
		}
	}
	return files, sidecars
}
