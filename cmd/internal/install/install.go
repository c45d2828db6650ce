// Package install writes the files that run a binary at every slot on a machine or a cluster: a
// crontab, systemd's units, the manifests of Kubernetes and a Helm chart. It is pure: the caller
// describes the setup, and gets text.
package install

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
)

// Setup describes what to run, and how.
type Setup struct {
	// Name of the installed objects. For systemd and Kubernetes: lower-case letters, digits and -,
	// at most 40.
	Name string

	// Program is the command that prints the text, for the reader. Empty: Name.
	Program string

	// Binary and Config are absolute paths of the binary and of the configuration file. In
	// Kubernetes, the binary is in Image, and Config is the name of a key of Secret. It may be
	// empty: then the key database-url is enough.
	Binary, Config string

	// Store is the store to work on, or a pattern of the settings. Empty, and always in Kubernetes:
	// all stores.
	Store string

	// Receiver is the receiver that runs tell of findings. Empty: none.
	Receiver string

	// Width is the distance between two slots. WidthFrom names its source, for the reader.
	Width     time.Duration
	WidthFrom string

	// Zone is the time zone of cron's clock. Its rules at Now and in the two years after it count.
	// Nil: UTC.
	Zone *time.Location
	Now  time.Time
	// Above is the zone that CRON_TZ gives to the lines above the block of a user's crontab. Some crons
	// obey it, so the lines fit both zones. Nil: none.
	Above *time.Location

	// Grace is run.grace: how long a run that is stopped lets its checks go on.
	Grace time.Duration

	// User runs the lines of a crontab in /etc/cron.d. Empty: a user's crontab, which names no
	// user. Cron mails what they print to root.
	User string

	// Image is the image of the pods, Secret the Secret with their configuration, and Replicas the
	// number of pods that share a slot. Shards is the number of shards of the stores (0: one). With
	// several, each has one pod. Ports are the TCP ports that pods connect to.
	Image, Secret    string
	Replicas, Shards int
	Ports            []int

	// Writes are the directories on the machine that the binary writes to, and that its user may
	// write to.
	Writes []string

	// Daemon chooses the daemon, instead of commands that are started at each slot.
	Daemon bool
}

// File is one of the files to install.
type File struct {
	Path string `json:"path"` // relative to where such files are
	Text string `json:"text"` // the content
}

// ErrWidth is returned for slots that do not all begin at a full minute: neither cron nor a CronJob
// starts a run then.
var ErrWidth = errors.New("only a daemon runs slots that do not all begin with a minute")

var (
	label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	plain = regexp.MustCompile(`^[\w.@/:+,-]*$`)
)

const maxLabel = 40

// checkName refuses a bad name of a Kubernetes object. It leaves room for the suffix of each
// object.
func (s Setup) checkName() error {
	if !label.MatchString(s.Name) || len(s.Name) > maxLabel {
		return fmt.Errorf("the name %q: want lower-case letters, digits and -, at most %d of them: give it by --name", s.Name,
			maxLabel)
	}
	return s.check()
}

// check refuses text that needs quotes, which differ in each kind of file.
func (s Setup) check() error {
	for _, text := range append([]string{s.Name, s.Binary, s.Config, s.Store, s.User, s.Image, s.Secret},
		s.Writes...) {
		if !plain.MatchString(text) {
			return fmt.Errorf("%q cannot be written without quotes: want letters, digits and . _ @ / : + , - alone", text)
		}
	}
	return nil
}

// Slots returns the width as people write it.
func (s Setup) Slots() string { return duration.Format(s.Width) }

// Stop returns how many seconds systemd and Kubernetes wait for a process that they stop, before they kill it. The time
// after Grace is for records and for a slow machine.
func (s Setup) Stop() int64 { return max(45, int64(math.Ceil(s.Grace.Seconds()))+25) }

// Only returns the flag that names Store.
func (s Setup) Only() string {
	if s.Store == "" {
		return ""
	}
	return " --store " + s.Store
}

// ConfigName returns the name of the configuration file.
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
