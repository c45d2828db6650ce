package install

import (
	"fmt"
	"strings"
)

// The beginnings of the two lines around a block of a user's crontab. The rest of both is its mark.
const (
	beginMark = "# BEGIN prescient: "
	endMark   = "# END prescient: "
)

// mark distinguishes the block of this setup from the blocks of other binaries, configurations and
// stores.
func (s Setup) mark() string { return s.Binary + s.flags() }

// flags returns the flags that name the configuration file and the store.
func (s Setup) flags() string { return " --config " + s.Config + s.Only() }

// Merged is a user's crontab after the block of a setup was put in or taken out.
type Merged struct {
	Text   string   // the whole crontab
	Old    string   // the earlier block; empty: none
	Others []string // the marks of prescient's other blocks, which stay
}

// Merge puts a block that Crontab has returned into a user's crontab. It replaces the earlier block
// of this setup, or appends the block. An empty block removes the earlier one. All other lines
// stay, byte by byte; a last line without an end gets one. Returns an error if the marks in the
// crontab do not pair, or if two blocks have the mark of the setup.
func (s Setup) Merge(crontab, block string) (Merged, error) {
	if err := s.check(); err != nil {
		return Merged{}, err
	}
	var before, old, after strings.Builder
	var others []string
	rest, open, opened, found := &before, "", 0, false
	n := 0
	for line := range strings.Lines(crontab) {
		n++
		begun, begins := strings.CutPrefix(strings.TrimSpace(line), beginMark)
		ended, ends := strings.CutPrefix(strings.TrimSpace(line), endMark)
		switch {
		case begins && open != "":
			return Merged{}, unpaired(opened, "has no END before line %d", n)
		case begins && begun == s.mark() && found:
			return Merged{}, unpaired(n, "is there twice")
		case begins:
			open, opened = begun, n
		case ends && ended != open:
			return Merged{}, unpaired(n, "ends, and did not begin")
		}
		part := rest
		if open != "" && open == s.mark() {
			part = &old
		}
		part.WriteString(line)
		switch {
		case ends && open == s.mark():
			rest, found = &after, true
		case ends:
			others = append(others, open)
		}
		if ends {
			open = ""
		}
	}
	if open != "" {
		return Merged{}, unpaired(opened, "has no END")
	}
	text := before.String()
	if block != "" && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return Merged{text + block + after.String(), old.String(), others}, nil
}

// unpaired returns an error about the block with a mark in a line.
func unpaired(line int, what string, args ...any) error {
	return fmt.Errorf("line %d: the block of this mark %s. Mend or remove its marks with: crontab -e",
		line, fmt.Sprintf(what, args...))
}
