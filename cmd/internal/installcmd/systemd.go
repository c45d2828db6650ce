package installcmd

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/cmd/internal/install"
)

func newCmdSystemd(f *factory.Factory, runF factory.Run[*installOptions]) *cobra.Command {
	var o installOptions
	c := f.WithOutput(&cobra.Command{
		Use:   "systemd",
		Short: "Print units that run this binary at each slot, or as a daemon",
		Long: `Print units of systemd that run this binary at each slot and catch up after the run: a timer, and the services
that it starts. With --daemon, print one service that does both. The units are sandboxed. They have no privileges,
cannot see home directories, and can write only to metrics.file, spool.dir and the files of destinations and receivers.
Without --write, the command installs nothing.

systemd passes the configuration file that this command has read to the service, so only root needs to be able to read
it.

` + widthHelp,
		Example: `  prescient install systemd --write /etc/systemd/system
  systemctl daemon-reload && systemctl enable --now ` + f.Name + `-run.timer

  prescient install systemd --daemon --write /etc/systemd/system
  systemctl daemon-reload && systemctl enable --now ` + f.Name + `-daemon`,
		Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return runF(c.Context(), f, &o) },
	})
	o.flags(f, c)
	o.binaryFlag(c)
	o.writeFlags(c)
	c.Flags().BoolVar(&o.Daemon, "daemon", false, "run a daemon instead of commands at each slot")
	return c
}

// hidden are the directories of which a service that is locked in sees nothing.
var hidden = []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"}

func printSystemd(ctx context.Context, f *factory.Factory, o *installOptions) error {
	s, err := o.fillMachine(ctx, f)
	if err != nil {
		return err
	}
	if dir := hides(s.Binary); dir != "" {
		return exit.Usagef("the units cannot see %s, since nothing below %s is shown to them: install the binary, "+
			"say in /usr/local/bin, and name it by --binary", s.Binary, dir)
	}
	s.Writes = writes(f)
	for _, path := range s.Writes {
		if !filepath.IsAbs(path) {
			return exit.Usagef("the units write to no %s: "+
				"let metrics.file, spool.dir and the files of destinations and receivers be paths from the root", path)
		}
		if dir := hides(path); dir != "" {
			return exit.Usagef("the units cannot write to %s, since nothing below %s is shown to them: "+
				"let metrics.file, spool.dir and the files of destinations and receivers be elsewhere, say below /var/lib",
				path, dir)
		}
	}
	files, err := install.Systemd(s)
	if err != nil {
		return installError(f, err)
	}
	return deliver(f, o, files)
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
func writes(f *factory.Factory) (dirs []string) {
	cfg := f.Config()
	if cfg.Metrics.File != "" {
		dirs = append(dirs, filepath.Dir(cfg.Metrics.File))
	}
	for _, d := range cfg.AllDestinations() {
		if to, err := url.Parse(d.URL.Reveal()); err == nil && to.Scheme == "file" {
			dirs = append(dirs, filepath.Dir(to.Path))
		}
	}
	for _, r := range cfg.Receivers {
		if to, err := url.Parse(r.URL.Reveal()); err == nil && to.Scheme == "file" {
			dirs = append(dirs, filepath.Dir(to.Path))
		}
	}
	if cfg.Spool.Dir != "" {
		dirs = append(dirs, cfg.Spool.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
