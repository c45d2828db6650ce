package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/install"
	"github.com/prescient-go/prescient/cmd/internal/cli"
)

// cronZone is the zone of a name; of this machine's clock where there is none, whatever TZ says: cron does not know.
func cronZone(name string) (*time.Location, error) {
	const local = "/etc/localtime"
	if name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil {
			return nil, usagef("--timezone: %w", err)
		}
		return zone, nil
	}
	rules, err := os.ReadFile(local)
	if errors.Is(err, fs.ErrNotExist) {
		return time.UTC, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read this machine's zone: %w; give it by --timezone", err)
	}
	target, _ := filepath.EvalSymlinks(local)
	_, name, _ = strings.Cut(target, "/zoneinfo/")
	zone, err := time.LoadLocationFromTZData(cmp.Or(name, local), rules)
	if err != nil {
		return nil, fmt.Errorf("understand this machine's zone in %s: %w; give it by --timezone", local, err)
	}
	return zone, nil
}

func newSystemd(a *App) *cobra.Command {
	var o installOptions
	c := a.withOutput(&cobra.Command{
		Use:   "systemd",
		Short: "Print units that run this binary at each slot, or as a daemon",
		Long: `Print the units of systemd that run this binary at each slot and catch up after it: a timer, and the services that
it starts. With --daemon, the service that does all of it by itself. They are locked in: no privilege, nothing of the
machine to be written but where the configuration says so (metrics.file, events.destination, spool.dir), nothing of anybody's home
to be seen. Nothing is installed, unless --write says where.

The configuration file that this command has read is handed to the service by systemd, so it may be root's alone.

` + widthHelp,
		Example: `  prescient install systemd --write /etc/systemd/system
  systemctl daemon-reload && systemctl enable --now ` + a.Name + `-run.timer

  prescient install systemd --daemon --write /etc/systemd/system
  systemctl daemon-reload && systemctl enable --now ` + a.Name + `-daemon`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return printSystemd(c.Context(), a, &o) },
	})
	o.flags(a, c)
	o.binaryFlag(c)
	o.writeFlags(c)
	c.Flags().BoolVar(&o.Daemon, "daemon", false, "run a daemon instead of commands at each slot")
	return c
}

// hidden are the directories of which a service that is locked in sees nothing.
var hidden = []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"}

func printSystemd(ctx context.Context, a *App, o *installOptions) error {
	s, err := o.fillMachine(ctx, a)
	if err != nil {
		return err
	}
	if dir := hides(s.Binary); dir != "" {
		return usagef("the units cannot see %s, since nothing below %s is shown to them: install the binary, "+
			"say in /usr/local/bin, and name it by --binary", s.Binary, dir)
	}
	s.Writes = a.writes()
	for _, path := range s.Writes {
		if !filepath.IsAbs(path) {
			return usagef("the units write to no %s: let metrics.file, events.destination and spool.dir be paths from the root", path)
		}
		if dir := hides(path); dir != "" {
			return usagef("the units cannot write to %s, since nothing below %s is shown to them: let metrics.file, events.destination "+
				"and spool.dir be elsewhere, say below /var/lib", path, dir)
		}
	}
	files, err := install.Systemd(s)
	if err != nil {
		return a.installError(err)
	}
	return a.deliver(o, files)
}

// hides returns the directory that is hidden from services with the path below it, or nothing.
func hides(path string) string {
	for _, dir := range hidden {
		if strings.HasPrefix(path+"/", dir) {
			return dir
		}
	}
	return ""
}

// writes are the directories that the settings let runs write to.
func (a *App) writes() (dirs []string) {
	cfg := a.Config()
	if cfg.Metrics.File != "" {
		dirs = append(dirs, filepath.Dir(cfg.Metrics.File))
	}
	if to, err := url.Parse(cfg.Events.Destination.Reveal()); err == nil && to.Scheme == "file" {
		dirs = append(dirs, filepath.Dir(to.Path))
	}
	if cfg.Spool.Dir != "" {
		dirs = append(dirs, cfg.Spool.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
