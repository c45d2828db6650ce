package doctor

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/prescient-go/prescient/config"
)

// File finds a configuration file that has secrets and that everybody on the machine may read.
func File(path string, mode fs.FileMode, entries []config.Entry) []Finding {
	if mode&0o004 == 0 {
		return nil
	}
	for _, e := range entries {
		if e.Origin == "file "+path && strings.Contains(e.Value, config.Mask) {
			f := action(fmt.Sprintf("everybody on this machine can read %s, and it has a secret: %s", path, e.Key),
				"chmod o= %s  -- and change the secret, where others use the machine", path)
			f.Name = "file"
			return []Finding{f}
		}
	}
	return nil
}

// Skipped finds the configuration files in default places that another user may have written, and that no command reads.
func Skipped(list []config.Skipped) (found []Finding) {
	for _, s := range list {
		f := action(fmt.Sprintf("configuration file %s is not read, since another user may have written it: %s", s.File, s.Why),
			"%s  -- if its content is right; else remove it", s.Do)
		f.Name = "file"
		found = append(found, f)
	}
	return found
}
