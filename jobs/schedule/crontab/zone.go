package crontab

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // 450 kB, for machines without a time zone database
)

const (
	// maxZones bounds the zones that are kept; the database has 600 names.
	maxZones = 1000
	// longestName is in bytes. The longest name of the database has 32.
	longestName = 100
)

// zones holds the zones that were asked for: reading one from the file system takes longer than all
// else in Parse.
var zones = struct {
	sync.RWMutex
	byName map[string]*time.Location
}{byName: map[string]*time.Location{}}

// location returns the time zone of a name, UTC for an empty one.
func location(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	zones.RLock()
	zone := zones.byName[name]
	zones.RUnlock()
	if zone != nil {
		return zone, nil
	}
	zone, err := load(name)
	if err != nil {
		return nil, err
	}
	zones.Lock()
	defer zones.Unlock()
	if len(zones.byName) < maxZones {
		zones.byName[name] = zone
	}
	return zone, nil
}

// load reads a time zone. Beside the names of the IANA database, its directory has files that are
// not the same on each machine (localtime) or that count leap seconds (right/). A path such as ./right/UTC
// names them, too, and SQL does not know it.
func load(name string) (*time.Location, error) {
	if !fs.ValidPath(name) || len(name) > longestName {
		return nil, fmt.Errorf("unknown time zone %.60q: use a name of the IANA database, such as Europe/Berlin", name)
	}
	directory, _, _ := strings.Cut(name, "/")
	switch strings.ToLower(directory) {
	case "local", "localtime", "posixrules":
		return nil, fmt.Errorf("time zone %q is not the same on each machine: name one, such as Europe/Berlin", name)
	case "posix", "right":
		return nil, fmt.Errorf("time zone %q: leave out %q", name, directory+"/")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: use a name of the IANA database, such as Europe/Berlin", err)
	}
	return zone, nil
}
