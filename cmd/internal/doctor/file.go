package doctor

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/prescient-go/prescient/config"
)

// File finds a configuration file with secrets that every user of the machine can read. The path of
// a URL may be a secret, such as a webhook's, or not: that is a note.
func File(path string, mode fs.FileMode, entries []config.Entry) []Finding {
	if mode&0o004 == 0 {
		return nil
	}
	for _, kind := range []struct {
		severity    Severity
		what, mends string
		has         func(value string) bool
	}{
		{Action, "a secret", "chmod o= %s  -- and change the secret, if other people use the machine", hasSecret},
		{Note, "a URL whose path may be a secret", "chmod o= %s  -- if the URL is a secret, " +
			"such as the URL of a webhook", hasPath},
	} {
		i := slices.IndexFunc(entries, func(e config.Entry) bool { return e.Origin == "file "+path && kind.has(e.Value) })
		if i < 0 {
			continue
		}
		return []Finding{{
			Name: "file", Severity: kind.severity, Do: fmt.Sprintf(kind.mends, path),
			What: fmt.Sprintf("every user of this machine can read %s, and it has %s: %s", path, kind.what, entries[i].Key),
		}}
	}
	return nil
}

// Skipped finds the configuration files in default places that another user may have written, and
// that no command reads.
func Skipped(list []config.Skipped) (found []Finding) {
	for _, s := range list {
		f := action("configuration file "+s.File+" is not read, since another user may have written it: "+s.Why,
			"%s  -- if its content is right; else remove it", s.Do)
		f.Name = "file"
		found = append(found, f)
	}
	return found
}

// hiddenPath is the end of the value of a config.Endpoint whose path and query are masked.
const hiddenPath = "/" + config.Mask

func hasPath(value string) bool { return strings.HasSuffix(value, hiddenPath) }

// hasSecret reports whether more of a value is masked than the path of a URL.
func hasSecret(value string) bool {
	return strings.Contains(strings.TrimSuffix(value, hiddenPath), config.Mask)
}
