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
