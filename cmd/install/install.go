// Package install writes what a machine or a cluster needs to run a binary at every slot: a crontab, systemd's units,
// the manifests of Kubernetes and a Helm chart. It is pure: the caller says what the setup is, and gets text.
package install

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/prescient-go/prescient/config/duration"
)

// Setup is what is to be run, and how.
type Setup struct {
	// Name of what is installed: for systemd and Kubernetes, lower-case letters, digits and -, at most 40.
	Name string

	// Program is the command that prints it, for the reader. Empty: Name.
	Program string

	// Binary and Config are paths from the root: of the binary, and of the configuration file. In Kubernetes, whose
	// binary is that of Image, Config is the name of a key of Secret, and may be empty: its key database-url is enough.
	Binary, Config string

	// Store is the store, or the pattern of the settings, that is worked on; empty: all there are. In Kubernetes it is always all.
	Store string

	// Width is the distance between two slots, and WidthFrom says who knows it, for the reader.
	Width     time.Duration
	WidthFrom string

	// Zone is that of cron's clock; what it does at Now and in the two years after it counts. Nil: UTC.
	Zone *time.Location
	Now  time.Time

	// User runs the lines of a crontab in /etc/cron.d; empty: it is a crontab that names none. MailTo gets what they print.
	User, MailTo string

	// Image is that of the pods, Secret the Secret that holds their configuration, Replicas how many of them share a
	// slot, Shards how many shards the stores are divided into (0: one), each with so many pods, and Ports the TCP ports that they connect to.
	Image, Secret    string
	Replicas, Shards int
	Ports            []int

	// Writes are the directories on the machine that the binary writes to, and that its user may write to.
	Writes []string

	// Daemon asks for the daemon, instead of commands that are started at each slot.
	Daemon bool
}

// File is one file of what is to be installed.
type File struct {
	Path string `json:"path"` // relative to where such files are
	Text string `json:"text"`
}

// ErrWidth is returned for slots that do not begin with a minute: neither cron nor a CronJob starts a run then.
var ErrWidth = errors.New("only a daemon runs slots that do not all begin with a minute")

var (
	label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	plain = regexp.MustCompile(`^[\w.@/:+,-]*$`)
)

const maxLabel = 40

// checkName refuses what is no name of an object of Kubernetes, with room for the part that tells them apart.
func (s Setup) checkName() error {
	if !label.MatchString(s.Name) || len(s.Name) > maxLabel {
		return fmt.Errorf("the name %q: want lower-case letters, digits and -, at most %d of them: give it by --name", s.Name, maxLabel)
	}
	return s.check()
}

// check refuses what would have to be quoted, which is done differently in each kind of file.
func (s Setup) check() error {
	for _, text := range append([]string{s.Name, s.Binary, s.Config, s.Store, s.User, s.MailTo, s.Image, s.Secret}, s.Writes...) {
		if !plain.MatchString(text) {
			return fmt.Errorf("%q cannot be written without quotes: want letters, digits and . _ @ / : + , - alone", text)
		}
	}
	return nil
}

// Slots is the width as people write it.
func (s Setup) Slots() string { return duration.Format(s.Width) }

// Only is the flag that names Store.
func (s Setup) Only() string {
	if s.Store == "" {
		return ""
	}
	return " --store " + s.Store
}

// ConfigName is the name of the configuration file.
func (s Setup) ConfigName() string { return path.Base(s.Config) }

//go:embed *.tmpl all:chart
var texts embed.FS

// render executes one of the templates for files outside the chart.
func render(name string, data any) (string, error) {
	t, err := template.ParseFS(texts, "*.tmpl")
	if err != nil {
		return "", fmt.Errorf("parse templates: %w", err)
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("write %s: %w", strings.TrimSuffix(name, ".tmpl"), err)
	}
	return b.String(), nil
}
